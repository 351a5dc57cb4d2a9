import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.interface import Query
from service.errors import StorageFull, StoreError
from service.offline.store_file import open_store_file
from tests.service.documents.stores import (
    DIM,
    EAST,
    NORTH,
    STORE,
    UP,
    Open,
    faults,
    ids,
    open_collection,
    open_store,
    put,
    read_page,
    unit,
)


@pytest.mark.parametrize("version", ["7", "9", "x"])
def test_store_of_another_schema_is_refused(tmp_path: Path, version: str) -> None:
    with closing(open_store(tmp_path)) as store:
        store.note("schema_version", version)
    sentence = f"has schema {version}; this crosslet reads 8: .* `crosslet index export --out .* `crosslet index build "
    for read_only in (False, True):
        with pytest.raises(StoreError, match=sentence):
            open_store(tmp_path, read_only=read_only)
    with pytest.raises(StoreError, match=sentence), open_store_file(tmp_path / STORE):
        pass


def test_store_without_fingerprint_is_refused(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        store.writer.execute("DELETE FROM store WHERE key = 'fingerprint'")
    with pytest.raises(StoreError, match="vectors of model unknown"):
        open_collection(tmp_path)


def test_a_store_without_documents_can_become_another_models(reopen: Open) -> None:
    """As after a first look at the service, or once all documents are deleted."""
    put(reopen(fingerprint="aa"), {"a": EAST})
    way_out = r"CROSSLET_MODEL.*CROSSLET_DATA.* `crosslet index re-embed` \(`docker compose run --rm re-embed`\)$"
    with pytest.raises(StoreError, match=f"model aa.*loaded model bb: .*{way_out}"):
        reopen(fingerprint="bb")
    reopen(fingerprint="aa").delete(["a"])
    put(reopen(fingerprint="bb", dim=2 * DIM), {"b": np.eye(2 * DIM, dtype=np.float32)[0]})
    with pytest.raises(StoreError, match="holds vectors of model bb"):
        reopen(fingerprint="aa")


def test_a_full_disk_loses_nothing_and_changes_nothing(collection: Collection, tmp_path: Path) -> None:
    put(collection, {"a": EAST})
    collection._store.writer.execute("PRAGMA max_page_count = 30")
    with pytest.raises(StorageFull, match="disk"):
        collection.put([Document("a", "changed", {}), Document("big", "word " * 10**6, {})], np.stack([UP, NORTH]))
    assert ids(collection, EAST, 5) == ["a"]
    words = collection.search_all([Query(words="text"), Query(words="changed")], top_k=5)
    assert [len(matches) for matches in words] == [1, 0]
    put(collection, {"b": NORTH})
    assert len(collection) == 2
    assert faults(tmp_path) == []


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE])
def test_a_full_disk_quota_or_shared_memory_is_storage_full(tmp_path: Path, code: int) -> None:
    store = open_store(tmp_path)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(StorageFull, match="CROSSLET_DATA"), store.transaction():
        raise error
    store.close()


def test_reading_anothers_store_at_rest_leaves_no_file_behind(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": EAST})
    collection.close()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.geteuid", lambda: 12345)  # its owner could not open a log of this user
    reader = open_collection(tmp_path, read_only=True)
    assert ids(reader, EAST, 1) == ["a"]
    assert sorted(tmp_path.iterdir()) == before
    reader.close()
    assert sorted(tmp_path.iterdir()) == before


def test_reader_goes_on_while_a_service_changes_everything(reopen: Open, tmp_path: Path) -> None:
    many = {f"{number:04}": unit(1, number, 0, 0) for number in range(3000)}
    put(reopen(), many)
    reopen().close()
    with open_store_file(tmp_path / STORE) as file:
        rows = file.rows()
        seen = [next(rows).id for _ in range(10)]
        collection = reopen()
        collection.delete(list(many)[5:])
        put(collection, {"new": EAST})
        collection.close()
        assert seen + [row.id for row in rows] == list(many)
    collection = reopen()
    assert len(collection) == 6
    collection.close()
    assert not list(tmp_path.glob("*-wal"))


def test_a_store_that_is_being_written_is_read_of_one_moment(collection: Collection, tmp_path: Path) -> None:
    put(collection, {"a": EAST, "b": NORTH})
    reader = open_collection(tmp_path, read_only=True)
    put(collection, {"c": EAST})
    collection.delete(["a"])
    collection.put([Document("b", "changed", {})], EAST[None])
    with ThreadPoolExecutor() as another_thread:
        for run in (lambda call: call(), lambda call: another_thread.submit(call).result()):
            assert run(lambda: ids(reader, EAST, 3)) == ["a", "b"]
            assert [(document.id, document.text) for document in run(lambda: read_page(reader)).documents] == [
                ("a", "text of a"),
                ("b", "text of b"),
            ]
            assert run(lambda: reader.get("c")) is None
    reader.close()
    assert set(ids(collection, EAST, 3)) == {"c", "b"}


@pytest.mark.parametrize("read_only", [False, True])
def test_threads_that_end_leave_no_open_file(collection: Collection, tmp_path: Path, read_only: bool) -> None:
    put(collection, {"a": EAST})
    if read_only:
        collection.close()
    index = open_collection(tmp_path, read_only=True) if read_only else collection
    index.get("a")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with ThreadPoolExecutor() as threads:
            assert threads.submit(index.get, "a").result() is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    index.close()


def test_a_replaced_document_uses_up_no_row_number(collection: Collection) -> None:
    rows = []
    for id_ in ("a", *["b"] * 50, "c"):
        put(collection, {id_: EAST})
        document = collection.get(id_)
        assert document is not None
        rows.append(document.row)
    assert rows == [1, *[2] * 50, 3]


def test_log_is_folded_beside_readers_and_may_fail(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("service.documents.store.connections.FOLD_EVERY_CHANGES", 100)
    log = tmp_path / f"{STORE}-wal"
    for number in range(400):
        put(collection, {f"d{number}": unit(1, number, 0, 0)})
    assert log.stat().st_size < 3_000_000  # every page of every change is 8 MB
    collection._store.fold_log(Mock(execute=Mock(side_effect=sqlite3.OperationalError("database or disk is full"))))
    assert "log not merged" in caplog.text
    assert len(ids(collection, EAST, 5)) == 5
