import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics.pairwise import paired_cosine_distances

from export.errors import Refused
from export.gate import (
    GateLimits,
    ScoreLoss,
    VectorLoss,
    check_scores,
    check_vectors,
    pairs_of,
    score_loss,
    vector_loss,
)
from training.reranking.ranking import RankingSet

LIMITS = GateLimits()
QUESTIONS = RankingSet(
    ["a", "b"], ["p", "q", "r"], [np.array([0, 1, 2]), np.array([2, 0])], [frozenset({1}), frozenset({2})]
)
VECTORS = VectorLoss(8, 0.995, 0.98, sts_pairs=4, sts_fp32=80.0, sts_int8=79.6)
SCORES = ScoreLoss(40, 0.995, 0.01, 0.04, questions=10, acc1_fp32=80.0, acc1_int8=79.0)


def check(**changes: float | None) -> None:
    """Check a loss of vectors or of scores that passes, but for `changes`."""
    loss = VECTORS if changes.keys() <= vars(VECTORS).keys() else SCORES
    replace(loss, **changes).check(LIMITS)


@pytest.mark.parametrize(
    "changes",
    [
        {"texts": 8},
        {"sts_int8": 83.0},
        {"sts_pairs": 0, "sts_fp32": None, "sts_int8": None},
        {"pairs": 40},
        {"acc1_int8": 90.0},
        {"questions": 0, "acc1_fp32": None, "acc1_int8": None},
    ],
)
def test_a_small_loss_a_gain_and_nothing_to_measure_pass(changes: dict[str, float | None]) -> None:
    check(**changes)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"mean_cosine_to_fp32": 0.9893, "sts_int8": 79.4},
            r"mean cosine to fp32 is 0\.9893 over 8 texts, the limit is 0\.99 \(--min-cosine\); STS falls by 0\.60 "
            r"points from 80\.00 to 79\.40 over 4 pairs, the limit is 0\.5 \(--max-sts-drop\)$",
        ),
        ({"sts_int8": 79.4}, "int8 refused: STS falls by"),
        (
            {"rank_correlation_to_fp32": 0.98, "acc1_int8": 70.0},
            r"rank correlation to fp32 is 0\.9800 over 40 pairs, the limit is 0\.99 \(--min-rank-correlation\); acc@1 "
            r"falls by 10\.00 points from 80\.00 to 70\.00 over 10 questions, the limit is 1\.0 \(--max-acc1-drop\)$",
        ),
        *(
            ({name: math.nan}, "nan")
            for name in ("mean_cosine_to_fp32", "sts_int8", "rank_correlation_to_fp32", "acc1_int8")
        ),
    ],
)
def test_a_large_loss_or_nan_is_refused_with_figures(changes: dict[str, float], refusal: str) -> None:
    with pytest.raises(Refused, match=refusal):
        check(**changes)


def test_every_fp32_output_must_be_torchs() -> None:
    torch_ND = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert check_vectors(torch_ND, torch_ND, LIMITS) == {"parity_texts": 2, "min_cosine_to_torch": 1}
    assert check_scores(torch_ND[0], torch_ND[0] + 5e-5, LIMITS)["parity_pairs"] == 2
    for wrong in ([0.6, 0.8], [math.nan, 1.0]):
        other_ND = np.array([[1.0, 0.0], wrong], np.float32)
        with pytest.raises(Refused, match=r"the lowest cosine to torch is .* over 2 texts, the limit is 0.99999"):
            check_vectors(torch_ND, other_ND, LIMITS)
        with pytest.raises(Refused, match=r"a score differs by .* from torch's over 2 pairs, the limit is 0\.0001"):
            check_scores(torch_ND[1], other_ND[1], LIMITS)


def test_sts_is_spearman_of_the_cosines() -> None:
    fp32, int8 = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
    pairs = [(5.0, "a", "b"), (3.0, "b", "c"), (1.0, "d", "e"), (0.0, "e", "a")]
    found = vector_loss(fp32, int8, {text: row for row, text in enumerate("abcdef")}, pairs)
    rows = [(0, 1), (1, 2), (3, 4), (4, 0)]
    for vectors, score in ((fp32, found.sts_fp32), (int8, found.sts_int8)):
        cosine = 1 - paired_cosine_distances(*(vectors[list(side)] for side in zip(*rows, strict=True)))
        assert score == pytest.approx(100 * spearmanr([5, 3, 1, 0], cosine).statistic)
    assert (found.texts, found.sts_pairs) == (6, 4)
    assert found.mean_cosine_to_fp32 == pytest.approx(1 - paired_cosine_distances(fp32, int8).mean(), abs=1e-6)


def test_acc1_is_of_questions_and_correlation_of_all_pairs() -> None:
    assert pairs_of(QUESTIONS) == [("a", "p"), ("a", "q"), ("a", "r"), ("b", "r"), ("b", "p")]
    fp32 = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.5], np.float32)  # the last is of no question
    int8 = np.array([0.1, 0.7, 0.75, 0.8, 0.3, 0.5], np.float32)  # the first question's best is another
    found = score_loss(fp32, int8, QUESTIONS)
    assert (found.acc1_fp32, found.acc1_int8, found.questions, found.pairs) == (100, 50, 2, 6)
    assert found.rank_correlation_to_fp32 == pytest.approx(spearmanr(fp32, int8).statistic)
    assert found.max_difference_to_fp32 == pytest.approx(0.55)
    assert score_loss(fp32, int8, RankingSet([], [], [], [])).acc1_fp32 is None
