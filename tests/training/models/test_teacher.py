import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from training.models import teacher as teacher_module
from training.models.teacher import EmbeddingStore
from training.errors import ConfigError
from training.models.packages import packaged_folder
from training.models.teacher import embed_missing, is_normalized, load_teacher, teacher_identity


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


@pytest.mark.parametrize("dims", [0, -1, "64", True])
def test_dims_that_are_no_number_are_refused(tmp_path: Path, dims: object) -> None:
    whole = load_teacher("sentence-transformers/all-MiniLM-L6-v2", device=torch.device("cpu"))
    whole.save(str(tmp_path), create_model_card=False)
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncate_dim": dims}))
    with pytest.raises(ConfigError, match=f"has truncate_dim {dims!r}; it is a whole number of at least 1"):
        load_teacher(str(tmp_path), device=torch.device("cpu"))


def test_a_teacher_that_is_nowhere_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


def test_a_folder_s_identity_follows_its_contents(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"one")
    seen = {teacher_identity(str(tmp_path)), teacher_identity(str(tmp_path))}
    (tmp_path / "weights").write_bytes(b"other")
    seen.add(teacher_identity(str(tmp_path)))
    assert len(seen) == 2


def test_folder_identity_ignores_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "weights").write_bytes(b"one")
    monkeypatch.chdir(tmp_path)
    assert len({teacher_identity(path) for path in ("base", "./base", str(tmp_path / "base"))}) == 1


def test_packaged_identity_follows_the_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "sentence-transformers/all-MiniLM-L6-v2"
    installed = teacher_identity(name)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(teacher_module, "packaged_folder", lambda _: tmp_path)
    assert teacher_identity(name) != installed
    assert installed.startswith(f"{name}#")


def test_offline_hub_identity_is_last_downloaded_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Unreachable:
        def model_info(self, name: str, timeout: float) -> None:
            raise ConnectionError("no network")

    monkeypatch.setattr(teacher_module, "HfApi", Unreachable)
    monkeypatch.setattr(teacher_module, "HF_HUB_CACHE", str(tmp_path))
    teacher_module._hub_commit.cache_clear()
    assert teacher_identity("some/model") == "some/model@unknown"
    refs = tmp_path / "models--some--model" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("abc123\n")
    teacher_module._hub_commit.cache_clear()
    assert teacher_identity("some/model") == "some/model@abc123"
    teacher_module._hub_commit.cache_clear()
