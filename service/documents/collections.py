"""The named collections of the service, each a document store and the vector index derived from it.

A change is first durable, then searchable. One thread makes, changes and drops collections; any may read.

P passages, D dims
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Protocol

import numpy as np

from service.documents.document import Document, Page, Rows, StoredDocument, Vectors, means_by_row
from service.documents.filters import Facet, to_condition
from service.documents.interface import EVERYTHING, DocumentIndex, Match, MetadataChange, Query, ResultOptions
from service.documents.live_index import IndexMaintenance, LiveIndex, Upkeep
from service.documents.names import DEFAULT_NAME, check_name
from service.documents.search import Search, count_facets
from service.documents.store.store import Deadline, DocumentStore
from service.documents.store.transaction import Transaction
from service.documents.vectors.index import Addition, VectorIndex
from service.documents.vectors.snapshots import SnapshotFolder, forget_dropped
from service.errors import InvalidInput, NotFound, ServiceError, StorageFull


@dataclass(frozen=True)
class IndexCapacity:
    """Memory limits for vectors.

    max_index_bytes: for the vectors of all collections, 0 = no limit.
    others_bytes: memory of the vectors of the other collections.
    check_memory: raises StorageFull if the process has no memory for that many more bytes.
    """

    max_index_bytes: int
    others_bytes: Callable[[], int]
    check_memory: Callable[[int], None]

    def check(self, index: VectorIndex, new_passages: int) -> None:
        """Raises: StorageFull: so many more vectors do not fit."""
        if new_passages <= 0:
            return
        needed = self.others_bytes() + index.size_bytes + new_passages * index.row_bytes
        if self.max_index_bytes and needed > self.max_index_bytes:
            raise StorageFull(
                f"the index would take {needed} bytes; the limit is {self.max_index_bytes} (CROSSLET_MAX_INDEX_BYTES)"
            )
        self.check_memory(index.growth_bytes(new_passages))


class Collection(DocumentIndex):
    """Documents in this process: a document store, and the vector index derived from it. See `DocumentIndex`."""

    def __init__(
        self,
        store: DocumentStore,
        maintenance: IndexMaintenance,
        *,
        max_index_bytes: int = 0,
        others_bytes: Callable[[], int] = lambda: 0,
        check_memory: Callable[[int], None] = lambda growth_bytes: None,
        upkeep: Upkeep | None = None,
        read_only: bool = False,
    ) -> None:
        """Load the store's index, or build it.

        Args: max_index_bytes, others_bytes, check_memory: as `IndexCapacity` has them.
              upkeep: the thread for all collections of the store; None: one of its own.
              read_only: another process may be writing the store.
        """
        self._store = store
        self._capacity = IndexCapacity(max_index_bytes, others_bytes, check_memory)
        upkeep = None if read_only else upkeep or Upkeep(store.fold_log)
        self._live = LiveIndex(store, maintenance, check_memory=check_memory, upkeep=upkeep)
        with store.snapshot() as snapshot:
            self._documents = snapshot.count()

    def close(self) -> None:
        """Write an index snapshot and close the store. A running build is abandoned."""
        self._live.rest()
        self._live.save()
        self._store.close()

    def discard(self, drop: Callable[[], None]) -> None:
        """Close for good, without a snapshot. drop: removes the documents; if it raises, all goes on as before."""
        self._live.rest()
        try:
            drop()
        except BaseException:
            self._live.resume()
            raise
        self._store.close()

    def __len__(self) -> int:
        return self._documents

    @property
    def chunks(self) -> bool:
        with self._store.snapshot() as snapshot:
            return snapshot.chunks

    def is_chunked(self, wanted: bool | None) -> bool:
        return self.chunks if wanted is None else wanted

    @property
    def backend(self) -> str:
        return self._live.now.backend

    @property
    def size_bytes(self) -> int:
        return self._live.now.size_bytes

    @property
    def recall(self) -> float:
        return self._live.now.recall

    def check_room(self, documents: Sequence[Document]) -> None:
        with self._store.snapshot() as snapshot:
            replaced = snapshot.rows_of([document.id for document in documents])
            there = len(snapshot.passages_of(replaced)) if replaced else 0
        self._capacity.check(self._live.now, _count_passages(documents) - there)

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        with self._live.writing, self._store.transaction() as transaction:
            there = transaction.count_passages([document.id for document in documents])
            self._capacity.check(self._live.now, _count_passages(documents) - there)
            addition = self._live.now.prepare(transaction.upsert(documents, vectors_PD), vectors_PD)
            transaction.commit()
            self._follow(transaction, addition)
            return transaction.revision

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        with self._live.writing, self._store.transaction() as transaction:
            if not transaction.update_metadata(id_, change):
                return None
            transaction.commit()
            self._follow(transaction)
            return transaction.revision

    def delete(self, ids: Sequence[str]) -> int:
        with self._live.writing, self._store.transaction() as transaction:
            return self._delete(transaction, transaction.rows_of(ids))

    def delete_matching(self, filter_: Mapping[str, object], *, timeout_s: float | None = None) -> int:
        condition = to_condition(filter_)
        with self._live.writing:  # no other write between the look-up and the removal
            with self._store.snapshot(Deadline.after(timeout_s)) as snapshot:
                rows = snapshot.matching(condition).tolist()
            with self._store.transaction() as transaction:
                transaction.check_fields(rows)
                return self._delete(transaction, rows)

    def get(self, id_: str) -> StoredDocument | None:
        with self._store.snapshot() as snapshot:
            return snapshot.get(id_)

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        with self._store.snapshot() as snapshot:
            return snapshot.documents_of(ids)

    def vector(self, id_: str) -> Vectors | None:
        with self._store.snapshot() as snapshot:
            row_P, vectors_PD = snapshot.vectors_of_documents(snapshot.rows_of([id_]))
        return next(iter(means_by_row(row_P, vectors_PD).values()), None)

    def page(
        self,
        *,
        after_row: int,
        limit: int,
        max_chars: int,
        filter_: Mapping[str, object] | None = None,
        timeout_s: float | None = None,
        truncated: bool = False,
    ) -> Page:
        condition = to_condition(filter_) if filter_ else None  # {} matches everything
        with self._store.snapshot(Deadline.after(timeout_s)) as snapshot:
            selected: list[Rows] = [snapshot.truncated()] if truncated else []
            if condition is not None:
                selected.append(snapshot.matching(condition))
            rows = reduce(np.intersect1d, selected) if selected else None
            page = snapshot.page(after_row=after_row, limit=limit, max_chars=max_chars, among=rows)
            return replace(page, total=snapshot.count() if rows is None else len(rows))

    def count(self, filter_: Mapping[str, object] | None = None, *, timeout_s: float | None = None) -> int:
        if not filter_:
            return len(self)
        return self.counts([], most_values=0, filter_=filter_, timeout_s=timeout_s)[0]

    def counts(
        self,
        fields: Sequence[str],
        *,
        most_values: int,
        filter_: Mapping[str, object] | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, dict[str, Facet]]:
        with self._store.snapshot(Deadline.after(timeout_s)) as snapshot:
            return count_facets(snapshot, fields, most_values=most_values, filter_=filter_)

    def search_all(
        self,
        queries: Sequence[Query],
        *,
        top_k: int,
        filter_: Mapping[str, object] | None = None,
        options: ResultOptions = EVERYTHING,
    ) -> list[list[Match]]:
        return Search(self._store, self._live, top_k=top_k, filter_=filter_, options=options).run(queries)

    def _delete(self, transaction: Transaction, rows: Sequence[int]) -> int:
        if rows:
            transaction.delete(rows)
            transaction.commit()
            self._follow(transaction)
        return len(rows)

    def _follow(self, transaction: Transaction, addition: Addition | None = None) -> None:
        """Apply a durable change to the index."""
        self._documents += transaction.new
        removed = transaction.removed

        def change(index: VectorIndex) -> None:
            if removed:
                index.remove(removed)
            if addition is not None:
                index.replace(addition)

        changed = len(removed) + (0 if addition is None else len(addition.rows))
        self._live.follow(transaction.revision, change, changed=changed)


def _count_passages(documents: Sequence[Document]) -> int:
    return sum(len(document.spans) for document in documents)


class CollectionOpener(Protocol):
    """Opens, makes and drops the collections of one place."""

    def open_all(self) -> Mapping[str, DocumentIndex]:
        """Open every collection that is there, by age: the default one first."""

    def check_new(self, name: str) -> None:
        """Refuse what `make` would. Raises: InvalidInput.  StorageFull: there are too many collections."""

    def make(self, name: str) -> DocumentIndex:
        """Make an empty collection. Raises: as `check_new`."""

    def drop(self, name: str, index: DocumentIndex) -> None:
        """Remove a collection with its documents. Raises: StorageFull: nothing was removed."""

    def check_files(self) -> None:
        """Raises: NotReady: the store's files were moved, deleted or replaced."""

    def announce(self, url: str) -> None:
        """Tell commands on the same store where this service answers."""

    def close(self) -> None:
        """Close what the collections share, after the last one was closed."""


