import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances, manhattan_distances

from training.alignment.losses import (
    DISTANCES,
    Distance,
    Negatives,
    all_distances,
    choose_negatives,
    pair_loss,
    paired_distances,
    same_pairs,
)

ORACLES = {"euclidean": euclidean_distances, "manhattan": manhattan_distances, "cosine": cosine_distances}
DISTANCE = torch.tensor([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 3.0, 4.0], [2.0, 3.0, 0.0, 5.0], [9.0, 4.0, 5.0, 0.0]])
OWN = torch.eye(4, dtype=torch.bool)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_distance_is_scikit_learns(distance: Distance) -> None:
    left, right = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))
    expected = ORACLES[distance](left.numpy(), right.numpy())
    np.testing.assert_allclose(all_distances(left, right, distance), expected, atol=1e-5)
    np.testing.assert_allclose(paired_distances(left, right, distance), np.diag(expected), atol=1e-5)


def test_the_loss_of_a_hand_computed_case() -> None:
    left = torch.zeros(3, 2)
    right = torch.tensor([[0.3, 0.4], [0.3, 0.4], [3.0, 4.0]])  # 0.5, 0.5 and 5 apart
    unlike = torch.tensor([0, 1, 1])
    # 1/2 0.5^2, 1/2 (1 - 0.5)^2, and nothing: the last pair is further apart than the margin
    loss = pair_loss(left, right, unlike, distance="euclidean", margin=1.0)
    assert loss.item() == pytest.approx((0.125 + 0.125 + 0) / 3)


def test_the_margin_counts_in_the_units_of_the_distance() -> None:
    left, right = torch.zeros(1, 2), torch.tensor([[0.3, 0.4]])
    loss = pair_loss(left, right, torch.tensor([1]), distance="manhattan", margin=1.0)
    assert loss.item() == pytest.approx(0.5 * (1 - 0.7) ** 2)


@pytest.mark.parametrize("distance", DISTANCES)
def test_equal_vectors_have_a_finite_slope(distance: Distance) -> None:
    left = torch.ones(2, 3, requires_grad=True)
    pair_loss(left, torch.ones(2, 3), torch.tensor([0, 1]), distance=distance, margin=1.0).backward()
    assert torch.isfinite(left.grad).all()


@pytest.mark.parametrize(
    ("strategy", "targets"),
    [
        ("farthest", [3, 3, 3, 0]),
        ("hardest", [1, 0, 0, 1]),
        ("average", [2, 3, 1, 1]),  # the mean of distances is 4
    ],
)
def test_a_strategy_chooses_by_distance(strategy: Negatives, targets: list[int]) -> None:
    sources, found = choose_negatives(DISTANCE, OWN, strategy, torch.Generator())
    assert sources.tolist() == [0, 1, 2, 3]
    assert found.tolist() == targets


def test_random_negatives_are_every_other_target_in_turn() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = [choose_negatives(DISTANCE, OWN, "random", generator)[1].tolist() for _ in range(200)]
    for row in range(4):
        counts = [sum(draw[row] == target for draw in draws) for target in range(4)]
        assert counts[row] == 0
        assert min(count for target, count in enumerate(counts) if target != row) > 40


def test_positives_only_has_no_negatives() -> None:
    sources, found = choose_negatives(DISTANCE, OWN, "none", torch.Generator())
    assert len(sources) == len(found) == 0


@pytest.mark.parametrize("strategy", ["random", "farthest", "hardest", "average"])
def test_another_translation_of_the_same_sentence_is_no_negative(strategy: Negatives) -> None:
    # pairs 0 and 1 share their source, pairs 1 and 2 their target
    same = same_pairs(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    assert same.tolist() == [[True, True, True], [True, True, True], [False, True, True]]
    sources, found = choose_negatives(torch.zeros(3, 3), same, strategy, torch.Generator())
    assert (sources.tolist(), found.tolist()) == ([2], [0])
