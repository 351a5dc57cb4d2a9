"""`crosslet index` on a collection of documents with their own fields: every format, every way in, and out again."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.artifacts import build_artifact
from tests.contract.live import live_service
from tests.service.cli.conftest import Crosslet, build
from tests.service.offline.files import read_jsonl, write_jsonl

GOODS = [
    {"id": "1", "标题": "红色水壶", "price": 19.9, "tags": ["kitchen", "red"], "lang": "zh"},
    {"id": "2", "标题": "", "price": 5.0, "tags": ["किताब"], "lang": "hi"},
    {"id": "3", "标题": "غلاية", "price": 7.5, "tags": [], "lang": "ar", "stray": "x"},
]
TEXTS = ["红色水壶 (kitchen, red)", "(किताब)", "غلاية ()"]
FLAGS = ("--text", "{标题} ({tags})", "--fields", "price, lang")
SHOP = ("--collection", "shop")


def goods_file(folder: Path, format_: str) -> Path:
    path = folder / f"goods.{format_}"
    if format_ == "jsonl":
        return write_jsonl(path, GOODS)
    if format_ == "csv":
        rows = [",".join(GOODS[2])]
        for one in GOODS:
            tags = json.dumps(one["tags"], ensure_ascii=False).replace('"', '""')
            rows.append(f'{one["id"]},{one["标题"]},{one["price"]},"{tags}",{one["lang"]},{one.get("stray", "")}')
        path.write_text("\n".join(rows), encoding="utf-8")
        return path
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: [one.get(name) for one in GOODS] for name in GOODS[2]}
    parquet.write_table(pyarrow.table(columns | {"id": [1, 2, 3]}), path)
    return path


def types(format_: str) -> tuple[str, ...]:
    return ("--types", "price=float,tags=json") if format_ == "csv" else ()


def exported(crosslet: Crosslet, *options: str) -> list[dict[str, object]]:
    return read_jsonl(crosslet("index", "export", *SHOP, *options).out)


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_files_have_their_own_fields(crosslet: Crosslet, tmp_path: Path, format_: str) -> None:
    path = goods_file(tmp_path, format_)
    assert build(crosslet, path, *SHOP, *FLAGS, *types(format_)).startswith("3 documents read: 3 new")
    assert build(crosslet, path, *SHOP, *types(format_)).endswith("0 new, 0 replaced, 3 unchanged")
    assert build(crosslet, path, *SHOP, *FLAGS, *types(format_)).endswith("3 unchanged")
    search = crosslet("search", "kitchen", *SHOP, "--mode", "keywords", "--filter", '{"price": {"gt": 10}}', "--json")
    (found,) = read_jsonl(search.out)
    assert (found["text"], found["metadata"]["lang"]) == (TEXTS[0], "zh")
    kept = [{name: value for name, value in one.items() if name != "stray"} for one in GOODS]
    if format_ == "csv":  # an empty cell is no field
        del kept[1]["标题"]
    assert exported(crosslet) == kept
    stats = json.loads(crosslet("index", "stats", *SHOP).out)
    assert (stats["text"], stats["fields"]) == (FLAGS[1], ["price", "lang"])


@pytest.mark.usefixtures("local")
def test_an_export_loads_into_another_collection(crosslet: Crosslet, tmp_path: Path) -> None:
    build(crosslet, goods_file(tmp_path, "jsonl"), *SHOP, *FLAGS)
    for options in ((), ("--vectors", "base64")):
        dump = tmp_path / "dump.jsonl"
        crosslet("index", "export", *SHOP, *options, "--out", dump)
        build(crosslet, dump, "--collection", f"again{len(options)}", *FLAGS)
        again = crosslet("index", "export", "--collection", f"again{len(options)}", *options).out
        assert again == dump.read_text()
    assert "9 documents are intact" in crosslet("index", "verify").err
    crosslet("index", "backup", tmp_path / "copy")
    crosslet("index", "restore", tmp_path / "copy", "--force")
    assert build(crosslet, goods_file(tmp_path, "jsonl"), *SHOP).endswith("3 unchanged")


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_header_without_a_field_of_the_text_is_refused(crosslet: Crosslet, tmp_path: Path, format_: str) -> None:
    path = goods_file(tmp_path, format_)
    error = crosslet("index", "build", path, *SHOP, "--text", "{price} {tag}", status=2).err
    there = "it has 'id', '标题', 'price', 'tags', 'lang', 'stray'"
    assert f"the header has no column 'tag', which the text uses; {there}; did you mean tags?" in error


@pytest.mark.usefixtures("local")
def test_a_failed_load_leaves_no_collection(crosslet: Crosslet, tmp_path: Path) -> None:
    bad = write_jsonl(tmp_path / "bad.jsonl", [{"id": "4", "title": "x"}])
    for options in ((), ("--on-bad-line", "skip")):
        crosslet("index", "build", bad, *SHOP, *FLAGS, *options, status=2)
        assert "has no collection shop" in crosslet("index", "stats", *SHOP, status=2).err
    build(crosslet, goods_file(tmp_path, "jsonl"), *SHOP, *FLAGS)
    path = write_jsonl(tmp_path / "plain.jsonl", [{"id": "1", "text": "kettle"}])
    crosslet("index", "build", bad, *FLAGS, status=2)  # the default one stays
    build(crosslet, path)
    crosslet("index", "build", bad, *SHOP, status=2)
    assert len(exported(crosslet)) == 3


@pytest.mark.usefixtures("local")
def test_settings_are_refused_by_name(crosslet: Crosslet, tmp_path: Path) -> None:
    path = goods_file(tmp_path, "jsonl")
    error = crosslet("index", "build", path, *SHOP, "--fields", "price", status=2).err
    assert "fields needs text beside it" in error
    error = crosslet("index", "build", tmp_path / "none.csv", *SHOP, *FLAGS, status=2).err
    assert "cannot be read" in error
    assert not (tmp_path / "data" / "documents.sqlite3").exists()
    build(crosslet, path, *SHOP, *FLAGS)
    error = crosslet("index", "build", path, *SHOP, "--text", "{标题}", status=2).err
    assert "text and fields are set while a collection is empty; it has 3 documents" in error
    path = write_jsonl(tmp_path / "bad.jsonl", [{"id": "4", "title": "x", "price": 1}])
    error = crosslet("index", "build", path, *SHOP, status=2).err
    assert "line 1: there is no text: '标题', 'tags' are missing or empty; the document has 'title', 'price'" in error


@pytest.mark.usefixtures("local")
def test_vectors_made_elsewhere_are_those_of_the_rendered_texts(crosslet: Crosslet, tmp_path: Path) -> None:
    build(crosslet, goods_file(tmp_path, "jsonl"), *SHOP, *FLAGS)
    rows = exported(crosslet, "--vectors", "base64")
    vectors = [np.frombuffer(base64.b64decode(str(row.pop("vector"))), "<f4") for row in rows]
    np.save(tmp_path / "vectors.npy", np.stack(vectors))
    documents = write_jsonl(tmp_path / "rows.jsonl", rows)
    empty = write_jsonl(tmp_path / "one.jsonl", rows[:1])
    build(crosslet, empty, "--collection", "other", *FLAGS)
    said = crosslet("index", "import", documents, tmp_path / "vectors.npy", "--collection", "other").err
    assert said.splitlines()[-1] == "3 documents read: 2 new, 0 replaced, 1 unchanged"


def test_another_model_keeps_settings(
    crosslet: Crosslet, tmp_path: Path, local: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(crosslet, goods_file(tmp_path, "jsonl"), *SHOP, *FLAGS)
    build(crosslet, write_jsonl(tmp_path / "b.jsonl", GOODS[:1]), "--text", "{标题}")
    before = crosslet("index", "export", *SHOP).out
    other = tmp_path / "other"
    other.mkdir()
    build_artifact(other, seed=1)
    monkeypatch.setenv("CROSSLET_MODEL", str(other))
    crosslet("index", "re-embed")
    assert crosslet("index", "export", *SHOP).out == before
    assert json.loads(crosslet("index", "stats", *SHOP).out)["fields"] == ["price", "lang"]
    assert json.loads(crosslet("index", "stats").out)["text"] == "{标题}"


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live_service(tiny_model, tmp_path_factory.mktemp("served"), workers=2) as client:
        yield client


@pytest.mark.parametrize("collection", ["default", "shop"])
def test_files_go_through_a_service(service: httpx.Client, crosslet: Crosslet, tmp_path: Path, collection: str) -> None:
    path = goods_file(tmp_path, "csv")
    through = ("--url", str(service.base_url), "--collection", collection, *types("csv"))
    assert build(crosslet, path, *through, *FLAGS) == "3 documents read: 3 new or replaced, 0 unchanged"
    assert build(crosslet, path, *through) == "3 documents read: 0 new or replaced, 3 unchanged"
    texts = [service.get(f"/collections/{collection}/documents/{n}").json()["text"] for n in (1, 2, 3)]
    bad = write_jsonl(tmp_path / "bad.jsonl", [{"id": "4", "title": "x"}])
    crosslet("index", "build", bad, *through[:2], "--collection", "other", *FLAGS, status=2)
    assert service.get("/collections/other").status_code == 404
    assert texts == TEXTS
    error = crosslet("index", "build", path, *through, "--text", "{标题}", status=2).err
    assert "text and fields are set while a collection is empty" in error
    error = crosslet("index", "build", path, *through, "--text", "{标题", status=2).err
    assert "that belongs to no field" in error
