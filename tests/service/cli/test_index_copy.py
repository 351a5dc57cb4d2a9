"""`crosslet index copy`: from the local store to Milvus and back, with everything."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.document_index import load_collections
from service.documents.interface import PageRequest
from service.model.artifact import load_manifest
from service.model.encoder import choose_encoder
from service.settings import Settings
from tests.artifacts import build_artifact
from tests.service.cli.conftest import Crosslet, build
from tests.service.offline.files import write_jsonl

LONG = " ".join(f"Sentence {n} speaks of 绿茶 and чай." for n in range(60))
DOCUMENTS = [
    *({"id": f"{n}", "text": f"text {n} 水壶 чайник", "metadata": {"n": n, "tags": ["ü", n % 3]}} for n in range(205)),
    {"id": "long", "text": LONG},
]
GOODS = [{"id": "1", "title": "Kettle", "price": 3, "no": "x"}, {"id": "2", "title": "पतीला", "price": 4}]


def held(settings: Settings) -> dict[str, Any]:
    """Return all that is kept of each collection, in order."""
    manifest = choose_encoder(settings.model, settings.fallback_model).encoder.manifest
    collections = load_collections(settings, manifest)
    everything: dict[str, Any] = {}
    for name, index in collections.named().items():
        lists = []
        for truncated in (False, True):
            request = PageRequest(after_row=0, limit=1000, max_chars=10**7, truncated=truncated)
            ids = [one.id for one in index.page(request).documents]
            documents = [index.get(id_) for id_ in ids]
            lists.append([(one.id, one.text, one.metadata, one.passages) for one in documents if one is not None])
        vectors = index.passage_vectors([id_ for id_, *_ in lists[0]])
        everything[name] = (index.own_fields, *lists, [np.round(vectors[id_], 5).tolist() for id_, *_ in lists[0]])
    collections.close()
    return everything


@pytest.mark.usefixtures("local")
def test_a_store_goes_to_milvus_and_back(crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    build(crosslet, write_jsonl(tmp_path / "b.jsonl", [{"id": "cut", "text": LONG}]), "--no-chunk")
    goods = write_jsonl(tmp_path / "goods.jsonl", GOODS)
    build(crosslet, goods, "--collection", "shop", "--text", "{title}", "--fields", "price")
    milvus = f"milvus+lite://{tmp_path}/documents.db"
    before = held(Settings())
    assert crosslet("index", "copy", milvus).err.endswith(f"{milvus} has 209 documents, 209 of them new\n")
    assert crosslet("index", "copy", milvus).err.endswith("has 209 documents, 0 of them new\n")
    one = DOCUMENTS[1] | {"metadata": {"n": True, "tags": ["ü", 1]}}  # 1 == True in Python
    for changed, split in (([one, DOCUMENTS[-1]], "--no-chunk"), ([DOCUMENTS[1], DOCUMENTS[-1]], "--chunk")):
        build(crosslet, write_jsonl(tmp_path / "changed.jsonl", changed), split)
        assert crosslet("index", "copy", milvus).err.endswith("has 209 documents, 2 of them new\n")
    monkeypatch.setenv("CROSSLET_INDEX", milvus)
    assert held(Settings()) == before
    shutil.rmtree(tmp_path / "data")
    assert crosslet("index", "copy", "embedded").err.endswith("embedded has 209 documents, 209 of them new\n")
    assert "there already" in crosslet("index", "copy", milvus, status=2).err
    monkeypatch.delenv("CROSSLET_INDEX")
    assert held(Settings()) == before
    _, everything, truncated, _ = before["default"]
    assert len(everything) == 207
    assert [id_ for id_, *_ in truncated] == ["cut"]
    assert [id_ for id_, *_, passages in everything if passages] == ["long"]
    with_others = write_jsonl(tmp_path / "others.jsonl", [{"id": "9", "text": "own"}])
    monkeypatch.setenv("CROSSLET_INDEX", f"milvus+lite://{tmp_path}/other.db")
    build(crosslet, with_others, "--collection", "shop")
    monkeypatch.delenv("CROSSLET_INDEX")
    refused = crosslet("index", "copy", f"milvus+lite://{tmp_path}/other.db", status=2).err
    assert "collection shop: text and fields are set while a collection is empty" in refused


@pytest.mark.usefixtures("local")
def test_documents_in_milvus_are_reembedded(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    monkeypatch.setenv("CROSSLET_INDEX", f"milvus+lite://{tmp_path}/documents.db")
    assert "nothing to re-embed" in crosslet("index", "re-embed", status=2).err
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    goods = write_jsonl(tmp_path / "goods.jsonl", GOODS)
    build(crosslet, goods, "--collection", "shop", "--text", "{title}", "--fields", "price")
    before = held(Settings())
    build_artifact(tmp_path / "other", seed=1)
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "other"))
    assert "208 documents read: 208 new" in crosslet("index", "re-embed").err
    assert "0 new, 0 replaced, 208 unchanged" in crosslet("index", "re-embed", "--from", of(tiny_model)).err
    after = held(Settings())
    assert [everything[:3] for everything in after.values()] == [everything[:3] for everything in before.values()]
    assert after["default"][3] != before["default"][3]
    monkeypatch.setenv("CROSSLET_MODEL", str(tiny_model))
    assert held(Settings()) == before  # an old service goes on
    with closing(load_collections(Settings(), load_manifest(tiny_model))) as collections:
        collections.of("default").delete(["7"])
        collections.drop("shop")
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "other"))
    crosslet("index", "re-embed")
    assert held(Settings()).keys() == {"default"}
    assert "7" not in [id_ for id_, *_ in held(Settings())["default"][1]]


def of(model: Path) -> str:
    return load_manifest(model).fingerprint[:16]
