import numpy as np
import pytest
import torch

from tests.training.alignment.vectors import made_pairs
from training.alignment.head import STRUCTURES, SiameseHead, Structure
from training.alignment.layers import apply


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_served_layers_compute_what_torch_computes(structure: Structure, bias: bool) -> None:
    torch.manual_seed(0)
    head = SiameseHead(16, structure, bias=bias, start="random").eval()
    vectors, _ = made_pairs(20)
    np.testing.assert_allclose(
        apply(head.layers(), vectors), head(torch.from_numpy(vectors)).detach().numpy(), atol=1e-5
    )
    assert all((layer.bias_D == 0).all() for layer in head.layers()) != bias


def test_an_identity_start_leaves_vectors_where_they_are() -> None:
    vectors, _ = made_pairs(20)
    np.testing.assert_array_equal(apply(SiameseHead(16).layers(), vectors), vectors)


def test_two_layers_have_twice_the_parameters_of_one() -> None:
    one, two = (sum(p.numel() for p in SiameseHead(16, name).parameters()) for name in ("tanh", "two-tanh"))
    assert (one, two) == (16 * 17, 2 * 16 * 17)


def test_dropout_is_for_training_alone() -> None:
    torch.manual_seed(0)
    head, ones = SiameseHead(100, dropout=0.2), torch.ones(200, 100)
    dropped = (head.train()(ones) == 0).float().mean().item()
    assert dropped == pytest.approx(0.2, abs=0.02)
    assert torch.equal(head.eval()(ones), ones)
