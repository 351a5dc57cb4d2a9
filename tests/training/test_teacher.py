from pathlib import Path

import numpy as np
import pytest
import torch

from training.errors import ConfigError
from training.teacher import EmbeddingStore, embed_missing, is_normalized, load_teacher


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


def test_the_default_teacher_comes_from_the_package_index_and_is_embedded_once(tmp_path: Path) -> None:
    teacher = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    assert is_normalized(teacher)
    texts = ["A man is playing a guitar.", "The stock market fell sharply.", "A man plays the guitar."]
    store = EmbeddingStore(tmp_path, dim=384)
    embed_missing(teacher, texts[:2], store)
    embed_missing(teacher, [*texts, *texts], store)
    assert len(store) == 3
    stored = store.vectors()[store.rows(texts)]
    cosine = (stored * teacher.encode(texts)).sum(axis=1)
    assert cosine.min() > 0.999  # bf16 where the CPU has it
    assert stored[0] @ stored[2] > stored[0] @ stored[1] + 0.5


def test_a_teacher_that_is_nowhere_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model '.*no-such-folder' is neither a folder nor"):
        load_teacher(str(tmp_path / "no-such-folder"), device=torch.device("cpu"))
