import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from service.documents.collections import Collection
from service.documents.document import Page
from service.documents.filters import Facet
from service.documents.interface import Query
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore, Snapshot
from service.documents.store.transaction import Transaction
from service.documents.vectors.index import FaissIndex
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import EAST, NORTH, count, ids, put, read_page, wait_for


def test_every_change_has_the_next_revision(collection: Collection) -> None:
    assert put(collection, {"a": EAST}) == 1
    assert collection.delete(["unknown"]) == 0
    assert put(collection, {"a": EAST}) == 2


def test_readers_see_whole_changes_only(collection: Collection) -> None:
    """Two documents change places again and again; every search sees exactly one of them at each place."""
    here, there = EAST, NORTH
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
    put(collection, {"old": EAST})
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
    search = partial(ids, collection, EAST, 5)
    with ThreadPoolExecutor(2) as threads:
        written = threads.submit(put, collection, {"new": EAST})
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


def test_a_change_that_the_index_cannot_follow_is_found_soon(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": EAST})
    with monkeypatch.context() as context:
        context.setattr(FaissIndex, "replace", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            put(collection, {"b": NORTH})
    wait_for(lambda: ids(collection, NORTH, 1) == ["b"])


def test_change_does_not_wait_for_all_searches_of_a_request(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": EAST})
    ended, search, is_searching = [], FaissIndex.search, threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        is_searching.set()
        time.sleep(0 if ended else 0.1)
        return search(*args, **options)

    monkeypatch.setattr(FaissIndex, "search", slow)

    def many() -> None:
        collection.search_all([Query(EAST)] * 600, top_k=1)  # a minute, for a change may take long
        ended.append("searches")

    thread = threading.Thread(target=many)
    thread.start()
    is_searching.wait()
    put(collection, {"b": NORTH})
    ended.append("change")
    thread.join()
    assert ended == ["change", "searches"]


def test_a_page_and_its_total_are_of_one_moment(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {"a": EAST})
    read = Snapshot.page

    def page(store: DocumentStore, **asked: Any) -> Page:
        found = read(store, **asked)
        put(collection, {"b": NORTH})
        return found

    monkeypatch.setattr(Snapshot, "page", page)
    found = read_page(collection)
    assert [one.id for one in found.documents] == ["a"]
    assert (found.total, len(collection)) == (1, 2)


@pytest.mark.parametrize("filter_", [None, {}, {"lang": "de"}])
def test_a_count_and_its_facets_are_of_one_moment(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, filter_: dict[str, Any] | None
) -> None:
    put(collection, {"a": EAST}, {"lang": "de"})
    read = Snapshot.facet

    def facet(store: DocumentStore, field: str, **asked: Any) -> Facet:
        put(collection, {"b": NORTH}, {"lang": "de"})
        return read(store, field, **asked)

    monkeypatch.setattr(Snapshot, "facet", facet)
    total, facets = collection.counts(["lang"], most_values=9, filter_=filter_)
    assert (total, facets["lang"].counts) == (1, {"de": 1})
    assert count(collection, filter_) == 2


def test_index_that_cannot_be_loaded_is_tried_again(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.live_index.RETRY_S", 0.05)
    put(collection, {"a": EAST, "b": NORTH})
    with monkeypatch.context() as context:
        context.setattr(FaissIndex, "remove", Mock(side_effect=MemoryError))
        context.setattr(IndexMaintenance, "load", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            collection.delete(["a"])
        assert ids(collection, EAST, 2) == ["b"]
    wait_for(lambda: len(collection) == 1)
