import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import search
from service.documents.collections import Collection
from service.documents.document import Document, Page
from service.documents.filters import MAX_DEPTH, MAX_TERMS, Facet
from service.documents.interface import Query, ResultOptions
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore, Snapshot
from service.documents.store.transaction import Transaction
from service.documents.vectors.index import FaissIndex
from service.errors import InvalidInput, StorageFull, StoreError
from service.offline.store_file import open_store_file
from tests.contract.filter_oracle import FILTERS, METADATA, matches
from tests.service.documents.oracle import search_one

DIM = 4
Open = Callable[..., Collection]


def open_collection(folder: Path, *, fingerprint: str = "aa", **limits: int) -> Collection:
    store = DocumentStore(folder / "documents.sqlite3", fingerprint=fingerprint, dim=DIM)
    return Collection(store, IndexMaintenance(store, dim=DIM), **limits)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    collection = open_collection(tmp_path)
    yield collection
    collection.close()


def unit(*values: float) -> np.ndarray:
    vector = np.asarray(values, np.float32)
    return vector / np.linalg.norm(vector)


def put(collection: Collection, vectors: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None) -> int:
    documents = [Document(id_, f"text of {id_}", dict(metadata or {})) for id_ in vectors]
    return collection.put(documents, np.stack(list(vectors.values())))


def asked(vectors_BD: np.ndarray) -> list[Query]:
    return [Query(vector_D) for vector_D in vectors_BD]


def ids(collection: Collection, vector: np.ndarray, top_k: int, **options: Any) -> list[str]:
    return [match.document.id for match in search_one(collection, vector, top_k=top_k, **options)]


# Small integers: every inner product is exact, so that ties are ties for the oracle too.
INTEGER_VECTORS = st.lists(st.integers(-2, 2), min_size=DIM, max_size=DIM).map(lambda row: np.asarray(row, np.float32))


@settings(max_examples=120)
@given(
    documents=st.lists(st.tuples(INTEGER_VECTORS, METADATA), min_size=1, max_size=12),
    query=INTEGER_VECTORS,
    filter_=st.none() | FILTERS,
    top_k=st.integers(1, 14),
)
def test_filtered_search_equals_brute_force_over_matches(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[tuple[np.ndarray, dict[str, Any]]],
    query: np.ndarray,
    filter_: dict[str, Any] | None,
    top_k: int,
) -> None:
    collection = open_collection(tmp_path_factory.mktemp("store"))
    try:
        entries = [Document(f"d{number}", "text", metadata) for number, (_, metadata) in enumerate(documents)]
        collection.put(entries, np.stack([vector for vector, _ in documents]))
        found = search_one(collection, query, top_k=top_k, filter_=filter_)
    finally:
        collection.close()
    clipped = [
        (-float(np.clip(vector @ query, -1, 1)), -float(vector @ query), entry.id)
        for entry, (vector, _) in zip(entries, documents, strict=True)
        if filter_ is None or matches(filter_, entry.metadata)
    ]
    # The nearest are chosen before scores are clipped to [-1, 1]; unit vectors never meet the difference.
    chosen = sorted(clipped, key=lambda row: (row[1], row[2]))[:top_k]
    assert {match.document.id for match in found} <= {id_ for _, _, id_ in clipped}
    assert len(found) == len(chosen)
    assert [match.score for match in found] == [-score for score, _, _ in sorted(chosen)]


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 300), top_k=st.integers(1, 30))
def test_an_exact_search_equals_numpy(seed: int, count: int, top_k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors_ND = rng.standard_normal((count, DIM)).astype(np.float32)
    query_D = rng.standard_normal(DIM).astype(np.float32)
    index = FaissIndex(DIM)
    index.replace(index.prepare(range(count), vectors_ND))
    hits = index.search(query_D, top_k=top_k)
    scores_N = vectors_ND @ query_D
    np.testing.assert_allclose(hits.scores[:top_k], np.sort(scores_N)[::-1][:top_k], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scores_N[hits.rows], hits.scores, rtol=1e-5, atol=1e-5)


def test_equal_scores_are_ordered_by_id(collection: Collection) -> None:
    for id_ in ["m", "z", "a", "k", "b"]:
        put(collection, {id_: unit(1, 0, 0, 0)})
    assert ids(collection, unit(1, 0, 0, 0), 2) == ["a", "b"]


def test_a_change_is_searchable_at_once(collection: Collection) -> None:
    put(collection, {"a": unit(1, 0, 0, 0), "b": unit(0, 1, 0, 0)})
    assert ids(collection, unit(1, 0, 0, 0), 1) == ["a"]
    put(collection, {"a": unit(0, 0, 1, 0), "b": unit(1, 0, 0, 0)})
    assert ids(collection, unit(1, 0, 0, 0), 1) == ["b"]
    assert collection.delete(["b", "b", "never"]) == 1
    assert ids(collection, unit(1, 0, 0, 0), 5) == ["a"]
    assert len(collection) == 1


def test_what_was_put_is_there_after_reopening(tmp_path: Path) -> None:
    collection = open_collection(tmp_path)
    put(collection, {"a": unit(1, 0, 0, 0), "b": unit(0, 1, 0, 0)}, {"lang": ["de", "tr"]})
    collection.delete(["b"])
    before = search_one(collection, unit(1, 2, 0, 0), top_k=5, filter_={"lang": "tr"})
    collection.close()
    again = open_collection(tmp_path)
    assert search_one(again, unit(1, 2, 0, 0), top_k=5, filter_={"lang": "tr"}) == before
    assert len(before) == 1
    again.close()


def test_every_change_has_the_next_revision(collection: Collection) -> None:
    assert put(collection, {"a": unit(1, 0, 0, 0)}) == 1
    assert collection.delete(["unknown"]) == 0
    assert put(collection, {"a": unit(1, 0, 0, 0)}) == 2


def test_replaced_metadata_no_longer_matches(collection: Collection) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {"lang": "de"})
    put(collection, {"a": unit(1, 0, 0, 0)}, {"lang": "tr"})
    assert ids(collection, unit(1, 0, 0, 0), 5, filter_={"lang": "de"}) == []
    assert collection.delete_matching({"lang": "tr"}) == 1
    assert len(collection) == 0


