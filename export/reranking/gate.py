"""Decides whether a re-ranker's graph is good enough to be served. Knows scores and limits, no files.

N pairs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from export.errors import Refused
from training.reranking.ranking import RankingSet, score_ranking

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RankingLimits:
    """What is refused."""

    min_rank_correlation: float = 0.99  # int8: Spearman's rho of its scores and those of fp32
    max_acc1_drop: float = 1.0  # int8: points of acc@1 x 100 below fp32
    max_difference_to_torch: float = 1e-4  # fp32, each pair's score: the same arithmetic in another order


@dataclass(frozen=True)
class RankingFidelity:
    """How close the fp32 graph comes to the checkpoint."""

    parity_pairs: int
    max_difference_to_torch: float


@dataclass(frozen=True)
class RankingLoss:
    """What int8 costs against the fp32 graph; the fields of acc@1 are None without questions."""

    pairs: int
    rank_correlation_to_fp32: float
    mean_difference_to_fp32: float
    max_difference_to_fp32: float
    questions: int
    acc1_fp32: float | None
    acc1_int8: float | None


def measure_fidelity(torch_N: Floats, fp32_N: Floats) -> RankingFidelity:
    """Compare the checkpoint's scores with the graph's."""
    return RankingFidelity(len(torch_N), float(np.abs(torch_N - fp32_N).max()))


def measure_loss(fp32_N: Floats, int8_N: Floats, questions: RankingSet) -> RankingLoss:
    """Compare the scores of both graphs.

    Args: fp32_N, int8_N: of each question's candidates in turn, then of other pairs.
    """
    difference_N = np.abs(fp32_N - int8_N)
    return RankingLoss(
        pairs=len(fp32_N),
        rank_correlation_to_fp32=float(spearmanr(fp32_N, int8_N).statistic),
        mean_difference_to_fp32=float(difference_N.mean()),
        max_difference_to_fp32=float(difference_N.max()),
        questions=len(questions),
        acc1_fp32=_acc1(questions, fp32_N),
        acc1_int8=_acc1(questions, int8_N),
    )


def check_fidelity(fidelity: RankingFidelity, limits: RankingLimits) -> None:
    """Refuse a graph that does not compute what torch computes.

    Raises: Refused.
    """
    if not fidelity.max_difference_to_torch <= limits.max_difference_to_torch:  # `not <=`: NaN is refused too
        raise Refused(
            f"fp32 refused: a score differs by {fidelity.max_difference_to_torch:.6f} from torch's over "
            f"{fidelity.parity_pairs} pairs, the limit is {limits.max_difference_to_torch}"
        )


def check_loss(loss: RankingLoss, limits: RankingLimits) -> None:
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
    """Each query with each of its candidates, in the order in which `measure_loss` takes their scores."""
    return [
        (query, questions.passages[index])
        for query, row in zip(questions.queries, questions.candidates, strict=True)
        for index in row.tolist()
    ]


def _acc1(questions: RankingSet, scores_N: Floats) -> float | None:
    """acc@1 x 100."""
    if not len(questions):
        return None
    ends = np.cumsum([len(row) for row in questions.candidates])
    by_question: Sequence[Floats] = np.split(scores_N[: ends[-1]], ends[:-1])
    return score_ranking(questions, by_question)["acc@1"]
