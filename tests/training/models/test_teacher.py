import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertTokenizerFast

from tests.training.hub import serve_model
from tests.training.models.bases import SIZES, save_base
from tests.vocabularies import wordpiece
from training.errors import ConfigError
from training.models import teacher as teacher_module
from training.models.packages import packaged_folder
from training.models.teacher import (
    EmbeddingStore,
    drop_normalize,
    embed_missing,
    is_normalized,
    load_teacher,
    teacher_identity,
    windows,
)


def test_default_teacher_is_packaged_and_embeds_once(tmp_path: Path) -> None:
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


def test_without_normalize_vectors_keep_their_length() -> None:
    teacher = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    texts = ["A man is playing a guitar.", "The stock market fell sharply."]
    unit_ND = teacher.encode(texts)
    raw_ND = drop_normalize(teacher).encode(texts)
    assert not is_normalized(teacher)
    length_N1 = np.linalg.norm(raw_ND, axis=1, keepdims=True)
    assert length_N1.min() > 2
    assert raw_ND / length_N1 == pytest.approx(unit_ND, abs=1e-6)


def test_float32_labels_are_those_of_the_teacher(tmp_path: Path) -> None:
    teacher = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    texts = ["A man is playing a guitar.", "The stock market fell sharply."]
    store = EmbeddingStore(tmp_path, dim=384)
    embed_missing(teacher, texts, store, bf16=False)
    assert store.vectors()[store.rows(texts)] == pytest.approx(teacher.encode(texts), abs=1e-6)


def test_labels_include_default_prompt_and_dims(tmp_path: Path) -> None:
    whole = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    settings: dict[str, Any] = {"prompts": {"sts": "what is said: ", "query": "q: "}, "default_prompt_name": "sts"}
    cut = SentenceTransformer(modules=list(whole), device="cpu", truncate_dim=64, **settings)
    cut.save(str(tmp_path / "teacher"), create_model_card=False)
    teacher = load_teacher(str(tmp_path / "teacher"), device=torch.device("cpu"))
    texts = ["A man is playing a guitar.", "The stock market fell sharply."]
    store = EmbeddingStore(tmp_path / "store", dim=int(teacher.get_embedding_dimension() or 0))
    embed_missing(teacher, texts, store)
    stored = store.vectors()[store.rows(texts)]
    expected = whole.encode([f"what is said: {text}" for text in texts], truncate_dim=64, normalize_embeddings=True)
    assert stored.shape == (2, 64)
    assert (stored * expected).sum(axis=1).min() > 0.999  # bf16 where the CPU has it
    assert np.linalg.norm(stored, axis=1) == pytest.approx(1, abs=0.01)  # as the student's


@pytest.mark.parametrize("dims", [0, -1, "64", True, 12.5])
def test_dims_that_are_no_number_are_refused(tmp_path: Path, dims: object) -> None:
    whole = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    whole.save(str(tmp_path), create_model_card=False)
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncate_dim": dims}))
    with pytest.raises(ConfigError, match=f"its truncate_dim is {dims!r}; it must be a whole number of at least 1"):
        load_teacher(str(tmp_path), device=torch.device("cpu"))


def test_a_teacher_that_is_nowhere_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model '.*no-such-folder' is neither a folder nor"):
        load_teacher(str(tmp_path / "no-such-folder"), device=torch.device("cpu"))


def test_a_damaged_model_is_refused_in_one_line(tmp_path: Path) -> None:
    whole = packaged_folder("sentence-transformers/all-MiniLM-L6-v2")
    assert whole is not None
    for name in ("model.safetensors", "modules.json", "1_Pooling/config.json"):
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(whole, folder)
        (folder / name).write_bytes((folder / name).read_bytes()[:100])
        with pytest.raises(ConfigError, match=r"model '.*' cannot be loaded: .+") as caught:
            load_teacher(str(folder), device=torch.device("cpu"))
        assert "\n" not in str(caught.value)


def test_folder_identity_follows_contents_not_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "base" / "weights"
    weights.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    identities = []
    for content in (b"one", b"other"):
        weights.write_bytes(content)
        identities.append({teacher_identity(path) for path in ("base", "./base", str(tmp_path / "base"))})
    assert [len(same) for same in identities] == [1, 1]
    assert identities[0] != identities[1]


def test_packaged_identity_follows_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "sentence-transformers/all-MiniLM-L6-v2"
    installed = teacher_identity(name)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(teacher_module, "packaged_folder", lambda _: tmp_path)
    assert teacher_identity(name) != installed
    assert installed.startswith(f"{name}#")


def test_offline_hub_identity_is_last_downloaded_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Unreachable:
        def model_info(self, name: str, timeout: float) -> None:
            raise ConnectionError("no network")

    monkeypatch.setattr(teacher_module, "HfApi", Unreachable)
    monkeypatch.setattr(teacher_module, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--some--model" / "refs").mkdir(parents=True)
    for identity in ("some/model@unknown", "some/model@abc123"):
        teacher_module._hub_commit.cache_clear()
        assert teacher_identity("some/model") == identity
        (tmp_path / "models--some--model" / "refs" / "main").write_text("abc123\n")
    teacher_module._hub_commit.cache_clear()


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


def test_lookup_takes_24_bytes_a_text(tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path, dim=4)
    for start in range(0, 3_000, 1_000):
        store.append([str(number) for number in range(start, start + 1_000)], vectors(1_000))
    assert sum(keys.nbytes + rows.nbytes for keys, rows in store._parts) == 24 * 3_000


def test_windows_hold_every_text_once() -> None:
    assert list(windows(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]


LOAD = """
import sys, torch
from training.models.teacher import load_teacher
model = load_teacher(sys.argv[1], device=torch.device("cpu"))
print(model.encode(["der mann spielt"]).sum())
"""


def load_from_hub(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Load a folder as `acme/tiny-bert` of a hub."""
    with serve_model("acme/tiny-bert", folder) as endpoint:
        environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
        command = [sys.executable, "-c", LOAD, "acme/tiny-bert"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_base_is_downloaded_from_the_hub_by_name(tmp_path: Path) -> None:
    tokenizer = wordpiece(["der mann spielt", "a man plays the guitar"])
    folder = save_base(tmp_path / "base", BertConfig(**SIZES), tokenizer, BertTokenizerFast)
    loaded = load_from_hub(folder, tmp_path / "cache")
    assert loaded.returncode == 0, loaded.stderr
    expected = SentenceTransformer(str(folder), device="cpu").encode(["der mann spielt"]).sum()
    assert abs(float(loaded.stdout.split()[-1]) - expected) < 1e-4


@pytest.mark.slow
def test_code_that_a_file_on_the_hub_names_is_not_run(tmp_path: Path) -> None:
    tokenizer = wordpiece(["der mann spielt"])
    folder = save_base(tmp_path / "base", BertConfig(**SIZES), tokenizer, BertTokenizerFast)
    router = {"idx": 0, "name": "0", "path": "0_Router", "type": "sentence_transformers.models.Router"}
    (folder / "modules.json").write_text(json.dumps([router]))
    (folder / "0_Router").mkdir()
    # `this` is installed, and prints where it is imported: of a hub's model no file need be downloaded for that
    (folder / "0_Router/router_config.json").write_text(json.dumps({"types": {"query_0": "this.Pool"}}))
    loaded = load_from_hub(folder, tmp_path / "cache")
    assert "0_Router/router_config.json names this.Pool, which is not a class of" in loaded.stderr
    assert "Zen of Python" not in loaded.stdout