def test_another_models_store_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, fingerprint="aaaa")
    collection.put([Document("a", "text", {})], unit(1, 0, 0, 0)[None])
    collection.close()
    with pytest.raises(StoreError, match=r"model aaaa, .* model bbbb.*CROSSLET_MODEL.*CROSSLET_DATA"):
        open_collection(tmp_path, fingerprint="bbbb")


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    first = open_collection(tmp_path)
    with pytest.raises(StoreError, match="in use by another process"):
        open_collection(tmp_path)
    first.close()
    open_collection(tmp_path).close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "documents.sqlite3").write_bytes(b"not a database at all, but long enough" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        open_collection(tmp_path)


@pytest.mark.parametrize("version", ["5", "7", "x"])
def test_store_of_another_schema_is_refused(tmp_path: Path, version: str) -> None:
    open_collection(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "documents.sqlite3")) as connection, connection:
        connection.execute("UPDATE store SET value = ? WHERE key = 'schema_version'", (version,))
    sentence = f"has schema {version}; this crosslet reads 6: .* `crosslet index export --out .* `crosslet index build "
    for read_only in (False, True):
        with pytest.raises(StoreError, match=sentence):
            DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM, read_only=read_only)
    with pytest.raises(StoreError, match=sentence), open_store_file(tmp_path / "documents.sqlite3"):
        pass


def test_a_full_disk_is_507_and_loses_nothing_accepted(tmp_path: Path) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM)
    collection = Collection(store, IndexMaintenance(store, dim=DIM))
    put(collection, {"a": unit(1, 0, 0, 0)})
    store._writer.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StorageFull, match="disk"):
        collection.put([Document("big", "x" * 10**6, {})], unit(0, 1, 0, 0)[None])
    assert ids(collection, unit(1, 0, 0, 0), 5) == ["a"]
    put(collection, {"b": unit(0, 1, 0, 0)})
    assert len(collection) == 2
    collection.close()


def test_full_memory_names_both_numbers_and_allows_changes(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, max_index_bytes=50)
    put(collection, {"a": unit(1, 0, 0, 0), "b": unit(1, 0, 0, 0)})
    with pytest.raises(StorageFull, match="would take 72 bytes; the limit is 50"):
        put(collection, {"c": unit(1, 0, 0, 0)})
    put(collection, {"a": unit(0, 1, 0, 0)})
    assert ids(collection, unit(0, 1, 0, 0), 1) == ["a"]
    collection.close()


def nested(depth: int) -> dict[str, Any]:
    filter_: dict[str, Any] = {"x": 1}
    for _ in range(depth):
        filter_ = {"not": filter_}
    return filter_


