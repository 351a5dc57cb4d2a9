"""Decides whether a graph is good enough to be served. Knows outputs and limits, no files.

N rows, P pairs, D dims
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from export.errors import Refused
from training.reranking.ranking import RankingSet, score_ranking

Floats = npt.NDArray[np.float32]
StsPair = tuple[float, str, str]  # score, sentence, sentence
Bound = tuple[bool, str]  # whether it is held, and what to say if not; a figure of NaN holds none


@dataclass(frozen=True)
class GateLimits:
    """What is refused: the first three of an encoder, the others of a re-ranker."""

    min_cosine: float = 0.99  # int8: mean cosine to fp32
    max_sts_drop: float = 0.5  # int8: points of Spearman x 100 below fp32
    min_cosine_to_torch: float = 0.99999  # fp32, each text: the same arithmetic in another order
    min_rank_correlation: float = 0.99  # int8: Spearman's rho of its scores and those of fp32
    max_acc1_drop: float = 1.0  # int8: points of acc@1 x 100 below fp32
    max_difference_to_torch: float = 1e-4  # fp32, each pair's score: the same arithmetic in another order


@dataclass(frozen=True)
class VectorLoss:
    """What int8 costs an encoder against the fp32 graph; the STS fields are None without STS pairs."""

    texts: int
    mean_cosine_to_fp32: float
    min_cosine_to_fp32: float
    sts_pairs: int
    sts_fp32: float | None
    sts_int8: float | None

    def check(self, limits: GateLimits) -> None:
        """Raises: Refused: names every figure beyond its limit, with the option that moves it."""
        cosine = f"mean cosine to fp32 is {self.mean_cosine_to_fp32:.4f} over {self.texts} texts, "
        _refuse(
            "int8",
            (
                self.mean_cosine_to_fp32 >= limits.min_cosine,
                f"{cosine}the limit is {limits.min_cosine} (--min-cosine)",
            ),
            _fall("STS", self.sts_fp32, self.sts_int8, f"{self.sts_pairs} pairs", limits.max_sts_drop, "max-sts-drop"),
        )


@dataclass(frozen=True)
class ScoreLoss:
    """What int8 costs a re-ranker against the fp32 graph; the fields of acc@1 are None without questions."""

    pairs: int
    rank_correlation_to_fp32: float
    mean_difference_to_fp32: float
    max_difference_to_fp32: float
    questions: int
    acc1_fp32: float | None
    acc1_int8: float | None

    def check(self, limits: GateLimits) -> None:
        """Raises: Refused: names every figure beyond its limit, with the option that moves it."""
        correlation = f"rank correlation to fp32 is {self.rank_correlation_to_fp32:.4f} over {self.pairs} pairs, "
        questions = f"{self.questions} questions"
        _refuse(
            "int8",
            (
                self.rank_correlation_to_fp32 >= limits.min_rank_correlation,
                f"{correlation}the limit is {limits.min_rank_correlation} (--min-rank-correlation)",
            ),
            _fall("acc@1", self.acc1_fp32, self.acc1_int8, questions, limits.max_acc1_drop, "max-acc1-drop"),
        )


def check_vectors(torch_ND: Floats, fp32_ND: Floats, limits: GateLimits) -> dict[str, float]:
    """Compare the checkpoint's vectors with the fp32 graph's.

    Returns: figures for the manifest.
    Raises:  Refused: the graph does not compute what torch computes.
    """
    lowest = float(cosines(torch_ND, fp32_ND).min())
    fault = f"the lowest cosine to torch is {lowest:.6f} over {len(torch_ND)} texts, the limit is "
    _refuse("fp32", (lowest >= limits.min_cosine_to_torch, f"{fault}{limits.min_cosine_to_torch}"))
    return {"parity_texts": len(torch_ND), "min_cosine_to_torch": lowest}


def check_scores(torch_N: Floats, fp32_N: Floats, limits: GateLimits) -> dict[str, float]:
    """Like `check_vectors`, of a re-ranker's scores."""
    largest = float(np.abs(torch_N - fp32_N).max())
    fault = f"a score differs by {largest:.6f} from torch's over {len(torch_N)} pairs, the limit is "
    _refuse("fp32", (largest <= limits.max_difference_to_torch, f"{fault}{limits.max_difference_to_torch}"))
    return {"parity_pairs": len(torch_N), "max_difference_to_torch": largest}


