import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from export.errors import Refused
from export.reranking.gate import (
    RankingFidelity,
    RankingLimits,
    RankingLoss,
    check_fidelity,
    check_loss,
    measure_fidelity,
    measure_loss,
    pairs_of,
)
from training.reranking.ranking import RankingSet

QUESTIONS = RankingSet(
    ["a", "b"], ["p", "q", "r"], [np.array([0, 1, 2]), np.array([2, 0])], [frozenset({1}), frozenset({2})]
)
NONE = RankingSet([], [], [], [])


def loss(**changes: float | None) -> RankingLoss:
    """One that passes, but for `changes`."""
    passing: dict[str, float | None] = {
        "pairs": 40,
        "rank_correlation_to_fp32": 0.995,
        "mean_difference_to_fp32": 0.01,
        "max_difference_to_fp32": 0.04,
        "questions": 10,
        "acc1_fp32": 80.0,
        "acc1_int8": 79.0,
    }
    return RankingLoss(**passing | changes)  # type: ignore[arg-type]


def test_a_small_loss_passes_and_so_does_a_gain() -> None:
    check_loss(loss(), RankingLimits())
    check_loss(loss(acc1_int8=90.0), RankingLimits())
    check_loss(loss(questions=0, acc1_fp32=None, acc1_int8=None), RankingLimits())


def test_both_faults_are_named_with_their_options() -> None:
    with pytest.raises(
        Refused,
        match=r"rank correlation to fp32 is 0\.9800 over 40 pairs, the limit is 0\.99 \(--min-rank-correlation\); "
        r"acc@1 falls by 10\.00 points from 80\.00 to 70\.00 over 10 questions, the limit is 1\.0 \(--max-acc1-drop\)$",
    ):
        check_loss(loss(rank_correlation_to_fp32=0.98, acc1_int8=70.0), RankingLimits())


@pytest.mark.parametrize("field", ["rank_correlation_to_fp32", "acc1_int8"])
def test_nan_never_passes(field: str) -> None:
    with pytest.raises(Refused, match="nan"):
        check_loss(loss(**{field: math.nan}), RankingLimits())


def test_fp32_must_be_torch_in_its_worst_pair() -> None:
    torch_scores, scores = np.array([0.2, 0.9], np.float32), np.array([0.2, 0.8], np.float32)
    assert measure_fidelity(torch_scores, scores) == RankingFidelity(2, pytest.approx(0.1))
    check_fidelity(RankingFidelity(2, 0.00005), RankingLimits())
    for difference in (0.0002, math.nan):
        with pytest.raises(Refused, match=r"a score differs by .* from torch's over 2 pairs, the limit is 0\.0001"):
            check_fidelity(RankingFidelity(2, difference), RankingLimits())


def test_acc1_is_of_the_questions_and_the_correlation_of_all_pairs() -> None:
    assert pairs_of(QUESTIONS) == [("a", "p"), ("a", "q"), ("a", "r"), ("b", "r"), ("b", "p")]
    fp32 = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.5], np.float32)  # the last is of no question
    int8 = np.array([0.1, 0.7, 0.75, 0.8, 0.3, 0.5], np.float32)  # the first question's best is another
    found = measure_loss(fp32, int8, QUESTIONS)
    assert (found.acc1_fp32, found.acc1_int8, found.questions, found.pairs) == (100, 50, 2, 6)
    assert found.rank_correlation_to_fp32 == pytest.approx(spearmanr(fp32, int8).statistic)
    assert found.max_difference_to_fp32 == pytest.approx(0.55)
    assert measure_loss(fp32, int8, NONE).acc1_fp32 is None
