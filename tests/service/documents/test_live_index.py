"""The vector index of a store: when inverted lists are made, kept, put aside and made again."""

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from service.documents.collections import Collection, IndexOptions
from service.documents.interface import Query, ResultOptions
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore, Snapshot
from service.documents.vectors.ivf import InvertedIndex
from service.documents.vectors.snapshots import SnapshotFolder
from service.errors import StorageFull, StoreError
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import (
    INVERTED,
    STORE,
    Open,
    open_collection,
    open_store,
    put_numbered,
    unit_vectors,
    wait_for,
)

DIM, EXACT = 16, 400
vectors = partial(unit_vectors, dim=DIM)
ROWS = vectors(EXACT + 100)


@pytest.fixture
def reopen(reopen: Open) -> Open:
    return partial(reopen, dim=DIM, exact_rows=EXACT)


def put_and_build(collection: Collection, vectors_ND: np.ndarray, *, first: int = 0) -> None:
    put_numbered(collection, vectors_ND, first=first)
    wait_for(lambda: collection.backend == INVERTED)


@pytest.fixture
def inverted(collection: Collection) -> Collection:
    """A collection of `ROWS` in inverted lists."""
    put_and_build(collection, ROWS)
    return collection


def found(collection: Collection, query: np.ndarray, **options: object) -> dict[str, float]:
    return {match.document.id: match.score for match in search_one(collection, query, top_k=10, **options)}  # type: ignore[arg-type]


def oracle(vectors_ND: np.ndarray, query: np.ndarray, count: int = 10) -> dict[str, float]:
    scores = vectors_ND @ query
    return {f"d{row}": float(scores[row]) for row in np.argsort(-scores)[:count]}


def missed(collection: Collection, vectors_ND: np.ndarray, *, first: int = 0) -> list[int]:
    """The documents that a search for their own vector does not find."""
    return [row for row, vector_D in enumerate(vectors_ND) if f"d{first + row}" not in found(collection, vector_D)]


def test_many_documents_move_to_inverted_lists_beside_searches(collection: Collection) -> None:
    rows = vectors(EXACT + 200)
    put_numbered(collection, rows[:EXACT])
    assert (collection.backend, collection.recall) == ("faiss-flat", 1.0)
    put_and_build(collection, rows[EXACT:], first=EXACT)
    assert collection.recall >= 0.95
    shares = []
    for query in rows[:40]:
        near, here = oracle(rows, query), found(collection, query)
        shares.append(len(near.keys() & here.keys()) / 10)
        for name in near.keys() & here.keys():
            assert here[name] == pytest.approx(near[name], abs=1e-6)  # scores are the vectors' own
    assert np.mean(shares) >= 0.95


