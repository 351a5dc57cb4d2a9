from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.models.teacher import EmbeddingStore, windows


def vectors(count: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)


def test_a_store_gives_back_what_it_was_given_after_reopening(tmp_path: Path) -> None:
    EmbeddingStore(tmp_path, dim=4).append(["a", "b"], vectors(2))
    store = EmbeddingStore(tmp_path, dim=4)
    store.append(["c"], vectors(1, seed=1))
    store = EmbeddingStore(tmp_path, dim=4)
    assert store.rows(["c", "a", "missing"]).tolist() == [2, 0, -1]
    np.testing.assert_array_equal(store.vectors(), np.concatenate([vectors(2), vectors(1, seed=1)]))
    assert store.missing(["a", "x", "x", "c"]) == ["x"]


@pytest.mark.parametrize(("name", "cut"), [("keys.bin", 5), ("keys.bin", 16), ("vectors.f32", 3), ("vectors.f32", 16)])
def test_a_write_that_a_kill_cut_short_is_forgotten(tmp_path: Path, name: str, cut: int) -> None:
    EmbeddingStore(tmp_path, dim=4).append(["a", "b", "c"], vectors(3))
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-cut])
    store = EmbeddingStore(tmp_path, dim=4)
    assert store.missing(["a", "b", "c"]) == ["c"]
    store.append(["c"], vectors(1, seed=2))
    np.testing.assert_array_equal(EmbeddingStore(tmp_path, dim=4).vectors()[2:], vectors(1, seed=2))


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 40), max_size=12))
def test_rows_follow_the_order_of_writing_however_it_was_cut(sizes: list[int], tmp_path_factory) -> None:
    store = EmbeddingStore(tmp_path_factory.mktemp("store"), dim=4)
    texts = [f"text {index}" for index in range(sum(sizes))]  # the oracle: a plain list
    start = 0
    for size in sizes:
        store.append(texts[start : start + size], vectors(size))
        start += size
    assert store.rows([*reversed(texts), "unknown"]).tolist() == [*reversed(range(len(texts))), -1]
    assert store.missing(["unknown", *texts]) == ["unknown"]


def test_an_empty_store_lacks_everything(tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path, dim=4)
    assert len(store) == 0
    assert store.rows([]).tolist() == []
    assert store.missing(["a"]) == ["a"]


def test_lookup_takes_24_bytes_a_text(tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path, dim=4)
    for start in range(0, 3_000, 1_000):
        store.append([str(number) for number in range(start, start + 1_000)], vectors(1_000))
    assert sum(keys.nbytes + rows.nbytes for keys, rows in store._parts) == 24 * 3_000


def test_windows_hold_every_text_once() -> None:
    assert list(windows(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
