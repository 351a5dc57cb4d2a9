import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity

from tests.training.alignment.vectors import made_pairs
from training.alignment.head import STRUCTURES, SiameseHead, Structure
from training.alignment.layers import Means, apply, unit_center_unit
from training.alignment.report import mean_cosines
from training.evaluation.vectors import unit_rows


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


def test_dropout_is_for_training_alone() -> None:
    torch.manual_seed(0)
    head, ones = SiameseHead(100, dropout=0.2), torch.ones(200, 100)
    dropped = (head.train()(ones) == 0).float().mean().item()
    assert dropped == pytest.approx(0.2, abs=0.02)
    assert torch.equal(head.eval()(ones), ones)


def test_unit_center_unit_of_a_hand_computed_case() -> None:
    found = unit_center_unit(np.array([[3.0, 4.0], [0.0, 2.0]], np.float32), np.array([0.6, 0.0], np.float32))
    np.testing.assert_allclose(found, [[0, 1], [-0.6 / np.sqrt(1.36), 1 / np.sqrt(1.36)]], atol=1e-6)


def test_centring_by_language_removes_the_language_offset() -> None:
    source, target = made_pairs(50)
    own = Means.by_language(source, target + 5)
    for vectors, mean in ((source, own.source_D), (target + 5, own.target_D)):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose((unit - mean).mean(axis=0), 0, atol=1e-6)
    joint = Means.joint(source, target + 5)
    np.testing.assert_array_equal(joint.source_D, joint.target_D)
    np.testing.assert_allclose(joint.source_D, (own.source_D + own.target_D) / 2, atol=1e-6)


def test_mean_cosines_agree_with_scikit_learn() -> None:
    left, right = (unit_rows(side) for side in made_pairs(5))
    table, is_own = cosine_similarity(left, right), np.eye(5, dtype=bool)
    assert mean_cosines(left, right) == pytest.approx((table[is_own].mean(), table[~is_own].mean()), abs=1e-6)
