"""The named collections of the service, each with its own index. Knows names; knows neither vectors nor SQL.

One thread makes, changes and drops collections; any may read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from service.documents.backend import DocumentIndex
from service.documents.collection import Collection
from service.documents.protocol import Vectors
from service.documents.store.collection_name import DEFAULT_NAME, check_name
from service.documents.store.store import Document, DocumentStore, StoredDocument
from service.documents.upkeep import Upkeep
from service.documents.vectors.maintenance import IndexMaintenance
from service.documents.vectors.snapshots import SnapshotFolder, forget_dropped
from service.errors import InvalidInput, NotFound, ServiceError, StorageFull


class Collections:
    """The default collection alone, as where Milvus keeps the documents."""

    def __init__(self, default: DocumentIndex) -> None:
        self._open: Mapping[str, DocumentIndex] = {DEFAULT_NAME: default}

    @property
    def default(self) -> DocumentIndex:
        """The one of the routes without a name; it is always there."""
        return self._open[DEFAULT_NAME]

    def named(self) -> dict[str, DocumentIndex]:
        """Every collection, by age: the default one first."""
        return dict(self._open)

    def of(self, name: str) -> DocumentIndex:
        """One collection. Raises: NotFound."""
        found = self._open.get(name)
        if found is None:
            check_name(name)
            raise NotFound(f"there is no collection {name}; the first PUT to its documents makes it")
        return found

    def check_room(self, name: str, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again.

        Raises: StorageFull: as `Collection`, or there are too many collections.  InvalidInput: the name is malformed.
        """
        if (found := self._open.get(name)) is not None:
            with suppress(NotFound):  # it is being dropped: `put` makes it anew
                found.check_room(documents)
                return
        self._check_new(name)

    def is_chunked(self, name: str, wanted: bool | None) -> bool:
        """Whether to split new documents into passages, as `DocumentIndex` says; a new collection's are."""
        if (found := self._open.get(name)) is not None:
            with suppress(NotFound):  # as above
                return found.is_chunked(wanted)
        self._check_new(name)
        return wanted is not False

    def documents_of(self, name: str, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """As `DocumentIndex.documents_of`; a collection that will be made has none."""
        if (found := self._open.get(name)) is not None:
            with suppress(NotFound):  # as above
                return found.documents_of(ids)
        return {}

    def put(self, name: str, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Put documents into a collection, which is made if there is none; as `DocumentIndex.put`."""
        if name in self._open:
            return self._open[name].put(documents, vectors_PD)
        self._make(name)
        try:
            return self._open[name].put(documents, vectors_PD)
        except BaseException:
            with suppress(StorageFull):  # then it stays, empty
                self.drop(name)
            raise

    def drop(self, name: str) -> int:
        """Remove a collection. Return how many documents it had.

        Raises: NotFound.  InvalidInput: it is the default one.  StorageFull: nothing was removed.
        """
        self.of(name)
        raise _default_stays()

    def check_files(self) -> None:
        """Compare the store's files with those that are open; Milvus has its own.

        Raises: NotReady: they were moved, deleted or replaced.
        """

    def count(self) -> float:
        """Documents of all collections; NaN as `count_of`."""
        return sum(map(count_of, self._open.values()))

    @property
    def size_bytes(self) -> int:
        """Memory of all indexes."""
        return sum(one.size_bytes for one in self._open.values())

    def announce(self, url: str) -> None:
        """Tell commands on the same store where this service answers."""

    def close(self) -> None:
        """Close every collection."""
        for collection in reversed([*self._open.values()]):  # the default one last
            collection.close()

    def _check_new(self, name: str) -> None:
        check_name(name)
        raise InvalidInput(
            f"collection {name} cannot be made: where Milvus keeps the documents (CROSSLET_INDEX) there is only "
            f"{DEFAULT_NAME}; leave /collections/{name} out of the path"
        )

    def _make(self, name: str) -> None:
        self._check_new(name)


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
        """Memory of the indexes of the store's other collections, which stay closed."""
        others = [one.number for one in store.catalog.listed() if one.number != store.number]
        return sum(self._maintained(store.of(number)).expected_bytes() for number in others)

    def opened(
        self,
        store: DocumentStore,
        *,
        others_bytes: Callable[[], int] = lambda: 0,
        upkeep: Upkeep | None = None,
        read_only: bool = False,
    ) -> Collection:
        """The collection of a store, with its index; arguments as `Collection`'s."""
        snapshots = SnapshotFolder(
            self.folder, fingerprint=self.fingerprint, collection=store.number, read_only=read_only
        )
        return Collection(
            store,
            self._maintained(store, snapshots),
            max_index_bytes=self.max_index_bytes,
            others_bytes=others_bytes,
            check_memory=self.check_memory,
            upkeep=upkeep,
            read_only=read_only,
        )

    def _maintained(self, store: DocumentStore, snapshots: SnapshotFolder | None = None) -> IndexMaintenance:
        return IndexMaintenance(store, dim=self.dim, snapshots=snapshots, exact_rows=self.exact_documents)


class StoredCollections(Collections):
    """The collections of a document store: those that are there, and each that is made later."""

    def __init__(self, store: DocumentStore, options: IndexOptions, *, max_collections: int) -> None:
        """Load every collection; those over `max_collections` stay."""
        self._store = store
        self._options = options
        self._max_collections = max_collections
        self._upkeep = Upkeep(store.fold_log)
        self._open: dict[str, Collection] = {}
        listed = store.catalog.listed()
        forget_dropped(options.folder, [one.number for one in listed])  # the process was killed before it had
        try:
            for one in listed:
                self._open = self._open | {one.name: self._opened(one.number)}
        except BaseException:
            self.close()
            raise

    def announce(self, url: str) -> None:
        """As the base class."""
        self._store.announce(url)

    def drop(self, name: str) -> int:
        """As the base class. Searches that have begun may end with NotFound."""
        documents = len(self.of(name))
        if name == DEFAULT_NAME:
            raise _default_stays()
        number = self._store.catalog.number_of(name)
        if number is not None:
            self._open[name].discard(lambda: self._store.catalog.drop(number))
        self._open = {other: collection for other, collection in self._open.items() if other != name}
        forget_dropped(self._options.folder, [one.number for one in self._store.catalog.listed()])
        return documents

    def check_files(self) -> None:
        """As the base class."""
        self._store.check_files()

    def close(self) -> None:
        """Close every collection, and the store."""
        super().close()
        self._store.close()

    def _check_new(self, name: str) -> None:
        self._store.catalog.check_new(name, most=self._max_collections)

    def _make(self, name: str) -> None:
        number = self._store.catalog.create(name, most=self._max_collections, chunks=self._options.chunks)
        self._open = self._open | {name: self._opened(number)}

    def _opened(self, number: int) -> Collection:
        def others_bytes() -> int:
            return sum(one.size_bytes for one in self._open.values() if one is not opened)

        opened = self._options.opened(self._store.of(number), others_bytes=others_bytes, upkeep=self._upkeep)
        return opened


def count_of(index: DocumentIndex) -> float:
    """Its number of documents; NaN (to Prometheus: unknown) while it is unavailable."""
    try:
        return len(index)
    except ServiceError:
        return math.nan


def _default_stays() -> InvalidInput:
    return InvalidInput(f"collection {DEFAULT_NAME} stays; POST /documents/delete removes documents from it")
