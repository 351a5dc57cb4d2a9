"""Collections of documents by name, each a document store and the vector index derived from it.

A change is first durable, then searchable. One thread makes, changes and drops collections; any may read.

P passages, D dims
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np

from service.documents.document import Document, Page, Rows, StoredDocument, Vectors, means_by_row
from service.documents.filters import Facet, to_condition
from service.documents.interface import (
    DEFAULTS,
    DocumentIndex,
    Filter,
    Matches,
    MetadataChange,
    PageRequest,
    Query,
    ResultOptions,
)
from service.documents.live_index import IndexMaintenance, LiveIndex, Upkeep
from service.documents.names import DEFAULT_NAME, check_name
from service.documents.own_fields import OwnFields, configured_late
from service.documents.recalibration import Recalibration
from service.documents.search import Search
from service.documents.store.store import Deadline, DocumentStore
from service.documents.store.transaction import Transaction
from service.documents.vectors.index import Addition
from service.documents.vectors.snapshots import SnapshotFolder, forget_dropped
from service.errors import Conflict, InvalidInput, NotFound, ServiceError, StorageFull


class Collection(DocumentIndex):
    """Documents in this process: a document store, and the vector index derived from it. See `DocumentIndex`."""

    has_keywords = True

    def __init__(
        self,
        store: DocumentStore,
        options: "IndexOptions",
        *,
        others_bytes: Callable[[], int] = lambda: 0,
        upkeep: Upkeep | None = None,
        read_only: bool = False,
        is_new: bool = False,
    ) -> None:
        """Load the store's index, or build it.

        Args: others_bytes: memory of the vectors of the other collections.
              upkeep: the thread for all collections of the store; None: one of its own.
              read_only: another process may be writing the store.
              is_new: whether to drop it on closing if it got no document.
        """
        self._store = store
        self._is_new = is_new
        self._options = options
        self._others_bytes = others_bytes
        maintenance = options.maintained(store, read_only=read_only)
        upkeep = None if read_only else upkeep or Upkeep(store.fold_log)
        self._live = LiveIndex(store, maintenance, check_memory=options.check_memory, upkeep=upkeep)
        with store.snapshot() as snapshot:
            self._documents = snapshot.count()
            self._own_fields, self._recalibration = snapshot.own_fields, snapshot.recalibration

    def close(self) -> None:
        """Write an index snapshot and close the store. A running build is abandoned."""
        if self._is_new and not self._documents:
            with suppress(StorageFull):  # then it stays, empty
                self.drop()
                return
        self._live.rest()
        self._live.save()
        self._store.close()

    def drop(self) -> None:
        """Remove the documents and close for good. If that fails, all goes on as before."""
        self._live.rest()
        try:
            self._store.catalog.drop(self._store.number)
        except BaseException:
            self._live.resume()
            raise
        self._store.close()

    def __len__(self) -> int:
        return self._documents

    @property
    def own_fields(self) -> OwnFields | None:
        return self._own_fields

    def configure(self, own_fields: OwnFields | None) -> None:
        with self._live.writing:
            if own_fields == self._own_fields:
                return
            if self._documents:
                raise configured_late(self._documents)
            self._store.catalog.configure(self._store.number, own_fields)
            self._own_fields = own_fields

    @property
    def recalibration(self) -> Recalibration | None:
        return self._recalibration

    def recalibrate(self, recalibration: Recalibration | None) -> None:
        with self._live.writing:
            self._store.catalog.recalibrate(self._store.number, recalibration)
            self._recalibration = recalibration

    def is_chunked(self, wanted: bool | None) -> bool:
        if wanted is not None:
            return wanted
        with self._store.snapshot() as snapshot:
            return snapshot.chunks

    @property
    def backend(self) -> str:
        return self._live.now.backend

    @property
    def size_bytes(self) -> int:
        return self._live.now.size_bytes

    @property
    def recall(self) -> float:
        return self._live.now.recall

    @property
    def last_change(self) -> int:
        with self._store.snapshot() as snapshot:
            return snapshot.revision

    def content_bytes(self) -> int:
        with self._store.snapshot() as snapshot:
            return snapshot.content_bytes()

    def check_room(self, documents: Sequence[Document]) -> None:
        with self._store.snapshot() as snapshot:
            replaced = snapshot.rows_of([document.id for document in documents])
            there = len(snapshot.passages_of(replaced)) if replaced else 0
        self._check_room(documents, there)

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        with self._live.writing, self._store.transaction() as transaction:
            there = transaction.count_passages([document.id for document in documents])
            self._check_room(documents, there)
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

    def delete_matching(self, filter_: Filter, *, timeout_s: float | None = None) -> int:
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

    def passage_vectors(self, ids: Sequence[str]) -> dict[str, Vectors]:
        with self._store.snapshot() as snapshot:
            rows = snapshot.rows_of(ids)
            row_P, vectors_PD = snapshot.vectors_of_documents(rows)
            id_of = snapshot.ids_of(rows)
        return {id_of[row]: vectors_PD[row_P == row] for row in np.unique(row_P).tolist()}

    def page(self, request: PageRequest) -> Page:
        condition = to_condition(request.filter_) if request.filter_ else None  # {} matches everything
        with self._store.snapshot(Deadline.after(request.timeout_s)) as snapshot:
            selected: list[Rows] = [snapshot.truncated()] if request.truncated else []
            if condition is not None:
                selected.append(snapshot.matching(condition))
            rows = reduce(np.intersect1d, selected) if selected else None
            page = snapshot.page(
                after_row=request.after_row, limit=request.limit, max_chars=request.max_chars, among=rows
            )
            return replace(page, total=snapshot.count() if rows is None else len(rows))

    def counts(
        self, fields: Sequence[str], *, most_values: int, filter_: Filter | None = None, timeout_s: float | None = None
    ) -> tuple[int, dict[str, Facet]]:
        condition = to_condition(filter_) if filter_ else None
        with self._store.snapshot(Deadline.after(timeout_s)) as snapshot:
            count = snapshot.count() if condition is None else len(snapshot.matching(condition))
            facets = {field: snapshot.facet(field, most_values=most_values, condition=condition) for field in fields}
        return count, facets

    def search_all(
        self, queries: Sequence[Query], *, top_k: int, filter_: Filter | None = None, options: ResultOptions = DEFAULTS
    ) -> list[Matches]:
        return Search(self._store, self._live, top_k=top_k, filter_=filter_, options=options).run(queries)

    def _check_room(self, documents: Sequence[Document], there: int) -> None:
        """Raises: StorageFull: the vectors of the documents do not fit. there: of those they replace."""
        index, new = self._live.now, sum(len(document.spans) for document in documents) - there
        if new <= 0:
            return
        needed, most = self._others_bytes() + index.size_bytes + new * index.row_bytes, self._options.max_index_bytes
        if most and needed > most:
            raise StorageFull(f"the index would take {needed} bytes; the limit is {most} (CROSSLET_MAX_INDEX_BYTES)")
        self._options.check_memory(index.growth_bytes(new))

    def _delete(self, transaction: Transaction, rows: Sequence[int]) -> int:
        if rows:
            transaction.delete(rows)
            transaction.commit()
            self._follow(transaction)
        return len(rows)

    def _follow(self, transaction: Transaction, addition: Addition | None = None) -> None:
        self._documents += transaction.new
        self._live.follow(transaction.revision, transaction.removed, addition)


@dataclass(frozen=True)
class Versions:
    """What was read before a put. own_fields: with which documents were.  replaced: the only document's version."""

    own_fields: OwnFields | None = None
    replaced: StoredDocument | None = None