@pytest.mark.parametrize(
    "filter_",
    [
        {"and": []},
        {"or": {"x": 1}},
        {"not": {}},
        {"not": 3},
        {"x": {}},
        {"x": {"like": "a"}},
        {"x": {"in": []}},
        {"x": {"in": [[1]]}},
        {"x": {"gt": True}},
        {"x": {"gt": None}},
        {"x": {"ne": [1]}},
        {"x": {"ne": {}}},
        {"x": {"exists": 1}},
        {"x": {"exists": None}},
        {"x.y": {"z": 1}},
        {"x": 2**63},
        {"x": {"in": [1, 2**64 - 2]}},
        {"x": {"lt": -(2**63) - 1}},
        {"x": {"gt": float("inf")}},
        {"not": {"x": 2**70}},
        {"x": [1]},
        nested(MAX_DEPTH + 1),
        {"x": {"in": list(range(MAX_TERMS))}},
        {"and": [{"or": [{"x": 1}] * 30}] * 30},
        {"or": [[]] * 10**6},
    ],
)
def test_a_malformed_filter_is_invalid_input(collection: Collection, filter_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        search_one(collection, unit(1, 0, 0, 0), top_k=1, filter_=filter_)


def test_the_largest_filters_allowed_run(collection: Collection) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {"x": 5})
    for filter_ in ({"x": {"in": list(range(MAX_TERMS - 2))}}, {"or": [{"x": 5}] * 499}, nested(13)):
        assert ids(collection, unit(1, 0, 0, 0), 1, filter_=filter_) == ["a"]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "$.x", "row", "x' OR 1=1 --", "ключ", "a.b", ""])
def test_any_field_name_is_only_a_name(collection: Collection, name: str) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {name: name})
    put(collection, {"b": unit(1, 0, 0, 0)}, {"other": name})
    assert ids(collection, unit(1, 0, 0, 0), 5, filter_={name: name}) == ["a"]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2.0**64, 1e308, 0.1, -0.0])
def test_extreme_numbers_are_found_again(collection: Collection, number: float) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {"x": number})
    assert ids(collection, unit(1, 0, 0, 0), 5, filter_={"x": number}) == ["a"]


def test_readers_see_whole_changes_only(collection: Collection) -> None:
    """Two documents change places again and again; every search sees exactly one of them at each place."""
    here, there = unit(1, 0, 0, 0), unit(0, 1, 0, 0)
    put(collection, {"a": here, "b": there})
    stop = threading.Event()
    seen: list[list[float]] = []

    def read() -> None:
        while not stop.is_set():
            seen.append([match.score for match in search_one(collection, here, top_k=2)])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(40):
        put(collection, {"a": there, "b": here})
        put(collection, {"a": here, "b": there})
    stop.set()
    for reader in readers:
        reader.join()
    assert {tuple(scores) for scores in seen} == {(1.0, 0.0)}