class Collections:
    """The collections that are there, and each that is made later."""

    def __init__(self, opener: CollectionOpener) -> None:
        self._opener = opener
        self._open = dict(opener.open_all())

    @property
    def default(self) -> DocumentIndex:
        """The one of the routes without a name; it is always there."""
        return self._open[DEFAULT_NAME]

    def named(self) -> dict[str, DocumentIndex]:
        """Return every collection, by age: the default one first."""
        return dict(self._open)

    def of(self, name: str) -> DocumentIndex:
        """Return one collection. Raises: NotFound."""
        index = self._open.get(name)
        if index is None:
            check_name(name)
            raise NotFound(f"there is no collection {name}; the first PUT to its documents makes it")
        return index

    def check_room(self, name: str, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again.

        Raises: StorageFull: as `DocumentIndex`, or there are too many collections.
                InvalidInput: the name is malformed.
        """
        if (index := self._open.get(name)) is not None:
            with suppress(NotFound):  # it is being dropped: `put` makes it anew
                index.check_room(documents)
                return
        self._opener.check_new(name)

    def is_chunked(self, name: str, wanted: bool | None) -> bool:
        """Whether to split new documents into passages, as `DocumentIndex` says; a new collection's are."""
        if (index := self._open.get(name)) is not None:
            with suppress(NotFound):  # as above
                return index.is_chunked(wanted)
        self._opener.check_new(name)
        return wanted is not False

    def documents_of(self, name: str, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """As `DocumentIndex.documents_of`; a collection that will be made has none."""
        if (index := self._open.get(name)) is not None:
            with suppress(NotFound):  # as above
                return index.documents_of(ids)
        return {}

    def put(self, name: str, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Put documents into a collection, which is made if there is none; as `DocumentIndex.put`."""
        if name in self._open:
            return self._open[name].put(documents, vectors_PD)
        self._open = self._open | {name: self._opener.make(name)}
        try:
            return self._open[name].put(documents, vectors_PD)
        except BaseException:
            with suppress(StorageFull):  # then it stays, empty
                self.drop(name)
            raise

    def drop(self, name: str) -> int:
        """Remove a collection. Return how many documents it had. Searches that have begun may end with NotFound.

        Raises: NotFound.  InvalidInput: it is the default one.  StorageFull: nothing was removed.
        """
        index = self.of(name)
        if name == DEFAULT_NAME:
            raise InvalidInput(f"collection {DEFAULT_NAME} stays; POST /documents/delete removes documents from it")
        documents = len(index)
        self._opener.drop(name, index)
        self._open = {other: index for other, index in self._open.items() if other != name}
        return documents

    def check_files(self) -> None:
        """Raises: NotReady: the store's files were moved, deleted or replaced."""
        self._opener.check_files()

    def count(self) -> float:
        """Return the documents of all collections; NaN as `count_of`."""
        return sum(map(count_of, self._open.values()))

    @property
    def size_bytes(self) -> int:
        """Memory of all indexes."""
        return sum(index.size_bytes for index in self._open.values())

    def announce(self, url: str) -> None:
        """Tell commands on the same store where this service answers."""
        self._opener.announce(url)

    def close(self) -> None:
        """Close every collection, the default one last."""
        for index in reversed([*self._open.values()]):
            index.close()
        self._opener.close()


def count_of(index: DocumentIndex) -> float:
    """Return its number of documents; NaN (to Prometheus: unknown) while it is unavailable."""
    try:
        return len(index)
    except ServiceError:
        return math.nan


@dataclass(frozen=True)
class IndexOptions:
    """How the vectors of a store are kept.

    folder: of the index snapshots.  exact_documents: up to so many a search is exhaustive.
    max_index_bytes: memory limit for the vectors of all collections, 0 = no limit.
    check_memory: raises StorageFull if the process has no room for that many more bytes.
    chunks: whether a new collection splits documents into passages where nothing else is said.
    """

    folder: Path
    fingerprint: str
    dim: int
    exact_documents: int
    max_index_bytes: int = 0
    check_memory: Callable[[int], None] = lambda growth_bytes: None
    chunks: bool = True

    def bytes_of_others(self, store: DocumentStore) -> int:
        """Return the memory of the indexes of the store's other collections, which stay closed."""
        others = [row.number for row in store.catalog.listed() if row.number != store.number]
        return sum(self.maintained(store.of(number)).expected_bytes() for number in others)

    def opened(
        self,
        store: DocumentStore,
        *,
        others_bytes: Callable[[], int] = lambda: 0,
        upkeep: Upkeep | None = None,
        read_only: bool = False,
    ) -> Collection:
        """Return the collection of a store, with its index; arguments as `Collection`'s."""
        return Collection(
            store,
            self.maintained(store, read_only=read_only),
            max_index_bytes=self.max_index_bytes,
            others_bytes=others_bytes,
            check_memory=self.check_memory,
            upkeep=upkeep,
            read_only=read_only,
        )

    def maintained(self, store: DocumentStore, *, read_only: bool = False) -> IndexMaintenance:
        """Return what loads the index of a store's collection."""
        snapshots = SnapshotFolder(
            self.folder, fingerprint=self.fingerprint, collection=store.number, read_only=read_only
        )
        return IndexMaintenance(store, dim=self.dim, snapshots=snapshots, exact_rows=self.exact_documents)


class EmbeddedCollections(CollectionOpener):
    """Opens the collections of a document store. Those over `max_collections` stay."""

    def __init__(self, store: DocumentStore, options: IndexOptions, *, max_collections: int) -> None:
        self._store = store
        self._options = options
        self._max_collections = max_collections
        self._upkeep = Upkeep(store.fold_log)
        self._open: dict[str, Collection] = {}

    def open_all(self) -> Mapping[str, DocumentIndex]:
        rows = self._store.catalog.listed()
        forget_dropped(self._options.folder, [row.number for row in rows])  # the process was killed before it had
        try:
            for row in rows:
                self._opened(row.name, row.number)
        except BaseException:
            for collection in self._open.values():
                collection.close()
            self._store.close()
            raise
        return self._open

    def check_new(self, name: str) -> None:
        self._store.catalog.check_new(name, most=self._max_collections)

    def make(self, name: str) -> DocumentIndex:
        number = self._store.catalog.create(name, most=self._max_collections, chunks=self._options.chunks)
        return self._opened(name, number)

    def drop(self, name: str, index: DocumentIndex) -> None:
        number = self._store.catalog.number_of(name)
        if number is not None:
            self._open[name].discard(lambda: self._store.catalog.drop(number))
        self._open = {other: collection for other, collection in self._open.items() if other != name}
        with suppress(OSError):  # what stays is removed at the next start
            forget_dropped(self._options.folder, [row.number for row in self._store.catalog.listed()])

    def check_files(self) -> None:
        self._store.check_files()

    def announce(self, url: str) -> None:
        self._store.announce(url)

    def close(self) -> None:
        self._store.close()

    def _opened(self, name: str, number: int) -> Collection:
        def others_bytes() -> int:
            return sum(one.size_bytes for one in self._open.values() if one is not collection)

        collection = self._options.opened(self._store.of(number), others_bytes=others_bytes, upkeep=self._upkeep)
        self._open = self._open | {name: collection}
        return collection
