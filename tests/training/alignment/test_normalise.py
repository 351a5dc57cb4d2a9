import numpy as np

from tests.training.alignment.vectors import made_pairs
from training.alignment.layers import Means, unit_center_unit


def test_unit_center_unit_of_a_hand_computed_case() -> None:
    found = unit_center_unit(np.array([[3.0, 4.0], [0.0, 2.0]], np.float32), np.array([0.6, 0.0], np.float32))
    np.testing.assert_allclose(found, [[0, 1], [-0.6 / np.sqrt(1.36), 1 / np.sqrt(1.36)]], atol=1e-6)


def test_centring_by_language_takes_away_what_tells_the_languages_apart() -> None:
    source, target = made_pairs(50)
    own = Means.by_language(source, target + 5)
    for vectors, mean in ((source, own.source_D), (target + 5, own.target_D)):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose((unit - mean).mean(axis=0), 0, atol=1e-6)
    joint = Means.joint(source, target + 5)
    np.testing.assert_array_equal(joint.source_D, joint.target_D)
    np.testing.assert_allclose(joint.source_D, (own.source_D + own.target_D) / 2, atol=1e-6)


def test_no_mean_leaves_unit_vectors() -> None:
    source, target = made_pairs(5)
    left, right = Means.none(16)(source, target)
    np.testing.assert_allclose(left, source / np.linalg.norm(source, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(right, axis=1), 1, atol=1e-6)
