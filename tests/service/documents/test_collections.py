from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from service.documents.collections import Collections, EmbeddedCollections, IndexOptions, Versions
from service.documents.document import Document
from service.documents.interface import Query
from service.documents.own_fields import OwnFields
from service.errors import Conflict, InvalidInput, NotFound, StorageFull
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from tests.service.documents.stores import (
    DIM,
    EAST,
    INVERTED,
    STORE,
    count,
    ids,
    open_store,
    read_page,
    unit,
    unit_vectors,
    wait_for,
)

EXACT = 200


def opened(folder: Path, *, chunks: bool = True, max_index_bytes: int = 0) -> Collections:
    options = IndexOptions(folder, "aa", DIM, exact_documents=EXACT, chunks=chunks, max_index_bytes=max_index_bytes)
    return EmbeddedCollections(open_store(folder, chunks=chunks), options, max_collections=4)


@pytest.fixture
def collections(tmp_path: Path) -> Iterator[Collections]:
    with closing(opened(tmp_path)) as collections:
        yield collections


def put(collections: Collections, name: str, **texts: str) -> int:
    vectors_ND = np.stack([unit(1, number, 0, 0) for number in range(len(texts))])
    return collections.put(name, [Document(id_, text, {"of": name}) for id_, text in texts.items()], vectors_ND)


def many(collections: Collections, name: str, count: int = EXACT + 50) -> None:
    documents = [Document(f"d{number}", f"text {number}", {}) for number in range(count)]
    collections.put(name, documents, unit_vectors(count))


def many_in_lists(collections: Collections, name: str) -> None:
    many(collections, name)
    wait_for(lambda: collections.of(name).backend == INVERTED)


def found(collections: Collections, name: str, query: Query) -> list[str]:
    return [match.document.text for match in collections.of(name).search_all([query], top_k=9)[0]]


def test_first_put_makes_a_collection_of_its_own(collections: Collections) -> None:
    put(collections, "default", a="a red kettle")
    put(collections, "shop", a="a blue kettle", b="an iron")
    assert [*collections.named()] == ["default", "shop"]
    assert [len(collections.of(name)) for name in ("default", "shop")] == [1, 2]
    for query in (Query(EAST), Query(words="kettle"), Query(EAST, "kettle")):
        assert found(collections, "default", query) == ["a red kettle"]
        assert found(collections, "shop", query)[0] == "a blue kettle"
    assert len(ids(collections.of("shop"), EAST, 9, filter_={"of": "shop"})) == 2
    assert count(collections.of("default"), {"of": "shop"}) == 0
    assert [document.text for document in read_page(collections.of("shop")).documents] == ["a blue kettle", "an iron"]


def test_search_waits_for_its_own_collection_alone(collections: Collections) -> None:
    revisions = [put(collections, name, a="x") for name in ("default", "shop", "help", "default")]
    assert revisions == sorted(set(revisions))
    assert all(found(collections, name, Query(EAST)) == ["x"] for name in ("default", "shop", "help"))


def test_collections_survive_restart_and_crash(collections: Collections, tmp_path: Path) -> None:
    put(collections, "shop", a="one")
    collections._open["shop"]._live.rest()
    collections._store.close()  # no snapshot, no goodbye
    with closing(opened(tmp_path)) as again:
        put(again, "shop", b="two")
    with closing(opened(tmp_path)) as again:
        assert found(again, "shop", Query(words="one two")) == ["one", "two"]


def test_settings_survive_a_crash_with_their_collection(collections: Collections, tmp_path: Path) -> None:
    own = OwnFields.parsed("{标题}", ["price"])
    collections.configure("shop", own)
    collections.configure("default", own)
    collections.put("shop", [Document("a", "x", {})], unit_vectors(1), Versions(own))
    collections._open["shop"]._live.rest()
    collections._store.close()  # no snapshot, no goodbye
    with closing(opened(tmp_path)) as again:
        assert [again.own_fields(name) for name in ("default", "shop", "other")] == [own, own, None]
        with pytest.raises(Conflict, match="it has 1 documents"):
            again.configure("shop", None)
        again.configure("default", None)
        assert again.drop("shop") == 1
        again.configure("shop", None)
    with closing(opened(tmp_path)) as again:
        assert [again.own_fields(name) for name in ("default", "shop")] == [None, None]


