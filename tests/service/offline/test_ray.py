from pathlib import Path

import numpy as np
import pytest

from service.errors import InferenceFailed
from service.model.encoder import load_encoder
from service.offline.embedding import threads_engine
from service.offline.ray_engine import Model, ray_engine
from tests.artifacts import TEXTS

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]  # its warnings are its own


def test_ray_actors_give_this_process_vectors_in_order(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    batches = [list(TEXTS), [], [f"{text} {number}" for number in range(50) for text in TEXTS], ["x " * 100]]
    model = Model(tiny_model, None, encoder.manifest.fingerprint, encoder.manifest.dim)
    found = list(ray_engine(model)(batches))
    expected = list(threads_engine(encoder.encode_all, workers=1, dim=encoder.manifest.dim)(batches))
    assert [one.truncated for one in found] == [one.truncated for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.vectors_ND.dtype == np.float32
        assert np.array_equal(one.vectors_ND, other.vectors_ND)


def test_ray_leaves_out_failing_texts_like_threads(failing_model: Path) -> None:
    encoder = load_encoder(failing_model)
    batches = [["kaputt"], [*TEXTS, "kaputt", "guitar", "kaputt too"], [*TEXTS]]
    model = Model(failing_model, None, encoder.manifest.fingerprint, encoder.manifest.dim)
    found = list(ray_engine(model)(batches))
    expected = list(threads_engine(encoder.encode_all, workers=1, dim=encoder.manifest.dim)(batches))
    assert [one.failed for one in found] == [one.failed for one in expected]
    assert [list(one.failed) for one in found] == [[0], [12, 14], []]
    assert all(np.array_equal(one.vectors_ND, other.vectors_ND) for one, other in zip(found, expected, strict=True))


def test_a_node_with_another_model_is_one_sentence(tiny_model: Path) -> None:
    with pytest.raises(InferenceFailed, match=r"an actor of Ray failed"):
        list(ray_engine(Model(tiny_model, None, "0" * 64, 16))([list(TEXTS)]))
