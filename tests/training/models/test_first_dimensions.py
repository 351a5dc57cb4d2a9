"""The rotation after which a vector's first dimensions rank texts as the whole does."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.tiny import tiny_encoder
from training.models.first_dimensions import fit_rotation, rotate
from training.models.sentence_encoder import SentenceEncoder

GENERATOR = np.random.default_rng(0)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def found_first(left: np.ndarray, right: np.ndarray, count: int) -> float:
    """Share of translations found first by the first dimensions."""
    nearest = (unit(left[:, :count]) @ unit(right[:, :count]).T).argmax(axis=1)
    return float((nearest == np.arange(len(left))).mean())


def test_first_dimensions_find_translations_after_rotation() -> None:
    axes_DD = np.linalg.qr(GENERATOR.standard_normal((32, 32)))[0]
    meaning_N8 = GENERATOR.standard_normal((600, 8))
    noises = [0.3 * GENERATOR.standard_normal((600, 32)) for _ in range(2)]
    sides = [(np.pad(meaning_N8, ((0, 0), (0, 24))) + noise_ND) @ axes_DD for noise_ND in noises]
    left, right = (side.astype(np.float32) for side in sides)
    rotation = fit_rotation(left[:400], right[:400], [8], steps=300, batch_size=128)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(32), atol=1e-5)
    before = found_first(left[400:], right[400:], 8)
    assert found_first(left[400:] @ rotation, right[400:] @ rotation, 8) > before + 0.2


@pytest.mark.parametrize("has_head", [True, False])
def test_cosines_stay_and_vectors_turn(has_head: bool) -> None:
    encoder = tiny_encoder()
    size = encoder.config.hidden_size
    model = SentenceEncoder(encoder, nn.Linear(size, 12) if has_head else None, normalized=True)
    ids, mask = torch.randint(5, 20, (6, 7)), torch.ones(6, 7, dtype=torch.int64)
    with torch.no_grad():
        before = model(ids, mask).numpy()
        rotation = np.linalg.qr(GENERATOR.standard_normal((before.shape[1],) * 2))[0].astype(np.float32)
        rotate(model, rotation)
        after = model(ids, mask).numpy()
    np.testing.assert_allclose(after, before @ rotation, atol=1e-5)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-5)
