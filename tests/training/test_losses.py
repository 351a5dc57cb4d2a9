import pytest
import torch

from training.losses import cosine_matrix, embedding_mse, multilingual_contrastive, token_embedding_mse


def test_embedding_mse_of_a_hand_computed_batch() -> None:
    student, target = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [3.0, -2.0]])
    assert embedding_mse(student, target).item() == pytest.approx((1 + (9 + 16)) / 2)


def test_opposite_unit_vectors_lose_four() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(5, 7), dim=-1)
    assert embedding_mse(vectors, -vectors).item() == pytest.approx(4.0, rel=1e-5)


def test_token_embedding_mse_leaves_padding_out() -> None:
    student = torch.tensor([[[1.0, 1.0], [0.0, 0.0], [9.0, 9.0]]])
    target = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]])
    assert token_embedding_mse(student, target, torch.tensor([[1, 1, 0]])).item() == pytest.approx((2 + 4) / 2)


def test_cosine_matrix_of_a_hand_computed_case() -> None:
    left, right = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 3.0], [5.0, 0.0]])
    half = 0.5**0.5
    torch.testing.assert_close(cosine_matrix(left, right), torch.tensor([[0.0, 1.0], [half, half]]))


def test_contrastive_loss_of_a_hand_computed_case() -> None:
    # Teacher: orthogonal sources, labels are the identity. Student: s_1 and s_2 along t_1, t_2 orthogonal to both.
    teacher = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    source, target = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    # labels [[1, 0], [0, 1]], scores [[1, 0], [1, 0]]: two of four cells are off by one
    assert multilingual_contrastive(teacher, source, target).item() == pytest.approx(0.5)


def test_contrastive_loss_is_zero_where_the_student_reproduces_the_teacher() -> None:
    teacher = torch.randn(6, 8)
    assert multilingual_contrastive(teacher, 3 * teacher, 0.5 * teacher).item() == pytest.approx(0.0, abs=1e-10)


def test_autocast_does_not_coarsen_the_cosines() -> None:
    left, right = torch.randn(8, 64), torch.randn(8, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = cosine_matrix(left, right)
    assert torch.equal(inside, cosine_matrix(left, right))


def test_gradients_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    student, target, teacher = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(embedding_mse, (student, target))
    assert torch.autograd.gradcheck(
        lambda source, other: multilingual_contrastive(teacher.detach(), source, other), (student, target)
    )
    tokens, labels = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert torch.autograd.gradcheck(lambda left, right: token_embedding_mse(left, right, mask), (tokens, labels))