def vector_loss(fp32_ND: Floats, int8_ND: Floats, row_of: Mapping[str, int], pairs: Sequence[StsPair]) -> VectorLoss:
    """Compare the vectors of both graphs.

    Args: row_of: of each text of `pairs`, among the vectors.
    """
    cosine_N = cosines(fp32_ND, int8_ND)
    return VectorLoss(
        texts=len(fp32_ND),
        mean_cosine_to_fp32=float(cosine_N.mean()),
        min_cosine_to_fp32=float(cosine_N.min()),
        sts_pairs=len(pairs),
        sts_fp32=_sts(fp32_ND, row_of, pairs),
        sts_int8=_sts(int8_ND, row_of, pairs),
    )


def score_loss(fp32_N: Floats, int8_N: Floats, questions: RankingSet) -> ScoreLoss:
    """Compare the scores of both graphs.

    Args: fp32_N, int8_N: of each question's candidates in turn, then of other pairs.
    """
    difference_N = np.abs(fp32_N - int8_N)
    return ScoreLoss(
        pairs=len(fp32_N),
        rank_correlation_to_fp32=float(spearmanr(fp32_N, int8_N).statistic),
        mean_difference_to_fp32=float(difference_N.mean()),
        max_difference_to_fp32=float(difference_N.max()),
        questions=len(questions),
        acc1_fp32=_acc1(questions, fp32_N),
        acc1_int8=_acc1(questions, int8_N),
    )


def pairs_of(questions: RankingSet) -> list[tuple[str, str]]:
    """Each query with each of its candidates, in the order in which `score_loss` takes their scores."""
    return [
        (query, questions.passages[index])
        for query, row in zip(questions.queries, questions.candidates, strict=True)
        for index in row.tolist()
    ]


def cosines(left_ND: npt.NDArray[np.floating], right_ND: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Cosines row by row: (N,), in float64, since the fp32 gate's limit is 0.99999."""
    left_ND, right_ND = left_ND.astype(np.float64), right_ND.astype(np.float64)
    norm_N = np.linalg.norm(left_ND, axis=1) * np.linalg.norm(right_ND, axis=1)
    cosine_N: npt.NDArray[np.float64] = (left_ND * right_ND).sum(axis=1) / norm_N
    return cosine_N


def _refuse(precision: str, *bounds: Bound) -> None:
    if faults := [fault for is_held, fault in bounds if not is_held]:
        raise Refused(f"{precision} refused: {'; '.join(faults)}")


def _fall(score: str, fp32: float | None, int8: float | None, over: str, limit: float, option: str) -> Bound:
    """How far a score x 100 may fall; one that was not measured holds."""
    if fp32 is None or int8 is None:
        return True, ""
    figures = f"{fp32 - int8:.2f} points from {fp32:.2f} to {int8:.2f} over {over}"
    return fp32 - int8 <= limit, f"{score} falls by {figures}, the limit is {limit} (--{option})"


def _sts(embedding_ND: Floats, row_of: Mapping[str, int], pairs: Sequence[StsPair]) -> float | None:
    """Spearman's rho x 100 between human score and cosine."""
    if not pairs:
        return None
    left_PD = embedding_ND[[row_of[left] for _, left, _ in pairs]]
    right_PD = embedding_ND[[row_of[right] for _, _, right in pairs]]
    return float(spearmanr([score for score, _, _ in pairs], cosines(left_PD, right_PD)).statistic) * 100


def _acc1(questions: RankingSet, scores_N: Floats) -> float | None:
    """acc@1 x 100."""
    if not len(questions):
        return None
    ends = np.cumsum([len(row) for row in questions.candidates])
    by_question: Sequence[Floats] = np.split(scores_N[: ends[-1]], ends[:-1])
    return score_ranking(questions, by_question)["acc@1"]
