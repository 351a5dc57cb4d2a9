"""`crosslet index` with documents in passages: loaded, exported, checked, repaired, converted."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from service.model.encoder import load_encoder
from service.settings import Settings
from tests.artifacts import TEXTS, build_artifact
from tests.service.cli.conftest import Crosslet, build, damage
from tests.service.offline.files import read_jsonl, write_jsonl

pytestmark = pytest.mark.usefixtures("local")

LONG = " ".join(TEXTS * 6)
DOCUMENTS = [{"id": "long", "text": LONG, "metadata": {}}, {"id": "short", "text": TEXTS[0], "metadata": {}}]


def passages(crosslet: Crosslet) -> int:
    found: int = json.loads(crosslet("index", "stats")[0])["passages"]
    return found


def test_build_splits_long_documents_unless_told_not_to(crosslet: Crosslet, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    assert build(crosslet, path) == "2 documents read: 2 new, 0 replaced, 0 unchanged"
    assert passages(crosslet) > 3
    assert build(crosslet, path) == "2 documents read: 0 new, 0 replaced, 2 unchanged"
    assert build(crosslet, path, "--no-chunk") == (
        "2 documents read: 0 new, 1 replaced, 1 unchanged; of 1 the model read only the beginning"
    )
    assert passages(crosslet) == 2
    assert build(crosslet, path, "--chunk") == "2 documents read: 0 new, 1 replaced, 1 unchanged"


def test_truncated_documents_are_counted_and_exported_alone(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_CHUNK", "false")
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))

    def cut() -> list[str]:
        found = read_jsonl(crosslet("index", "export", "--truncated")[0])
        assert json.loads(crosslet("index", "stats")[0])["truncated"] == len(found)
        return [one["id"] for one in found]

    assert cut() == ["long"]
    damage("UPDATE passages SET vector_checksum = 1")
    damage("UPDATE documents SET is_truncated = NULL")  # as of an earlier release
    assert cut() == []
    crosslet("index", "repair")
    assert cut() == ["long"]
    build_artifact(tmp_path / "new", seed=1)
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "new"))
    crosslet("index", "re-embed")
    assert cut() == ["long"]
    crosslet("index", "export", "--truncated", "--out", tmp_path / "cut.jsonl")
    assert build(crosslet, tmp_path / "cut.jsonl", "--chunk") == "1 documents read: 0 new, 1 replaced, 0 unchanged"
    assert cut() == []


def test_a_search_shows_the_passage(crosslet: Crosslet, tmp_path: Path) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    found = read_jsonl(crosslet("search", TEXTS[5], "--json")[0])
    long = next(one for one in found if one["id"] == "long")
    assert long["text"][long["passage"]["start"] : long["passage"]["end"]] == long["passage"]["text"]
    assert all("passage" not in one for one in found if one["id"] == "short")


def test_export_has_passage_vectors_and_can_be_built(
    crosslet: Crosslet, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    plain = crosslet("index", "export")[0]
    assert read_jsonl(plain) == DOCUMENTS
    crosslet("index", "export", "--vectors", "base64", "--out", tmp_path / "b.jsonl")
    long, short = read_jsonl((tmp_path / "b.jsonl").read_text(encoding="utf-8"))
    encoder = load_encoder(tiny_model)
    passages = [(LONG[part["start"] : part["end"]], part["vector"]) for part in long["passages"]]
    for text, vector in [*passages, (TEXTS[0], short["vector"])]:
        assert np.array_equal(np.frombuffer(base64.b64decode(vector), "<f4"), encoder.encode(text).vector)
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "other"))
    assert build(crosslet, tmp_path / "b.jsonl") == "2 documents read: 2 new, 0 replaced, 0 unchanged"
    assert crosslet("index", "export")[0] == plain


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE passages SET vector_checksum = 1 WHERE passage = 2", "damaged vector"),
        ("UPDATE passages SET stop = 1000000 WHERE passage = 2", "leave out some of its text"),
        ("DELETE FROM passages WHERE passage = 2", "leave out some of its text"),
    ],
)
def test_damaged_passages_are_found_and_made_anew(
    crosslet: Crosslet, tmp_path: Path, statement: str, said: str
) -> None:
    invisible = {"id": "long", "text": "\ufeff" + "\u200b".join(TEXTS * 6).replace(" ", "") + "\u200b"}
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", [invisible, *DOCUMENTS[1:]]))
    assert passages(crosslet) > 3
    assert "2 documents are intact" in crosslet("index", "verify")[1]
    before = crosslet("index", "export", "--vectors", "base64")[0]
    damage(statement)
    assert said in crosslet("index", "verify", status=2)[1]
    assert "1 of 2 vectors recomputed" in crosslet("index", "repair")[1]
    assert "2 documents are intact" in crosslet("index", "verify")[1]
    assert crosslet("index", "export", "--vectors", "base64")[0] == before


def test_another_model_splits_by_its_own_tokens(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    build_artifact(tmp_path / "new", seed=1)
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "new"))
    crosslet("index", "re-embed")
    encoder = load_encoder(tmp_path / "new")
    assert passages(crosslet) == 1 + len(encoder.splitter.split(LONG))
    assert "2 documents are intact" in crosslet("index", "verify")[1]
    assert build(crosslet, tmp_path / "a.jsonl") == "2 documents read: 0 new, 0 replaced, 2 unchanged"
    assert Settings().documents_path.is_file()