NO_VERSIONS = Versions()


class Collections:
    """Collections by name; here the default one alone, as a command has it."""

    def __init__(self, default: DocumentIndex) -> None:
        self._open: Mapping[str, DocumentIndex] = {DEFAULT_NAME: default}  # by age: the default one first

    def close(self) -> None:
        """Close every collection, the default one last."""
        for index in reversed([*self._open.values()]):
            index.close()

    @property
    def has_keywords(self) -> bool:
        """Whether the default collection can be searched by words."""
        return self.of(DEFAULT_NAME).has_keywords

    def named(self) -> dict[str, DocumentIndex]:
        """Return every collection, by age: the default one first."""
        return dict(self._open)

    def of(self, name: str) -> DocumentIndex:
        """Return one collection. Raises: NotFound."""
        index = self._find(name)
        if index is None:
            check_name(name)
            raise NotFound(f"there is no collection {name}; the first PUT to its documents makes it")
        return index

    def check_room(self, name: str, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again.

        Raises: StorageFull: as `DocumentIndex`, or there are too many collections.
                InvalidInput: the name is malformed.
        """
        if (index := self._find(name)) is not None:
            with suppress(NotFound):  # it is being dropped: `put` makes it anew
                index.check_room(documents)
                return
        self._check_new(name)

    def is_chunked(self, name: str, wanted: bool | None) -> bool:
        """Whether to split new documents into passages, as `DocumentIndex` says; a new collection's are."""
        if (index := self._find(name)) is not None:
            with suppress(NotFound):  # as above
                return index.is_chunked(wanted)
        self._check_new(name)
        return wanted is not False

    def documents_of(self, name: str, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """As `DocumentIndex.documents_of`; a collection that will be made has none."""
        if (index := self._find(name)) is not None:
            with suppress(NotFound):  # as above
                return index.documents_of(ids)
        return {}

    def own_fields(self, name: str) -> OwnFields | None:
        """As `DocumentIndex.own_fields`; a collection that a put will make has none."""
        if (index := self._find(name)) is not None:
            with suppress(NotFound):  # as above
                return index.own_fields
        return None

    def configure(self, name: str, own_fields: OwnFields | None) -> None:
        """Set what a collection takes of documents with their own fields; it is made if there is none.

        Raises: as `DocumentIndex.configure` and `_check_new`.
        """
        if (index := self._find(name)) is not None:
            index.configure(own_fields)
        else:
            self._make(name, own_fields)

    def put(
        self, name: str, documents: Sequence[Document], vectors_PD: Vectors, versions: Versions = NO_VERSIONS
    ) -> int:
        """Put documents into a collection, which is made if there is none; as `DocumentIndex.put`.

        Raises: Conflict: what was read has changed meanwhile.
        """
        self._check_unchanged(name, versions)
        if (index := self._find(name)) is not None:
            return index.put(documents, vectors_PD)
        self._make(name)
        try:
            return self.of(name).put(documents, vectors_PD)
        except BaseException:
            with suppress(StorageFull):  # then it stays, empty
                self.drop(name)
            raise

    def _check_unchanged(self, name: str, versions: Versions) -> None:
        if self.own_fields(name) != versions.own_fields:
            raise Conflict("the collection's text or fields changed meanwhile; send the documents again")
        if versions.replaced is not None:
            now = self.of(name).get(versions.replaced.id)
            if now is None or now.revision != versions.replaced.revision:
                raise Conflict("the document changed meanwhile; send the change again")

    def drop(self, name: str) -> int:
        """Remove a collection. Return how many documents it had. Searches that have begun may end with NotFound.

        Raises: NotFound.  InvalidInput: it is the default one.  StorageFull: nothing was removed.
        """
        index = self.of(name)
        if name == DEFAULT_NAME:
            raise InvalidInput(f"collection {DEFAULT_NAME} stays; POST /documents/delete removes documents from it")
        documents = len(index)
        self._drop(name)
        return documents

    def count(self) -> float:
        """Return the documents of all collections; NaN as `count_of`."""
        return sum(map(count_of, self.named().values()))

    @property
    def size_bytes(self) -> int:
        """Memory of all indexes."""
        return sum(index.size_bytes for index in self._open.values())

    def _find(self, name: str) -> DocumentIndex | None:
        """Return one collection; None: there is none of this name."""
        return self._open.get(name)

    def _check_new(self, name: str) -> None:
        """Refuse what `_make` would. Raises: InvalidInput.  StorageFull: there are too many collections."""
        check_name(name)

    def _make(self, name: str, own_fields: OwnFields | None = None) -> None:
        """Make an empty collection. Raises: as `_check_new`."""
        self._check_new(name)

    def _drop(self, name: str) -> None:
        """Remove a collection with its documents; never the default one. Raises: StorageFull: nothing was removed."""

    def check_files(self) -> None:
        """Raises: NotReady: the store's files were moved, deleted or replaced. Milvus looks after its own."""

    def announce(self, url: str) -> None:
        """Tell commands on the same store where this service answers. With Milvus they need not ask it."""


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

    def maintained(self, store: DocumentStore, *, read_only: bool = False) -> IndexMaintenance:
        """Return what loads the index of a store's collection."""
        snapshots = SnapshotFolder(
            self.folder, fingerprint=self.fingerprint, collection=store.number, read_only=read_only
        )
        return IndexMaintenance(store, dim=self.dim, snapshots=snapshots, exact_rows=self.exact_documents)


class EmbeddedCollections(Collections):
    """The collections of a document store. Those over `max_collections` stay."""

    _open: dict[str, Collection]

    def __init__(self, store: DocumentStore, options: IndexOptions, *, max_collections: int) -> None:
        """Open every collection, and close the store if that fails."""
        self._store = store
        self._options = options
        self._max_collections = max_collections
        self._upkeep = Upkeep(store.fold_log)
        self._open = {}
        try:
            self._forget_dropped()  # the process was killed before it had
            for row in store.catalog.listed():
                self._add(row.name, row.number)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        super().close()
        self._store.close()

    def check_files(self) -> None:
        self._store.check_files()

    def announce(self, url: str) -> None:
        self._store.announce(url)

    def _check_new(self, name: str) -> None:
        self._store.catalog.check_new(name, most=self._max_collections)

    def _make(self, name: str, own_fields: OwnFields | None = None) -> None:
        number = self._store.catalog.create(
            name, most=self._max_collections, chunks=self._options.chunks, own_fields=own_fields
        )
        self._add(name, number)

    def _drop(self, name: str) -> None:
        self._open[name].drop()
        self._open = {other: collection for other, collection in self._open.items() if other != name}
        with suppress(OSError):  # what stays is removed at the next start
            self._forget_dropped()

    def _forget_dropped(self) -> None:
        forget_dropped(self._options.folder, [row.number for row in self._store.catalog.listed()])

    def _add(self, name: str, number: int) -> None:
        def others_bytes() -> int:
            return sum(other.size_bytes for other in self._open.values() if other is not collection)

        collection = Collection(self._store.of(number), self._options, others_bytes=others_bytes, upkeep=self._upkeep)
        self._open = self._open | {name: collection}
