"""What the stages do not show; `stages/test_objectives` has Eqs. (2) to (9), `optimisation/test_loop` token errors."""

import math

import pytest
import torch

from training.losses import cosine_matrix, margin_mse, pooled_embedding_mse, relevance


def test_pooled_embedding_mse_compares_means_of_real_tokens() -> None:
    # sentence 1: means (1, 0) and (0, 1); sentence 2: (2, 2) and (2, 0); the third has no token
    student = torch.tensor(
        [[[2.0, 0.0], [0.0, 0.0], [9.0, 9.0]], [[2.0, 2.0], [7.0, 7.0], [7.0, 7.0]], [[5.0, 5.0]] * 3]
    )
    target = torch.tensor(
        [[[0.0, 2.0], [0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [3.0, 3.0], [3.0, 3.0]], [[0.0, 0.0]] * 3]
    )
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert pooled_embedding_mse(student, target, mask).item() == pytest.approx(((1 + 1) + (0 + 4)) / 2)
    assert pooled_embedding_mse(student, target, mask, "mean").item() == pytest.approx(3 / 2)


def test_autocast_does_not_coarsen_the_cosines() -> None:
    left, right = torch.randn(8, 64), torch.randn(8, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = cosine_matrix(left, right)
    assert torch.equal(inside, cosine_matrix(left, right))


def test_losses_of_hand_computed_cases() -> None:
    logits, labels = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0])
    by_hand = -(math.log(0.5) + math.log(1 - 1 / (1 + math.exp(-2)))) / 2
    assert relevance(logits, labels).item() == pytest.approx(by_hand)
    margins = margin_mse(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]))
    assert margins.item() == pytest.approx((1 + 4) / 2)
