"""The document store with inverted lists: when they are made, kept, put aside and made again."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.interface import Query, ResultOptions
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore, Snapshot
from service.documents.vectors.ivf import InvertedIndex
from service.documents.vectors.snapshots import SnapshotFolder
from service.errors import StorageFull, StoreError
from tests.service.documents.oracle import search_one

DIM, EXACT = 16, 400
INVERTED = "faiss-ivf-sq8"


def open_collection(folder: Path, *, fingerprint: str = "aa", **options: object) -> Collection:
    store = DocumentStore(folder / "documents.sqlite3", fingerprint=fingerprint, dim=DIM)
    snapshots = SnapshotFolder(folder, fingerprint=fingerprint)
    maintenance = IndexMaintenance(store, dim=DIM, snapshots=snapshots, exact_rows=EXACT)
    return Collection(store, maintenance, **options)  # type: ignore[arg-type]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    collection = open_collection(tmp_path)
    yield collection
    collection.close()


def vectors(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def put(collection: Collection, vectors_ND: np.ndarray, *, first: int = 0) -> None:
    """Documents d<first>..., `half` says whether the number is even."""
    documents = [
        Document(f"d{first + number}", "text", {"half": (first + number) % 2 == 0}) for number in range(len(vectors_ND))
    ]
    collection.put(documents, vectors_ND)


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def found(collection: Collection, query: np.ndarray, **options: object) -> dict[str, float]:
    return {match.document.id: match.score for match in search_one(collection, query, top_k=10, **options)}  # type: ignore[arg-type]


def oracle(vectors_ND: np.ndarray, query: np.ndarray, count: int = 10) -> dict[str, float]:
    scores = vectors_ND @ query
    return {f"d{row}": float(scores[row]) for row in np.argsort(-scores)[:count]}


def test_many_documents_move_to_inverted_lists_beside_searches(collection: Collection) -> None:
    rows = vectors(EXACT + 200)
    put(collection, rows[:EXACT])
    assert (collection.backend, collection.recall) == ("faiss-flat", 1.0)
    put(collection, rows[EXACT:], first=EXACT)
    wait_for(lambda: collection.backend == INVERTED)
    assert collection.recall >= 0.95
    shares = []
    for query in rows[:40]:
        near, here = oracle(rows, query), found(collection, query)
        shares.append(len(near.keys() & here.keys()) / 10)
        for name in near.keys() & here.keys():
            assert here[name] == pytest.approx(near[name], abs=1e-6)  # scores are the vectors' own
    assert np.mean(shares) >= 0.95


def test_a_change_during_a_build_is_not_lost(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = vectors(EXACT + 100)
    build = IndexMaintenance.build

    def build_and_change(maintenance: IndexMaintenance, *options: object) -> object:
        built = build(maintenance, *options)  # type: ignore[arg-type]
        put(collection, vectors(5, seed=9), first=9000)
        collection.delete(["d3", "d4"])
        return built

    monkeypatch.setattr(IndexMaintenance, "build", build_and_change)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    assert len(collection) == len(rows) + 5 - 2
    assert "d3" not in found(collection, rows[3])
    assert "d9002" in found(collection, vectors(5, seed=9)[2])


def test_a_snapshot_is_brought_up_to_date_at_start(tmp_path: Path) -> None:
    rows = vectors(EXACT + 100)
    collection = open_collection(tmp_path)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    snapshot = (tmp_path / "index.json").read_bytes()
    put(collection, vectors(1, seed=7), first=7000)  # too few for another snapshot while it runs
    put(collection, rows[1:2], first=0)  # d0 has d1's vector now
    collection.delete(["d5"])
    assert (tmp_path / "index.json").read_bytes() == snapshot
    collection._store.close()  # as a kill leaves it: no snapshot at the end

    again = open_collection(tmp_path)
    assert again.backend == INVERTED
    assert len(again) == len(rows)
    assert "d7000" in found(again, vectors(1, seed=7)[0])
    assert found(again, rows[1]).keys() >= {"d0", "d1"}
    assert "d5" not in found(again, rows[5])
    again.close()
    assert (tmp_path / "index.json").read_bytes() != snapshot


def test_few_documents_are_searched_exactly_despite_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(tmp_path)
    put(collection, vectors(EXACT + 100))
    wait_for(lambda: collection.backend == INVERTED)
    collection.close()
    monkeypatch.setattr("tests.service.documents.test_maintenance.EXACT", EXACT + 100)
    again = open_collection(tmp_path)
    assert again.backend == "faiss-flat"
    again.close()


def test_lists_that_were_not_noted_are_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(store: DocumentStore, id_: str) -> None:
        raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(DocumentStore, "remember_snapshot", locked)
        collection = open_collection(tmp_path)
        put(collection, vectors(EXACT + 100))
        wait_for(lambda: collection.backend == INVERTED)
        assert not (tmp_path / "index.json").exists()
    put(collection, vectors(1, seed=7), first=7000)
    collection.close()
    assert (tmp_path / "index.json").exists()


def test_equal_documents_keep_their_order_over_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.service.documents.test_maintenance.DIM", 384)
    collection = open_collection(tmp_path)
    rows = vectors(EXACT + 123)
    rows[EXACT + 100 :] = rows[EXACT + 100]
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    query = rows[-1] + 0.5 * rows[0]
    query /= np.linalg.norm(query)
    equal = {f"d{number}" for number in range(EXACT + 100, EXACT + 123)}
    pages = [
        collection.search_all([Query(query)], top_k=top_k, options=ResultOptions(offset=top_k - 5))[0]
        for top_k in (5, 10, 15)
    ]
    matches = [match for page in pages for match in page]
    assert len({match.score for match in matches}) == 1
    assert [match.document.id for match in matches] == sorted(equal)[:15]
    collection.close()


@pytest.mark.parametrize("name", ["index.json", "index-*"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:-40] + b"\0" + data[-39:]])
def test_a_damaged_snapshot_is_built_again(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    rows = vectors(EXACT + 50)
    collection = open_collection(tmp_path)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    collection.close()
    (path,) = tmp_path.glob(name)
    path.write_bytes(damage(path.read_bytes()))
    again = open_collection(tmp_path)
    assert again.backend == INVERTED
    assert len(again) == len(rows)
    assert "d17" in found(again, rows[17])
    again.close()


def test_a_store_from_a_backup_is_believed_not_its_snapshot(tmp_path: Path) -> None:
    rows = vectors(EXACT + 50)
    collection = open_collection(tmp_path)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    collection.close()
    backup = (tmp_path / "documents.sqlite3").read_bytes()
    collection = open_collection(tmp_path)
    collection.delete(["d1"])
    put(collection, vectors(1, seed=3), first=3000)
    collection.close()  # its snapshot knows of both
    (tmp_path / "documents.sqlite3").write_bytes(backup)
    with pytest.raises(StoreError, match=r"remove .*documents\.revision"):
        open_collection(tmp_path)
    (tmp_path / "documents.revision").unlink()
    again = open_collection(tmp_path)
    assert len(again) == len(rows)
    assert "d1" in found(again, rows[1])
    assert "d3000" not in found(again, vectors(1, seed=3)[0])
    again.close()


def test_filters_hold_inside_inverted_lists(collection: Collection) -> None:
    rows = vectors(EXACT + 100)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    even = np.arange(0, len(rows), 2)
    for query in rows[:20]:
        here = found(collection, query, filter_={"half": True})
        near = {f"d{even[row]}" for row in np.argsort(-(rows[even] @ query))[:10]}
        assert len(here) == 10
        assert all(int(name[1:]) % 2 == 0 for name in here)
        assert len(near & here.keys()) >= 8


def test_much_more_than_it_was_built_for_builds_it_again(collection: Collection) -> None:
    put(collection, vectors(EXACT + 1))
    wait_for(lambda: collection.backend == INVERTED)
    first = collection._live.now
    put(collection, vectors(4 * EXACT, seed=1), first=10_000)
    wait_for(lambda: collection._live.now is not first)
    assert len(collection) == 5 * EXACT + 1
    assert collection._live.now.lists > first.lists  # type: ignore[attr-defined]


def test_without_memory_for_a_build_search_stays_exact(tmp_path: Path) -> None:
    def refuse(growth_bytes: int) -> None:
        if growth_bytes == 2 * (EXACT + 100) * (DIM + 8):
            refused.append(growth_bytes)
            raise StorageFull("no room")

    refused: list[int] = []
    collection = open_collection(tmp_path, check_memory=refuse)
    rows = vectors(EXACT + 100)
    put(collection, rows)
    wait_for(lambda: bool(refused))
    put(collection, rows[:1])  # the thread lives, and does not try again at once
    assert collection.backend == "faiss-flat"
    assert found(collection, rows[8]) == pytest.approx(oracle(rows, rows[8]), abs=1e-6)
    collection.close()
    assert len(refused) == 1


def test_closing_during_a_build_ends_soon_and_loses_nothing(tmp_path: Path) -> None:
    rows = vectors(EXACT + 100)
    collection = open_collection(tmp_path)
    put(collection, rows)
    collection.close()
    again = open_collection(tmp_path)
    assert len(again) == len(rows)
    again.close()


def test_near_duplicates_do_not_make_searches_look_easy(collection: Collection) -> None:
    """Each vector has nineteen noisy copies: its own nearest are all in one list, those of another query are not."""
    noise = np.random.default_rng(1).standard_normal((2000, DIM)).astype(np.float32)
    rows = np.repeat(vectors(100), 20, axis=0) + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    put(collection, rows)
    wait_for(lambda: collection.backend == INVERTED)
    queries = vectors(40, seed=2)
    assert np.mean([len(oracle(rows, query).keys() & found(collection, query).keys()) for query in queries]) >= 9


def restore_a_backup(folder: Path) -> None:
    """The store has vectors(600), as it once had; what lies beside it was made when each had been replaced."""
    collection = open_collection(folder)
    put(collection, vectors(600))
    wait_for(lambda: collection.backend == INVERTED)
    collection.close()
    backup = (folder / "documents.sqlite3").read_bytes()
    collection = open_collection(folder)
    put(collection, vectors(600, seed=1))
    collection.close()
    (folder / "documents.sqlite3").write_bytes(backup)
    (folder / "documents.revision").unlink()


def test_restored_store_uses_no_snapshot_of_another_time(tmp_path: Path) -> None:
    """Rows of the copy and of the index mean other documents; their numbers are the same."""
    restore_a_backup(tmp_path)
    collection = open_collection(tmp_path)
    assert not missed(collection, vectors(600))
    put(collection, vectors(300, seed=2), first=1000)  # this brings it past the snapshot's revision
    collection.close()
    collection = open_collection(tmp_path)
    assert not missed(collection, vectors(600))
    assert not missed(collection, vectors(300, seed=2), first=1000)
    collection.close()


def test_old_snapshot_is_not_used_by_a_restored_store(tmp_path: Path) -> None:
    restore_a_backup(tmp_path)
    newest = {path.name: path.read_bytes() for path in tmp_path.glob("index*")}
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM)
    without_index = Collection(store, IndexMaintenance(store, dim=DIM, exact_rows=EXACT))  # no snapshot: a crash
    for number in range(5):
        put(without_index, vectors(10, seed=number + 2), first=1000)
    without_index.close()
    assert all((tmp_path / name).read_bytes() == data for name, data in newest.items())
    collection = open_collection(tmp_path)
    assert not missed(collection, vectors(600))
    collection.close()


def test_lists_that_missed_a_change_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(tmp_path)
    put(collection, vectors(600))
    wait_for(lambda: collection.backend == INVERTED)
    with monkeypatch.context() as context:
        context.setattr(InvertedIndex, "replace", Mock(side_effect=MemoryError))
        context.setattr(IndexMaintenance, "load", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            put(collection, vectors(50, seed=1))
        collection.close()
    collection = open_collection(tmp_path)
    assert not missed(collection, vectors(50, seed=1))
    collection.close()


def missed(collection: Collection, vectors_ND: np.ndarray, *, first: int = 0) -> list[int]:
    """The documents that a search for their own vector does not find."""
    return [row for row, vector_D in enumerate(vectors_ND) if f"d{first + row}" not in found(collection, vector_D)]


def test_failed_snapshot_is_retried_after_as_many_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.live_index.SAVED_ROWS", 40)
    collection = open_collection(tmp_path)
    put(collection, vectors(600))
    wait_for(lambda: collection.backend == INVERTED)
    tried = Mock(side_effect=OSError(28, "no room"))
    with monkeypatch.context() as context:
        context.setattr(SnapshotFolder, "write", tried)
        put(collection, vectors(70, seed=1))
        wait_for(lambda: tried.call_count == 1)
        for number in range(60):
            put(collection, vectors(1, seed=number), first=number)
        time.sleep(0.2)
        assert tried.call_count == 1
        put(collection, vectors(10, seed=2))
        wait_for(lambda: tried.call_count == 2)
    collection.close()
    collection = open_collection(tmp_path)
    assert not missed(collection, vectors(10, seed=2))
    collection.close()


def test_of_very_many_equal_texts_few_vectors_are_read_at_a_time(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, np.tile(vectors(1), (600, 1)))
    wait_for(lambda: collection.backend == INVERTED)
    monkeypatch.setattr("service.documents.search.CHUNK_ROWS", 50)
    read: list[int] = []
    vectors_of = Snapshot.vectors_of_documents
    monkeypatch.setattr(
        Snapshot,
        "vectors_of_documents",
        lambda passages, rows: read.append(len(rows)) or vectors_of(passages, rows),
    )
    assert sorted(found(collection, vectors(1)[0])) == sorted(f"d{number}" for number in range(600))[:10]
    assert sum(read) == 600
    assert max(read) == 50


def test_a_store_of_two_documents_may_have_lists(tmp_path: Path) -> None:
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint="aa", dim=DIM)
    collection = Collection(store, IndexMaintenance(store, dim=DIM, exact_rows=1))
    put(collection, vectors(3))
    wait_for(lambda: collection.backend == INVERTED)
    assert not missed(collection, vectors(3))
    collection.close()