def test_a_collection_is_made_with_its_settings_or_not_at_all(
    collections: Collections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageFull("full")

    monkeypatch.setattr("service.documents.store.catalog.commit", full)
    with pytest.raises(StorageFull):
        collections.configure("shop", OwnFields.parsed("{a}", None))
    with pytest.raises(StorageFull):
        collections.configure("default", OwnFields.parsed("{a}", None))
    assert collections.own_fields("default") is None
    collections._store.close()
    with closing(opened(tmp_path)) as again:
        assert [*again.named()] == ["default"]
        assert again.own_fields("default") is None


def test_documents_read_by_other_settings_are_not_put(collections: Collections) -> None:
    own, other = OwnFields.parsed("{a}", None), OwnFields.parsed("{a}", [])
    collections.configure("shop", own)
    for read_by in (None, other):
        with pytest.raises(Conflict, match="text or fields changed meanwhile"):
            collections.put("shop", [Document("a", "x", {})], unit_vectors(1), Versions(read_by))
    with pytest.raises(Conflict, match="text or fields changed meanwhile"):
        collections.put("gone", [Document("a", "x", {})], unit_vectors(1), Versions(own))
    assert [*collections.named()] == ["default", "shop"]
    put(collections, "default", a="x")
    stored = collections.of("default").get("a")
    put(collections, "default", a="y")
    with pytest.raises(Conflict, match="the document changed meanwhile"):
        collections.put("default", [Document("a", "z", {})], unit_vectors(1), Versions(replaced=stored))
    assert found(collections, "default", Query(words="y")) == ["y"]


def test_dropped_collection_is_gone_and_others_stay(collections: Collections, tmp_path: Path) -> None:
    put(collections, "default", a="a kettle")
    many_in_lists(collections, "shop")
    wait_for(lambda: any(tmp_path.glob("index_2.json")))
    dropped = collections.of("shop")
    assert collections.drop("shop") == EXACT + 50
    with pytest.raises(NotFound, match="there is no collection shop; the first PUT"):
        collections.of("shop")
    uses = (
        lambda: dropped.delete(["d1"]),
        lambda: ids(dropped, EAST, 1),
        lambda: dropped.is_chunked(None),
        lambda: dropped.recalibrate(None),
    )
    for change in uses:
        with pytest.raises(NotFound, match="was dropped meanwhile"):
            change()
    assert found(collections, "default", Query(words="kettle")) == ["a kettle"]
    assert not [*tmp_path.glob("index_*")]
    left = {
        table: collections._store.writer.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
        for table in ("documents", "passages", "fields", "collections")
    }
    assert left == {"documents": 1, "passages": 1, "fields": 1, "collections": 1}
    put(collections, "shop", a="new")
    assert found(collections, "shop", Query(words="new text")) == ["new"]


def test_a_drop_that_fails_leaves_the_collection_as_it_was(
    collections: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collections, "shop", a="one")
    collections._store.writer.execute(
        "CREATE TRIGGER full BEFORE DELETE ON collections BEGIN SELECT RAISE(FAIL, 'x'); END"
    )
    with pytest.raises(Exception, match="x"):
        collections.drop("shop")
    collections._store.writer.execute("DROP TRIGGER full")
    assert found(collections, "shop", Query(words="one")) == ["one"]
    many_in_lists(collections, "shop")  # still kept up


def test_start_removes_snapshots_of_dropped_collections(tmp_path: Path) -> None:
    for name in ("index_7.json", "index_7-12", "index_2.json", "index.json.new"):
        (tmp_path / name).write_text("x")
    with closing(opened(tmp_path)) as collections:
        put(collections, "shop", a="x")
    (tmp_path / "index_2.json").write_text("x")
    opened(tmp_path).close()
    left = {path.name for path in tmp_path.glob("index*")}
    assert not {"index_7.json", "index_7-12"} & left
    assert "index.json.new" in left


def test_each_collection_has_a_snapshot_of_its_own(
    collections: Collections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("default", "shop"):
        many_in_lists(collections, name)
    collections.close()
    caplog.clear()
    with caplog.at_level("INFO"):
        again = opened(tmp_path)
    assert "index built" not in caplog.text
    assert {index.backend for index in again.named().values()} == {INVERTED}
    assert {path.name for path in tmp_path.glob("index*.json")} == {"index.json", "index_2.json"}
    again.close()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        *(
            (name, InvalidInput, "a collection's name has 1 to 64 characters")
            for name in ("", ".", "..", "-a", "_a", "a/b", "ä", "a b", "a" * 65, "a\n")
        ),
        ("more", StorageFull, r"there are 4 collections; the limit is 4 \(CROSSLET_MAX_COLLECTIONS\)"),
    ],
)
def test_a_malformed_name_or_one_too_many_is_refused(
    collections: Collections, name: str, error: type[Exception], message: str
) -> None:
    for allowed in ("Shop", "shop", "a.b-c_9"):
        put(collections, allowed, a="x")
    for refused in (lambda: put(collections, name, a="x"), lambda: collections.check_room(name, ["a"])):
        with pytest.raises(error, match=message):
            refused()
    collections.drop("Shop")
    put(collections, "more", a="x")
    assert [*collections.named()] == ["default", "shop", "a.b-c_9", "more"]


