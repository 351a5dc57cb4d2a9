"""Engines that embed a stream of texts: threads of this process, and actors of Ray."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from service.errors import InferenceFailed, StartError
from service.model.encoder import Encoded, load_encoder
from service.offline.embedding import Model, ray_engine, threads_engine
from tests.artifacts import DIM, TEXTS


def test_the_threads_give_the_vectors_of_the_encoder_in_order(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    batches = [list(TEXTS), [], [text * 20 for text in TEXTS], *([text] for text in TEXTS)]
    for workers in (1, 3):
        found = list(threads_engine(encoder.encode_all, workers=workers, dim=DIM)(batches))
        assert [len(one.vectors_ND) for one in found] == [len(batch) for batch in batches]
        for batch, one in zip(batches, found, strict=True):
            expected = [encoder.encode(text) for text in batch]
            assert all(np.array_equal(row, e.vector) for row, e in zip(one.vectors_ND, expected, strict=True))
            assert one.truncated == [position for position, e in enumerate(expected) if e.truncated]
        assert found[2].truncated == list(range(len(TEXTS)))


def test_engine_reads_ahead_boundedly_and_stops_with_reader() -> None:
    read = 0
    busy = threading.Semaphore(0)

    def batches() -> Iterator[list[str]]:
        nonlocal read
        for read in range(1, 10_001):
            yield [] if read % 2 else ["x"] * 100

    def encode_all(texts: Sequence[str]) -> list[Encoded]:
        busy.release()
        return [Encoded(np.ones(DIM, np.float32), 1, 1) for _ in texts]

    vectors = threads_engine(encode_all, workers=2, dim=DIM)(batches())
    for _ in range(10):
        next(vectors)
        assert read <= 40
    vectors.close()
    assert read <= 40
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("embedding")]
    assert busy.acquire(blocking=False)


def test_without_ray_the_engine_says_what_installs_it(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StartError, match=r"--engine ray needs Ray: `make setup-dev`"):
        next(ray_engine(Model(tiny_model, None, "", 16))([["x"]]))


def with_ray(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that starts Ray, which takes a minute and warns."""
    marks = [
        pytest.mark.slow,
        pytest.mark.filterwarnings("ignore"),
        pytest.mark.timeout(900),
        pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    ]
    for mark in marks:
        test = mark(test)
    return test


@with_ray
@pytest.mark.parametrize(
    ("model", "batches", "failed"),
    [
        (
            "tiny_model",
            [list(TEXTS), [], [f"{text} {number}" for number in range(50) for text in TEXTS], ["x " * 100]],
            [[], [], [], []],
        ),
        ("failing_model", [["kaputt"], [*TEXTS, "kaputt", "guitar", "kaputt too"], [*TEXTS]], [[0], [12, 14], []]),
    ],
)
def test_ray_actors_give_what_threads_give_in_order(
    request: pytest.FixtureRequest, model: str, batches: list[list[str]], failed: list[list[int]]
) -> None:
    folder = request.getfixturevalue(model)
    encoder = load_encoder(folder)
    manifest = encoder.manifest
    found = list(ray_engine(Model(folder, None, manifest.fingerprint, manifest.dim))(batches))
    expected = list(threads_engine(encoder.encode_all, workers=1, dim=manifest.dim)(batches))
    assert [one.truncated for one in found] == [one.truncated for one in expected]
    assert [one.failed for one in found] == [one.failed for one in expected]
    assert [list(one.failed) for one in found] == failed
    for one, other in zip(found, expected, strict=True):
        assert one.vectors_ND.dtype == np.float32
        assert np.array_equal(one.vectors_ND, other.vectors_ND)


@with_ray
def test_a_node_with_another_model_is_one_sentence(tiny_model: Path) -> None:
    with pytest.raises(
        InferenceFailed,
        match=r"^a process of Ray failed \(.* is model [0-9a-f]{12} on a node, but 000000000000 here\)$",
    ):
        list(ray_engine(Model(tiny_model, None, "0" * 64, 16))([list(TEXTS)]))
