"""`crosslet index` on a store with several collections: which one a command is about, and how messages name it."""

import json
from pathlib import Path

import numpy as np
import pytest

from service.documents.store.connections import checksum
from tests.artifacts import DIM
from tests.service.cli.conftest import Crosslet, build, damage
from tests.service.offline.files import DOCUMENTS, read_jsonl, write_jsonl

pytestmark = pytest.mark.usefixtures("local")


def test_commands_work_on_the_collection_they_name(crosslet: Crosslet, tmp_path: Path) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    shop = write_jsonl(tmp_path / "shop.jsonl", [{"id": "k", "text": "Kessel", "metadata": {"lang": "de"}}])
    assert "1 new" in crosslet("index", "build", shop, "--collection", "shop")[1]
    found = read_jsonl(crosslet("search", "Kessel", "--collection", "shop")[0])
    assert [one["id"] for one in found] == ["k"]
    assert len(read_jsonl(crosslet("search", "Kessel", "--top-k", "100")[0])) == 12
    assert [one["id"] for one in read_jsonl(crosslet("index", "export", "--collection", "shop")[0])] == ["k"]
    assert len(read_jsonl(crosslet("index", "export")[0])) == 12
    facts = json.loads(crosslet("index", "stats", "--collection", "shop")[0])
    assert (facts["documents"], facts["languages"]) == (1, {"de": 1})
    assert facts["collections"] == {"default": 12, "shop": 1}
    assert "13 documents are intact" in crosslet("index", "verify")[1]
    assert crosslet("index", "compact")[0]
    for command in (["index", "export"], ["index", "stats"], ["index", "report"], ["search", "Kessel"]):
        error = crosslet(*command, "--collection", "shpo", status=2)[1]
        assert "has no collection shpo; it has default, shop" in error
    error = crosslet("index", "build", shop, "--collection", "a/b", status=2)[1]
    assert "a collection's name has 1 to 64 characters" in error


def test_a_damaged_document_is_named_with_its_collection(
    crosslet: Crosslet, tmp_path: Path, failing_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_MODEL", str(failing_model))
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": "lost", "text": "gut"}, {"id": "failed", "text": "gut"}])
    for name in ("default", "shop"):
        build(crosslet, path, "--collection", name)
    damage("UPDATE documents SET text = 'schlecht' WHERE id = 'lost'")
    now = checksum("failed", "kaputt", "{}")
    damage(f"UPDATE documents SET text = 'kaputt', text_checksum = {now} WHERE id = 'failed'")  # noqa: S608
    damage("UPDATE passages SET vector_checksum = 1, stop = 6 WHERE row IN (2, 4)")
    lines = crosslet("index", "repair", status=2)[1].splitlines()
    failed = "the model gave no finite vector of 16 dims for 3 tokens"
    assert [line for line in lines if "document " in line and "store" not in line] == [
        'document "lost": its text or metadata are damaged',
        'collection shop: document "lost": its text or metadata are damaged',
        f'document "failed": {failed}',
        f'collection shop: document "failed": {failed}',
    ]
    assert lines[-1].endswith("has 4 damaged documents: put them again, or delete them")


def test_reembed_names_a_failing_document_with_its_collection(
    crosslet: Crosslet, tmp_path: Path, failing_model: Path
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": "odd", "text": "kaputt"}])
    for name in ("default", "shop"):
        build(crosslet, path, "--collection", name)
    error = crosslet("index", "re-embed", "--model", failing_model, status=2)[1]
    assert 'crosslet: document "odd": the model gave' in error
    assert 'crosslet: collection shop: document "odd": the model gave' in error
    damage("UPDATE documents SET text = 'schlecht' WHERE row = 2")
    error = crosslet("index", "re-embed", "--model", failing_model, status=2)[1]
    assert 'crosslet: collection shop: document "odd" of' in error


def test_index_limit_counts_all_collections_of_the_store(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    row_bytes = 4 * DIM + 8
    monkeypatch.setenv("CROSSLET_MAX_INDEX_BYTES", str(20 * row_bytes))
    build(crosslet, path)
    error = crosslet("index", "build", path, "--collection", "shop", status=2)[1]
    said = f"the index would take {24 * row_bytes} bytes; the limit is {20 * row_bytes} (CROSSLET_MAX_INDEX_BYTES)"
    assert said in error
    assert "8 new" in build(crosslet, write_jsonl(path, DOCUMENTS[:8]), "--collection", "shop")  # to the last byte
    vectors = tmp_path / "v.npy"
    np.save(vectors, np.eye(1, DIM, dtype=np.float32))
    write_jsonl(path, [{"id": "more", "text": "x"}])
    for name in ("default", "shop", "third"):
        command = ("index", "import", path, vectors, "--no-model-check", "--collection", name)
        assert f"would take {21 * row_bytes} bytes" in crosslet(*command, status=2)[1]