def test_the_limit_on_vectors_is_for_all_collections_together(tmp_path: Path) -> None:
    row_bytes = 4 * DIM + 8
    collections = opened(tmp_path, max_index_bytes=3 * row_bytes)
    put(collections, "default", a="x", b="y")
    put(collections, "shop", a="x")
    with pytest.raises(StorageFull, match=r"the index would take 96 bytes; the limit is 72"):
        put(collections, "shop", b="y")
    with pytest.raises(StorageFull, match="CROSSLET_MAX_INDEX_BYTES"):
        put(collections, "more", a="x")
    assert [*collections.named()] == ["default", "shop"]  # what could not be filled was not made
    assert collections.size_bytes == 3 * row_bytes
    collections.close()


def test_memory_of_a_closed_collection_is_known(collections: Collections, tmp_path: Path) -> None:
    put(collections, "default", a="x", b="y", c="z")
    many(collections, "few", EXACT)
    many_in_lists(collections, "many")
    sizes = {name: one.size_bytes for name, one in collections.named().items()}
    collections.close()
    options = IndexOptions(tmp_path, "aa", DIM, exact_documents=EXACT)
    with closing(open_store(tmp_path)) as store:
        for one in store.catalog.listed():
            assert options.bytes_of_others(store.of(one.number)) == sum(sizes.values()) - sizes[one.name]


def test_damage_is_reported_with_its_collection(collections: Collections, tmp_path: Path) -> None:
    put(collections, "shop", a="a red kettle", b="an iron")

    def faults() -> list[str]:
        with open_store_file(tmp_path / STORE) as file:
            assert file.total() == 2
            return verify(file)

    assert faults() == []
    writer = collections._store.writer
    writer.execute("UPDATE documents SET text = 'a rad kettle' WHERE id = 'a'")
    writer.execute("INSERT INTO keywords_2 (rowid, terms) VALUES (99, 'x')")
    writer.execute("UPDATE collections SET documents = 7 WHERE name = 'shop'")
    assert faults() == [
        "collection shop: there are 2 documents, the table of collections says 7",
        'collection shop: document "a" has a damaged text or metadata: their checksum differs',
    ]
    writer.execute("UPDATE documents SET text = 'a red kettle' WHERE id = 'a'")
    writer.execute("UPDATE collections SET documents = 2 WHERE name = 'shop'")
    (fault,) = faults()
    assert fault.startswith("collection shop: the keywords are not those of the texts")


def test_a_new_collection_splits_documents_as_its_service_does(tmp_path: Path) -> None:
    for chunks in (True, False):
        with closing(opened(tmp_path / str(chunks), chunks=chunks)) as collections:
            put(collections, "shop", a="text")
            assert [collections.is_chunked(name, None) for name in ("default", "shop")] == [chunks, chunks]


def test_put_during_a_drop_makes_the_collection_anew(collections: Collections, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collections, "shop", a="a blue kettle")
    dropped = collections.of("shop")
    collections.drop("shop")
    documents = [Document("b", "an iron", {})]
    with monkeypatch.context() as going:  # what another thread sees until the drop is complete
        going.setattr(collections, "_open", collections.named() | {"shop": dropped})
        collections.check_room("shop", documents)
        assert collections.is_chunked("shop", None)
        assert not collections.is_chunked("shop", False)
        assert collections.documents_of("shop", ["a"]) == {}
    put(collections, "shop", b="an iron")
    assert found(collections, "shop", Query(words="iron kettle")) == ["an iron"]
