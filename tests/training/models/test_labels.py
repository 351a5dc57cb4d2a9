"""Labels of several teachers, and the head that is fitted to them."""

from pathlib import Path

import numpy as np
import pytest

from training.models.labels import LabelSpace, linear_fit
from training.system.arrays import map_array

GENERATOR = np.random.default_rng(0)


def vectors(count: int, dim: int, *, mean: float = 0.0) -> np.ndarray:
    return (GENERATOR.standard_normal((count, dim)) + mean).astype(np.float32)


def cosines(one_ND: np.ndarray) -> np.ndarray:
    unit = one_ND / np.linalg.norm(one_ND, axis=1, keepdims=True)
    return unit @ unit.T


def test_a_cosine_of_labels_is_the_mean_of_the_teachers_cosines() -> None:
    left, right = vectors(200, 6), vectors(200, 10)
    space = LabelSpace.fit([left, right], dim=16, centred=False)
    label = space([left, right])
    assert label.shape == (200, 16)
    np.testing.assert_allclose(label @ label.T, (cosines(left) + cosines(right)) / 2, atol=1e-5)


def test_centring_makes_a_one_way_teacher_count() -> None:
    sample = vectors(2000, 8, mean=3.0)
    centred = LabelSpace.fit([sample], dim=8, centred=True)([sample])
    assert abs((centred @ centred.T).mean()) < 0.01
    assert (cosines(sample)).mean() > 0.8


def test_kept_dimensions_are_the_longest() -> None:
    plane = vectors(300, 2) @ vectors(2, 12)
    label = LabelSpace.fit([plane], dim=2, centred=False)([plane])
    np.testing.assert_allclose(label @ label.T, cosines(plane), atol=1e-4)


def test_labels_are_rotated_towards_a_models_embeddings() -> None:
    sample = vectors(400, 8)
    space = LabelSpace.fit([sample], dim=8, centred=True)
    rotation, _ = np.linalg.qr(GENERATOR.standard_normal((8, 8)))
    model_ND = (space([sample]) @ rotation).astype(np.float32)
    turned = space.turned_to([sample], model_ND)
    np.testing.assert_allclose(turned([sample]), model_ND, atol=1e-4)
    np.testing.assert_allclose(cosines(turned([sample])), cosines(space([sample])), atol=1e-4)


def test_labels_are_the_same_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.models.labels.CHUNK", 7)
    left, right = vectors(50, 6), vectors(50, 10, mean=1.0)
    LabelSpace.fit([left, right], dim=5, centred=True).save(tmp_path / "labels.npz")
    space = LabelSpace.load(tmp_path / "labels.npz")
    rows = GENERATOR.permutation(50)[:30]
    space.write([left, right], [rows, rows], tmp_path / "labels.npy")
    np.testing.assert_allclose(
        map_array(tmp_path / "labels.npy").reshape(30, 5), space([left[rows], right[rows]]), atol=1e-6
    )


def test_a_linear_map_is_recovered_with_its_bias() -> None:
    weight_DH, bias_D = vectors(4, 6), vectors(1, 4)[0]
    input_NH = vectors(500, 6, mean=2.0)
    found_DH, found_D = linear_fit(input_NH, input_NH @ weight_DH.T + bias_D, ridge=1e-9)
    np.testing.assert_allclose(found_DH, weight_DH, atol=1e-4)
    np.testing.assert_allclose(found_D, bias_D, atol=1e-3)
