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
class VectorFidelity:
    """How close the vectors of the fp32 graph come to the checkpoint's."""

    parity_texts: int
    min_cosine_to_torch: float


@dataclass(frozen=True)
class VectorLoss:
    """What int8 costs an encoder against the fp32 graph; the STS fields are None without STS pairs."""

    texts: int
    mean_cosine_to_fp32: float
    min_cosine_to_fp32: float
    sts_pairs: int
    sts_fp32: float | None
    sts_int8: float | None


@dataclass(frozen=True)
class ScoreFidelity:
    """How close the scores of the fp32 graph come to the checkpoint's."""

    parity_pairs: int
    max_difference_to_torch: float


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


def vector_fidelity(torch_ND: Floats, fp32_ND: Floats) -> VectorFidelity:
    """Compare the checkpoint's vectors with the graph's."""
    return VectorFidelity(len(torch_ND), float(cosines(torch_ND, fp32_ND).min()))


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


def check_vector_fidelity(fidelity: VectorFidelity, limits: GateLimits) -> None:
    """Refuse a graph that does not compute what torch computes.

    Raises: Refused.
    """
    if not fidelity.min_cosine_to_torch >= limits.min_cosine_to_torch:  # `not >=`: NaN is refused too
        raise Refused(
            f"fp32 refused: the lowest cosine to torch is {fidelity.min_cosine_to_torch:.6f} over "
            f"{fidelity.parity_texts} texts, the limit is {limits.min_cosine_to_torch}"
        )


def check_vector_loss(loss: VectorLoss, limits: GateLimits) -> None:
    """Refuse int8 weights that lost too much.

    Raises: Refused: names every figure over its limit, with the option that moves it.
    """
    faults = []
    if not loss.mean_cosine_to_fp32 >= limits.min_cosine:
        faults.append(
            f"mean cosine to fp32 is {loss.mean_cosine_to_fp32:.4f} over {loss.texts} texts, "
            f"the limit is {limits.min_cosine} (--min-cosine)"
        )
    if loss.sts_fp32 is not None and loss.sts_int8 is not None:
        drop = loss.sts_fp32 - loss.sts_int8
        if not drop <= limits.max_sts_drop:
            faults.append(
                f"STS falls by {drop:.2f} points from {loss.sts_fp32:.2f} to {loss.sts_int8:.2f} over "
                f"{loss.sts_pairs} pairs, the limit is {limits.max_sts_drop} (--max-sts-drop)"
            )
    if faults:
        raise Refused(f"int8 refused: {'; '.join(faults)}")


def score_fidelity(torch_N: Floats, fp32_N: Floats) -> ScoreFidelity:
    """Compare the checkpoint's scores with the graph's."""
    return ScoreFidelity(len(torch_N), float(np.abs(torch_N - fp32_N).max()))


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


def check_score_fidelity(fidelity: ScoreFidelity, limits: GateLimits) -> None:
    """Refuse a graph that does not compute what torch computes.

    Raises: Refused.
    """
    if not fidelity.max_difference_to_torch <= limits.max_difference_to_torch:  # `not <=`: NaN is refused too
        raise Refused(
            f"fp32 refused: a score differs by {fidelity.max_difference_to_torch:.6f} from torch's over "
            f"{fidelity.parity_pairs} pairs, the limit is {limits.max_difference_to_torch}"
        )


def check_score_loss(loss: ScoreLoss, limits: GateLimits) -> None:
    """Refuse int8 weights that lost too much.

    Raises: Refused: names every figure over its limit, with the option that moves it.
    """
    faults = []
    if not loss.rank_correlation_to_fp32 >= limits.min_rank_correlation:
        faults.append(
            f"rank correlation to fp32 is {loss.rank_correlation_to_fp32:.4f} over {loss.pairs} pairs, "
            f"the limit is {limits.min_rank_correlation} (--min-rank-correlation)"
        )
    if loss.acc1_fp32 is not None and loss.acc1_int8 is not None:
        drop = loss.acc1_fp32 - loss.acc1_int8
        if not drop <= limits.max_acc1_drop:
            faults.append(
                f"acc@1 falls by {drop:.2f} points from {loss.acc1_fp32:.2f} to {loss.acc1_int8:.2f} over "
                f"{loss.questions} questions, the limit is {limits.max_acc1_drop} (--max-acc1-drop)"
            )
    if faults:
        raise Refused(f"int8 refused: {'; '.join(faults)}")


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