def test_search_neither_waits_for_a_commit_nor_sees_half_of_it(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is as slow as it likes; between the commit and the index's change a search waits for the index."""
    put(collection, {"old": unit(1, 0, 0, 0)})
    commit, reached, go_on = Transaction.commit, threading.Event(), threading.Event()
    is_before = True

    def slow_commit(transaction: Transaction) -> None:
        if is_before:
            reached.set()
            assert go_on.wait(60)
        commit(transaction)
        if not is_before:
            reached.set()
            assert go_on.wait(60)

    monkeypatch.setattr(Transaction, "commit", slow_commit)
    search = partial(ids, collection, unit(1, 0, 0, 0), 5)
    with ThreadPoolExecutor(2) as threads:
        written = threads.submit(put, collection, {"new": unit(1, 0, 0, 0)})
        assert reached.wait(60)
        assert search() == ["old"]
        go_on.set()
        written.result(60)
        assert search() == ["new", "old"]

        is_before = False
        reached.clear()
        go_on.clear()
        written = threads.submit(collection.delete, ["old"])  # type: ignore[arg-type]
        assert reached.wait(60)
        found = threads.submit(search)
        with pytest.raises(TimeoutError):
            found.result(0.2)
        go_on.set()
        written.result(60)
        assert found.result(60) == ["new"]


def test_log_is_folded_beside_readers_and_may_fail(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("service.documents.store.connections.FOLD_AFTER_CHANGES", 100)
    log = tmp_path / "documents.sqlite3-wal"
    for number in range(400):
        put(collection, {f"d{number}": unit(1, number, 0, 0)})
    assert log.stat().st_size < 3_000_000  # every page of every change is 8 MB
    connections = collection._store._connections
    broken = Mock(wraps=connections.writer)
    broken.total_changes = 10**9
    broken.execute.side_effect = sqlite3.OperationalError("database or disk is full")
    monkeypatch.setattr(connections, "writer", broken)
    connections._fold_log()
    assert "log not merged" in caplog.text
    monkeypatch.undo()
    assert len(ids(collection, unit(1, 0, 0, 0), 5)) == 5


def test_several_searches_look_the_filter_up_once(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    tied = {f"{number:03}": unit(1, 0, 0, 0) for number in range(50)}
    put(collection, tied, {"x": 1})
    lookups, fetched = [], []
    matching, fetch = Snapshot.matching, Snapshot.fetch
    monkeypatch.setattr(Snapshot, "matching", lambda store, one, **_: lookups.append(one) or matching(store, one))
    monkeypatch.setattr(
        Snapshot, "fetch", lambda store, rows, **parts: fetched.extend(rows) or fetch(store, rows, **parts)
    )
    queries_BD = np.stack([unit(1, 0, 0, 0), unit(1, 1, 0, 0)])
    found = collection.search_all(asked(queries_BD), top_k=2, filter_={"x": 1})
    assert [[match.document.id for match in one] for one in found] == [["000", "001"]] * 2
    assert len(lookups) == 1
    assert len(fetched) == 2


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE])
def test_a_full_disk_quota_or_shared_memory_is_storage_full(tmp_path: Path, code: int) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(StorageFull, match="CROSSLET_DATA"), store.transaction():
        raise error
    store.close()


def test_store_without_fingerprint_is_refused(tmp_path: Path) -> None:
    open_collection(tmp_path).close()
    with sqlite3.connect(tmp_path / "documents.sqlite3") as connection:
        connection.execute("DELETE FROM store WHERE key = 'fingerprint'")
    connection.close()
    with pytest.raises(StoreError, match="vectors of model unknown"):
        open_collection(tmp_path)


def test_a_store_without_documents_can_become_another_models(tmp_path: Path) -> None:
    """As after a first look at the service, or once all documents are deleted."""
    collection = open_collection(tmp_path, fingerprint="aa")
    collection.put([Document("a", "text", {})], unit(1, 0, 0, 0)[None])
    collection.close()
    with pytest.raises(
        StoreError,
        match=r"model aa.*loaded model bb: .* `crosslet index re-embed` \(`docker compose run --rm re-embed`\)$",
    ):
        open_collection(tmp_path, fingerprint="bb")
    collection = open_collection(tmp_path, fingerprint="aa")
    collection.delete(["a"])
    collection.close()
    wider = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="bb", dim=2 * DIM)
    made = Collection(wider, IndexMaintenance(wider, dim=2 * DIM))
    made.put([Document("b", "text", {})], np.eye(2 * DIM, dtype=np.float32)[:1])
    made.close()
    with pytest.raises(StoreError, match="holds vectors of model bb"):
        open_collection(tmp_path, fingerprint="aa")


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    index = FaissIndex(DIM)
    for rows, vectors in (
        ([5], [unit(1, 0, 0, 0)]),
        ([2], [unit(0, 1, 0, 0)]),
        ([2, 5], [unit(0, 0, 1, 0), unit(0, 0, 0, 1)]),
    ):
        index.replace(index.prepare(rows, np.stack(vectors)))
    assert len(index) == 2
    assert index.search(unit(0, 0, 0, 1), top_k=1).rows.tolist() == [5]
    index.remove([2, 3, 9])
    assert len(index) == 1


def test_reading_anothers_store_at_rest_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(tmp_path)
    put(collection, {"a": unit(1, 0, 0, 0)})
    collection.close()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.geteuid", lambda: 12345)  # its owner could not open a log of this user
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM, read_only=True)
    reader = Collection(store, IndexMaintenance(store, dim=DIM), read_only=True)
    assert ids(reader, unit(1, 0, 0, 0), 1) == ["a"]
    assert sorted(tmp_path.iterdir()) == before
    reader.close()
    assert sorted(tmp_path.iterdir()) == before