def test_a_change_during_a_build_is_not_lost(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    build = IndexMaintenance.build

    def build_and_change(maintenance: IndexMaintenance, *options: object) -> object:
        built = build(maintenance, *options)  # type: ignore[arg-type]
        put_numbered(collection, vectors(5, seed=9), first=9000)
        collection.delete(["d3", "d4"])
        return built

    monkeypatch.setattr(IndexMaintenance, "build", build_and_change)
    put_and_build(collection, ROWS)
    assert len(collection) == len(ROWS) + 5 - 2
    assert "d3" not in found(collection, ROWS[3])
    assert "d9002" in found(collection, vectors(5, seed=9)[2])


def test_a_snapshot_is_brought_up_to_date_at_start(tmp_path: Path, reopen: Open) -> None:
    killed = open_collection(tmp_path, dim=DIM, exact_rows=EXACT)
    put_and_build(killed, ROWS)
    snapshot = (tmp_path / "index.json").read_bytes()
    put_numbered(killed, vectors(1, seed=7), first=7000)  # too few for another snapshot while it runs
    put_numbered(killed, ROWS[1:2], first=0)  # d0 has d1's vector now
    killed.delete(["d5"])
    assert (tmp_path / "index.json").read_bytes() == snapshot
    killed._store.close()  # no snapshot at the end

    again = reopen()
    assert again.backend == INVERTED
    assert len(again) == len(ROWS)
    assert "d7000" in found(again, vectors(1, seed=7)[0])
    assert found(again, ROWS[1]).keys() >= {"d0", "d1"}
    assert "d5" not in found(again, ROWS[5])
    again.close()
    assert (tmp_path / "index.json").read_bytes() != snapshot


@pytest.mark.usefixtures("inverted")
def test_few_documents_are_searched_exactly_despite_snapshot(reopen: Open) -> None:
    assert reopen(exact_rows=len(ROWS)).backend == "faiss-flat"


def test_lists_that_were_not_noted_are_saved_later(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = Mock(side_effect=sqlite3.OperationalError("database is locked"))
    with monkeypatch.context() as patch:
        patch.setattr(DocumentStore, "remember_snapshot", locked)
        put_and_build(collection, ROWS)
        assert not (tmp_path / "index.json").exists()
    put_numbered(collection, vectors(1, seed=7), first=7000)
    collection.close()
    assert (tmp_path / "index.json").exists()


def test_equal_documents_keep_their_order_over_pages(reopen: Open) -> None:
    collection = reopen(dim=384)
    rows = vectors(EXACT + 123, dim=384)
    rows[EXACT + 100 :] = rows[EXACT + 100]
    put_and_build(collection, rows)
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


@pytest.mark.parametrize("name", ["index.json", "index-*"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:-40] + b"\0" + data[-39:]])
def test_a_damaged_snapshot_is_built_again(
    inverted: Collection, reopen: Open, tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    inverted.close()
    (path,) = tmp_path.glob(name)
    path.write_bytes(damage(path.read_bytes()))
    again = reopen()
    assert again.backend == INVERTED
    assert len(again) == len(ROWS)
    assert "d17" in found(again, ROWS[17])


def test_filters_hold_inside_inverted_lists(inverted: Collection) -> None:
    even = np.arange(0, len(ROWS), 2)
    for query in ROWS[:20]:
        here = found(inverted, query, filter_={"half": True})
        near = {f"d{even[row]}" for row in np.argsort(-(ROWS[even] @ query))[:10]}
        assert len(here) == 10
        assert all(int(name[1:]) % 2 == 0 for name in here)
        assert len(near & here.keys()) >= 8


def test_much_more_than_it_was_built_for_builds_it_again(collection: Collection) -> None:
    put_and_build(collection, vectors(EXACT + 1))
    first = collection._live.now
    put_numbered(collection, vectors(4 * EXACT, seed=1), first=10_000)
    wait_for(lambda: collection._live.now is not first)
    assert len(collection) == 5 * EXACT + 1
    assert collection._live.now.lists > first.lists  # type: ignore[attr-defined]


def test_without_memory_for_a_build_search_stays_exact(reopen: Open) -> None:
    def refuse(growth_bytes: int) -> None:
        if growth_bytes == 2 * len(ROWS) * (DIM + 8):
            refused.append(growth_bytes)
            raise StorageFull("no room")

    refused: list[int] = []
    collection = reopen(check_memory=refuse)
    put_numbered(collection, ROWS)
    wait_for(lambda: bool(refused))
    put_numbered(collection, ROWS[:1])  # the thread lives, and does not try again at once
    assert collection.backend == "faiss-flat"
    assert found(collection, ROWS[8]) == pytest.approx(oracle(ROWS, ROWS[8]), abs=1e-6)
    collection.close()
    assert len(refused) == 1


def test_closing_during_a_build_ends_soon_and_loses_nothing(reopen: Open) -> None:
    put_numbered(reopen(), ROWS)
    assert len(reopen()) == len(ROWS)


def test_near_duplicates_do_not_make_searches_look_easy(collection: Collection) -> None:
    """Each vector has nineteen noisy copies: its own nearest are all in one list, those of another query are not."""
    noise = np.random.default_rng(1).standard_normal((2000, DIM)).astype(np.float32)
    rows = np.repeat(vectors(100), 20, axis=0) + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    put_and_build(collection, rows)
    queries = vectors(40, seed=2)
    assert np.mean([len(oracle(rows, query).keys() & found(collection, query).keys()) for query in queries]) >= 9


@pytest.fixture
def restored(reopen: Open, tmp_path: Path) -> Open:
    """Opens a store of vectors(600), as it once had; what lies beside it was made when each had been replaced."""
    put_and_build(reopen(), vectors(600))
    reopen().close()
    backup = (tmp_path / STORE).read_bytes()
    collection = reopen()
    put_numbered(collection, vectors(600, seed=1))
    collection.close()
    (tmp_path / STORE).write_bytes(backup)
    with pytest.raises(StoreError, match=r"remove .*documents\.revision"):
        reopen()
    (tmp_path / "documents.revision").unlink()
    return reopen


def test_restored_store_uses_no_snapshot_of_another_time(restored: Open) -> None:
    """Rows of the copy and of the index mean other documents; their numbers are the same."""
    collection = restored()
    assert not missed(collection, vectors(600))
    put_numbered(collection, vectors(300, seed=2), first=1000)  # this brings it past the snapshot's revision
    collection = restored()
    assert not missed(collection, vectors(600))
    assert not missed(collection, vectors(300, seed=2), first=1000)


def test_old_snapshot_is_not_used_by_a_restored_store(restored: Open, tmp_path: Path) -> None:
    newest = {path.name: path.read_bytes() for path in tmp_path.glob("index*")}
    store = open_store(tmp_path, dim=DIM)
    nowhere = IndexOptions(tmp_path / "absent", "aa", DIM, exact_documents=EXACT)  # no snapshot: a crash
    without_index = Collection(store, nowhere)
    for number in range(5):
        put_numbered(without_index, vectors(10, seed=number + 2), first=1000)
    without_index.close()
    assert all((tmp_path / name).read_bytes() == data for name, data in newest.items())
    assert not missed(restored(), vectors(600))


def test_lists_that_missed_a_change_are_not_saved(
    inverted: Collection, reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(InvertedIndex, "replace", Mock(side_effect=MemoryError))
        context.setattr(IndexMaintenance, "load", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            put_numbered(inverted, vectors(50, seed=1))
        inverted.close()
    assert not missed(reopen(), vectors(50, seed=1))


def test_failed_snapshot_is_retried_after_as_many_changes(
    collection: Collection, reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.documents.live_index.SAVED_ROWS", 40)
    put_and_build(collection, vectors(600))
    tried = Mock(side_effect=OSError(28, "no room"))
    with monkeypatch.context() as context:
        context.setattr(SnapshotFolder, "write", tried)
        put_numbered(collection, vectors(70, seed=1))
        wait_for(lambda: tried.call_count == 1)
        for number in range(60):
            put_numbered(collection, vectors(1, seed=number), first=number)
        time.sleep(0.2)
        assert tried.call_count == 1
        put_numbered(collection, vectors(10, seed=2))
        wait_for(lambda: tried.call_count == 2)
    assert not missed(reopen(), vectors(10, seed=2))


def test_of_very_many_equal_texts_few_vectors_are_read_at_a_time(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_and_build(collection, np.tile(vectors(1), (600, 1)))
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


def test_a_store_of_two_documents_may_have_lists(reopen: Open) -> None:
    collection = reopen(exact_rows=1)
    put_and_build(collection, vectors(3))
    assert not missed(collection, vectors(3))
