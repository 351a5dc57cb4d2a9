import math

import pytest
import torch

from training.losses import (
    bool_contrastive,
    cosine_matrix,
    cross_entropy_contrastive,
    embedding_mse,
    hard_cross_entropy,
    margin_mse,
    multilingual_contrastive,
    pooled_embedding_mse,
    relevance,
    token_embedding_mse,
)

# Two sentences whose sources the student puts in one place, and whose translations it puts apart:
SOURCE = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
TARGET = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # scores [[1, 0], [1, 0]]
ORTHOGONAL = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # a teacher that finds the two unrelated: labels are the identity


def test_embedding_mse_of_a_hand_computed_batch() -> None:
    student, target = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [3.0, -2.0]])
    assert embedding_mse(student, target).item() == pytest.approx((1 + (9 + 16)) / 2)


def test_the_mean_reduction_is_torch_s_mean_squared_error() -> None:
    student, target = torch.randn(5, 7), torch.randn(5, 7)
    expected = torch.nn.functional.mse_loss(student, target)
    torch.testing.assert_close(embedding_mse(student, target, "mean"), expected)
    tokens, labels, mask = torch.randn(2, 3, 7), torch.randn(2, 3, 7), torch.tensor([[1, 1, 0], [1, 0, 0]])
    expected = torch.nn.functional.mse_loss(tokens[mask.bool()], labels[mask.bool()])
    torch.testing.assert_close(token_embedding_mse(tokens, labels, mask, "mean"), expected)


def test_token_embedding_mse_leaves_padding_out() -> None:
    student = torch.tensor([[[1.0, 1.0], [0.0, 0.0], [9.0, 9.0]]])
    target = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]])
    assert token_embedding_mse(student, target, torch.tensor([[1, 1, 0]])).item() == pytest.approx((2 + 4) / 2)


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


def test_cosine_matrix_of_a_hand_computed_case() -> None:
    left, right = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 3.0], [5.0, 0.0]])
    half = 0.5**0.5
    torch.testing.assert_close(cosine_matrix(left, right), torch.tensor([[0.0, 1.0], [half, half]]))


def test_soft_loss_of_a_hand_computed_case() -> None:
    # labels [[1, 0], [0, 1]], scores [[1, 0], [1, 0]]: two of four cells are off by one
    assert multilingual_contrastive(ORTHOGONAL, SOURCE, TARGET).item() == pytest.approx(0.5)


def test_bool_loss_of_a_hand_computed_case() -> None:
    # scores [[1, 0.6], [0, 0.8]] against the identity: 0.36 + 0.04 over four cells
    source, target = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[2.0, 0.0], [0.6, 0.8]])
    assert bool_contrastive(source, target).item() == pytest.approx((0.36 + 0.04) / 4)


def test_bool_as_printed_takes_a_repeated_sentence_as_positive() -> None:
    # scores [[1, 0], [1, 0]]; both sources the same sentence, so all labels are 1: two of four cells are off by one
    repeated = torch.tensor([[0.6, 0.8], [0.6, 0.8]])
    assert bool_contrastive(SOURCE, TARGET, teacher_source_BD=repeated).item() == pytest.approx(2 / 4)
    source, target = torch.randn(5, 8), torch.randn(5, 8)
    different = bool_contrastive(source, target, teacher_source_BD=torch.randn(5, 8))
    torch.testing.assert_close(different, bool_contrastive(source, target))
    teacher = torch.randn(4, 8)[[2, 0, 2, 1, 2]]
    label = torch.tensor([[float(a == b) for b in (2, 0, 2, 1, 2)] for a in (2, 0, 2, 1, 2)])
    expected = (label - cosine_matrix(source, target)).square().mean()
    torch.testing.assert_close(bool_contrastive(source, target, teacher_source_BD=teacher), expected)


def test_the_printed_cross_entropy_starts_at_b_log_b() -> None:
    alike = torch.ones(64, 4)
    loss = cross_entropy_contrastive(torch.eye(64), alike, alike, temperature=0.05, over_anchors="sum")
    assert loss.item() == pytest.approx(64 * math.log(64), rel=1e-5)
    mean = cross_entropy_contrastive(torch.eye(64), alike, alike, temperature=0.05)
    assert mean.item() == pytest.approx(math.log(64), rel=1e-5)


def test_authors_cross_entropy_is_the_diagonals_share() -> None:
    # rows of scores / tau are [2, 0] for both sources: the first is right, the second wrong
    right, wrong = math.log(1 + math.exp(-2)), math.log(1 + math.exp(2))
    assert hard_cross_entropy(SOURCE, TARGET, temperature=0.5).item() == pytest.approx((right + wrong) / 2, rel=1e-5)


def test_cross_entropy_of_a_hand_computed_case() -> None:
    # Rows of scores / tau are [2, 0] for both sources; the teacher's cosines are [[1, 0.6], [0.6, 1]].
    teacher = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    first, second = (2 - math.log(math.exp(2) + 1)), (0 - math.log(math.exp(2) + 1))  # log softmax of 2 and of 0
    expected = -((first + 0.6 * second) + (0.6 * first + second)) / 2
    loss = cross_entropy_contrastive(teacher, SOURCE, TARGET, temperature=0.5)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_keeps_a_negative_weight_negative() -> None:
    teacher = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # cosines [[1, -1], [-1, 1]]
    aligned = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # scores / tau [[2, -2], [-2, 2]]: differences of 4, twice
    assert cross_entropy_contrastive(teacher, aligned, aligned, temperature=0.5).item() == pytest.approx(-4.0)


def test_autocast_does_not_coarsen_the_cosines() -> None:
    left, right = torch.randn(8, 64), torch.randn(8, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = cosine_matrix(left, right)
    assert torch.equal(inside, cosine_matrix(left, right))


def test_squared_error_gradients_match_finite_differences() -> None:
    student, target = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(embedding_mse, (student, target))
    tokens, labels = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    for loss in (token_embedding_mse, pooled_embedding_mse):
        assert torch.autograd.gradcheck(lambda left, right, own=loss: own(left, right, mask), (tokens, labels))


def test_losses_of_hand_computed_cases() -> None:
    logits, labels = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0])
    by_hand = -(math.log(0.5) + math.log(1 - 1 / (1 + math.exp(-2)))) / 2
    assert relevance(logits, labels).item() == pytest.approx(by_hand)
    margins = margin_mse(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]))
    assert margins.item() == pytest.approx((1 + 4) / 2)