def test_reader_goes_on_while_a_service_changes_everything(tmp_path: Path) -> None:
    collection = open_collection(tmp_path)
    many = {f"{number:04}": unit(1, number, 0, 0) for number in range(3000)}
    put(collection, many)
    collection.close()
    with open_store_file(tmp_path / "documents.sqlite3") as file:
        rows = file.rows()
        seen = [next(rows).id for _ in range(10)]
        collection = open_collection(tmp_path)
        collection.delete(list(many)[5:])
        put(collection, {"new": unit(1, 0, 0, 0)})
        collection.close()
        assert seen + [row.id for row in rows] == list(many)
    collection = open_collection(tmp_path)
    assert len(collection) == 6
    collection.close()
    assert not list(tmp_path.glob("*-wal"))


def test_a_store_that_is_being_written_is_read_of_one_moment(collection: Collection, tmp_path: Path) -> None:
    put(collection, {"a": unit(1, 0, 0, 0), "b": unit(0, 1, 0, 0)})
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM, read_only=True)
    reader = Collection(store, IndexMaintenance(store, dim=DIM), read_only=True)
    put(collection, {"c": unit(1, 0, 0, 0)})
    collection.delete(["a"])
    assert ids(reader, unit(1, 0, 0, 0), 3) == ["a", "b"]
    reader.close()
    assert ids(collection, unit(1, 0, 0, 0), 3) == ["c", "b"]


def test_a_change_that_the_index_cannot_follow_is_found_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(tmp_path)
    put(collection, {"a": unit(1, 0, 0, 0)})
    with monkeypatch.context() as context:
        context.setattr(FaissIndex, "replace", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            put(collection, {"b": unit(0, 1, 0, 0)})
    until = time.monotonic() + 30
    while ids(collection, unit(0, 1, 0, 0), 1) != ["b"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    collection.close()


def test_change_does_not_wait_for_all_searches_of_a_request(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)})
    ended, search, is_searching = [], FaissIndex.search, threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        is_searching.set()
        time.sleep(0 if ended else 0.1)
        return search(*args, **options)

    monkeypatch.setattr(FaissIndex, "search", slow)

    def many() -> None:
        collection.search_all([Query(unit(1, 0, 0, 0))] * 600, top_k=1)  # a minute, for a change may take long
        ended.append("searches")

    thread = threading.Thread(target=many)
    thread.start()
    is_searching.wait()
    put(collection, {"b": unit(0, 1, 0, 0)})
    ended.append("change")
    thread.join()
    assert ended == ["change", "searches"]


def test_what_is_not_wanted_of_a_document_is_not_read(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {"a": unit(3, 0, 0, 0), "b": unit(2, 1, 0, 0), "c": unit(0, 1, 0, 0)}, {"x": 1})
    fetched: list[int] = []
    fetch = Snapshot.fetch
    monkeypatch.setattr(
        Snapshot, "fetch", lambda store, rows, **parts: fetched.extend(rows) or fetch(store, rows, **parts)
    )
    query = unit(1, 0, 0, 0)[None]
    ((match,),) = collection.search_all(
        asked(query), top_k=3, options=ResultOptions(offset=1, min_score=0.5, metadata=False)
    )
    assert (match.document.id, match.document.text, match.document.metadata) == ("b", "text of b", {})
    assert len(fetched) == 1
    ((match,),) = collection.search_all(asked(query), top_k=1, options=ResultOptions(text=False, max_chars=20))
    assert (match.document.id, match.document.text, match.document.metadata) == ("a", "", {"x": 1})


def test_a_page_and_its_total_are_of_one_moment(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)})
    read = Snapshot.page

    def page(store: DocumentStore, **asked: Any) -> Page:
        found = read(store, **asked)
        put(collection, {"b": unit(0, 1, 0, 0)})
        return found

    monkeypatch.setattr(Snapshot, "page", page)
    found = collection.page(after_row=0, limit=9, max_chars=99)
    assert [one.id for one in found.documents] == ["a"]
    assert (found.total, len(collection)) == (1, 2)


@pytest.mark.parametrize("filter_", [None, {}, {"lang": "de"}])
def test_a_count_and_its_facets_are_of_one_moment(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, filter_: dict[str, Any] | None
) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {"lang": "de"})
    read = Snapshot.facet

    def facet(store: DocumentStore, field: str, **asked: Any) -> Facet:
        put(collection, {"b": unit(0, 1, 0, 0)}, {"lang": "de"})
        return read(store, field, **asked)

    monkeypatch.setattr(Snapshot, "facet", facet)
    count, facets = collection.counts(["lang"], most_values=9, filter_=filter_)
    assert (count, facets["lang"].counts) == (1, {"de": 1})
    assert collection.count(filter_) == 2


