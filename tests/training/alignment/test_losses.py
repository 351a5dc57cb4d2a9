import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances, manhattan_distances

from training.alignment.losses import DISTANCES, FUNCTIONS, Distance, distances, pair_loss

ORACLES = {"euclidean": euclidean_distances, "manhattan": manhattan_distances, "cosine": cosine_distances}


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_distance_is_scikit_learns(distance: Distance) -> None:
    left, right = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))
    expected = ORACLES[distance](left.numpy(), right.numpy())
    np.testing.assert_allclose(distances(left, right, distance), expected, atol=1e-5)
    np.testing.assert_allclose(FUNCTIONS[distance](left, right), np.diag(expected), atol=1e-5)


def test_the_loss_of_a_hand_computed_case() -> None:
    left = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
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


def test_a_margin_of_one_does_nothing_to_vectors_that_are_three_apart() -> None:
    left = torch.zeros(4, 9, requires_grad=True)
    pair_loss(left, torch.ones(4, 9), torch.ones(4), distance="euclidean", margin=1.0).backward()
    assert left.grad.abs().max() == 0
    scaled = (left.detach() / 4).requires_grad_()
    pair_loss(scaled, torch.ones(4, 9) / 4, torch.ones(4), distance="euclidean", margin=1.0).backward()
    assert scaled.grad.abs().min() > 0