def test_too_many_characters_are_refused_before_all_are_read(collection: Collection) -> None:
    put(collection, {str(number): unit(1, number, 0, 0) for number in range(9)})
    queries = np.stack([unit(1, 0, 0, 0), unit(0, 1, 0, 0)])
    few = ResultOptions(max_chars=100)  # nine have 9 + 2 each
    assert [len(found) for found in collection.search_all(asked(queries), top_k=4, options=few)] == [4, 4]
    assert len(collection.search_all(asked(queries[:1]), top_k=9, options=ResultOptions(max_chars=99))[0]) == 9
    with pytest.raises(InvalidInput, match="have more than 98 characters together"):
        collection.search_all(asked(queries[:1]), top_k=9, options=ResultOptions(max_chars=98))
    assert len(ids(collection, queries[0], 9)) == 9


def test_filter_slower_than_writers_is_tried_a_few_times(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": unit(1, 0, 0, 0)}, {"x": 1})
    lookups: list[object] = []
    matching = Snapshot.matching

    def beside_a_change(store: DocumentStore, condition: Any, **_: Any) -> Any:
        lookups.append(condition)
        if len(lookups) <= search.TRIES:  # then a writer has to wait
            with ThreadPoolExecutor() as other:
                other.submit(put, collection, {"a": unit(1, len(lookups), 0, 0)}, {"x": 1}).result()
        return matching(store, condition)

    monkeypatch.setattr(Snapshot, "matching", beside_a_change)
    found = collection.search_all([Query(unit(1, 0, 0, 0))] * 20, top_k=1, filter_={"x": 1})
    assert [[match.document.id for match in one] for one in found] == [["a"]] * 20
    assert len(lookups) == search.TRIES + 1


def test_slow_filter_is_given_up_and_the_next_search_is_not(collection: Collection) -> None:
    for number in range(20):
        put(collection, {f"{number}-{other}": unit(1, 0, 0, 0) for other in range(50)}, {"x": number})
    slow = {"or": [{"x": {"gte": -number}} for number in range(300)]}
    with pytest.raises(InvalidInput, match=r"takes longer than 0.001 s \(CROSSLET_REQUEST_TIMEOUT_S\)"):
        collection.search_all([Query(unit(1, 0, 0, 0))], top_k=1, filter_=slow, options=ResultOptions(filter_s=0.001))
    with pytest.raises(InvalidInput, match=r"takes longer than 0.001 s"):
        collection.delete_matching(slow, filter_s=0.001)
    with pytest.raises(InvalidInput, match=r"takes longer than 0.001 s"):
        collection.count(slow, filter_s=0.001)
    with pytest.raises(InvalidInput, match=r"takes longer than 0.001 s"):
        collection.page(after_row=0, limit=1, max_chars=9, filter_=slow, filter_s=0.001)
    assert collection.count(slow, filter_s=60.0) == 1000
    assert len(ids(collection, unit(1, 0, 0, 0), 9, filter_=slow)) == 9
    assert collection.delete_matching(slow, filter_s=60.0) == 1000


def test_index_that_cannot_be_loaded_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.live_index.RETRY_S", 0.05)
    collection = open_collection(tmp_path)
    put(collection, {"a": unit(1, 0, 0, 0), "b": unit(0, 1, 0, 0)})
    with monkeypatch.context() as context:
        context.setattr(FaissIndex, "remove", Mock(side_effect=MemoryError))
        context.setattr(IndexMaintenance, "load", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            collection.delete(["a"])
        assert ids(collection, unit(1, 0, 0, 0), 2) == ["b"]
    until = time.monotonic() + 30
    while len(collection) != 1:
        assert time.monotonic() < until
        time.sleep(0.01)
    collection.close()


def test_a_replaced_document_uses_up_no_row_number(collection: Collection) -> None:
    rows = []
    for id_ in ("a", *["b"] * 50, "c"):
        put(collection, {id_: unit(1, 0, 0, 0)})
        document = collection.get(id_)
        assert document is not None
        rows.append(document.row)
    assert rows == [1, *[2] * 50, 3]


def test_filter_over_sparse_rows_takes_little_memory() -> None:
    rows = [10**12 * number for number in range(1, 3000)]
    index = FaissIndex(DIM)
    index.replace(index.prepare(rows, np.tile(unit(1, 0, 0, 0), (len(rows), 1))))
    hits = index.search(unit(1, 0, 0, 0), top_k=1, among=np.asarray(rows[:2000]))
    assert set(hits.rows) == set(rows[:2000])
