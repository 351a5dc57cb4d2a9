"""Keeps document store and vector index in step: a change is first durable, then searchable.

A thread of its own makes the next index while this one is searched, and puts it in its place.
P passages, D dims
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from service.documents.backend import MetadataChange
from service.documents.filters import to_condition
from service.documents.keywords.fusion import Ranked, depth
from service.documents.protocol import Addition, Rows, VectorIndex, Vectors
from service.documents.query import Query
from service.documents.ranking import nearest, ranked
from service.documents.results import EVERYTHING, DocumentReader, FilterTime, Match, Shown
from service.documents.room import Room
from service.documents.store.store import Document, DocumentStore
from service.documents.store.transaction import Transaction
from service.documents.stored_documents import StoredDocuments
from service.documents.vectors.ivf_build import BuildStoppedError
from service.documents.vectors.maintenance import IndexMaintenance
from service.documents.vectors.rwlock import ReadWriteLock
from service.errors import StorageFull

RETRY_S = 0.0005  # until a reader checks again whether the index has the last change
PATIENCE = 5  # tries
RELOAD_S = 5.0  # between attempts to reload an index
FOLD_S = 30.0  # between folds of the store's log: soon after the last write its file is whole

logger = logging.getLogger(__name__)


class Collection(StoredDocuments):
    """The document store and the vector index derived from it. Every method may block; call it off the event loop."""

    def __init__(
        self,
        store: DocumentStore,
        maintenance: IndexMaintenance,
        *,
        max_index_bytes: int = 0,
        check_memory: Callable[[int], None] = lambda growth_bytes: None,
        read_only: bool = False,
    ) -> None:
        """Load the store's index, or build it.

        Args: max_index_bytes, check_memory: as `Room` has them.
              read_only: another process may be writing the store.
        """
        super().__init__(store)
        self._upkeep = maintenance
        self._room = Room(store, max_index_bytes=max_index_bytes, check_memory=check_memory)
        self._writing = threading.Lock()
        self._in_step = ReadWriteLock()  # guards the index and its revision
        self._index: VectorIndex = maintenance.load_exact() if read_only else maintenance.load()
        self._revision = None if read_only else store.revision  # None: another process may advance the store
        self._documents = store.count()
        self._is_behind = False  # the index failed to apply a change that is on disk
        self._changed = threading.Event()
        self._is_closing = False
        self._maintenance = threading.Thread(target=self._maintain, name="index", daemon=True)
        if not read_only:
            self._maintenance.start()

    def close(self) -> None:
        """Write a snapshot and close the store. A running build is abandoned."""
        self._is_closing = True
        self._changed.set()
        if self._maintenance.ident is not None:
            self._maintenance.join()
            self._save()
        self._store.close()

    def __len__(self) -> int:
        return self._documents

    @property
    def chunks(self) -> bool:
        """Whether documents are split into passages where nothing else is said."""
        return self._store.chunks

    @property
    def backend(self) -> str:
        """The name of the index."""
        return self._index.backend

    @property
    def size_bytes(self) -> int:
        """Memory of the index."""
        return self._index.size_bytes

    @property
    def recall(self) -> float:
        """Share of the 10 nearest that a search finds, measured when the index was built; 1 where it is exact."""
        return self._index.recall

    def check_room(self, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again.

        Raises: StorageFull: `max_index_bytes` or the process's memory is full.
        """
        self._room.check(self._index, documents, self._store.rows_of([document.id for document in documents]))

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Insert or replace documents by id. Return the change's revision. Durable and searchable on return.

        Raises: StorageFull: the disk or `max_index_bytes` is full; nothing was changed.
        """
        with self._writing, self._store.transaction() as transaction:
            self._room.check(self._index, documents, transaction.rows_of([document.id for document in documents]))
            addition = self._index.prepare(transaction.upsert(documents, vectors_PD), vectors_PD)
            transaction.commit()
            self._follow(transaction, addition)
            return transaction.revision

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """Replace a document's metadata, as in `DocumentIndex`. Its vector and keywords stay.

        Raises: StorageFull, Damaged: nothing was changed.
        """
        with self._writing, self._store.transaction() as transaction:
            if not transaction.update_metadata(id_, change):
                return None
            transaction.commit()
            self._follow(transaction)
            return transaction.revision

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id. Return how many existed."""
        with self._writing, self._store.transaction() as transaction:
            return self._delete(transaction, transaction.rows_of(ids))

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        """Remove the documents that match a filter. Return their number.

        filter_s: time limit for evaluating the filter; None: no limit.
        Raises: InvalidInput: the filter is empty, malformed or takes too long.
        """
        condition = to_condition(filter_)
        with self._writing:  # no other write between the look-up and the removal
            rows = FilterTime(filter_s).matching(self._store, condition).tolist()
            with self._store.transaction() as transaction:
                return self._delete(transaction, rows)

    def search_all(
        self,
        queries: Sequence[Query],
        *,
        top_k: int,
        filter_: Mapping[str, object] | None = None,
        shown: Shown = EVERYTHING,
    ) -> list[list[Match]]:
        """One search a query, each over one revision: writers need not wait for all of them.

        A change reaches the disk before the index. A reader that sees different revisions there tries again. If its
        filter takes longer than the time between writes, it gives up after some tries: it then blocks writers, looks
        the filter up once more, and makes the remaining searches over that revision.

        Raises: InvalidInput: the filter is malformed, or the results have too many characters.
        """
        reads = DocumentReader(self._store, to_condition(filter_) if filter_ else None, shown)  # {} matches everything
        found: list[list[Match]] = []
        for query in queries:
            matches = self._beside_writers(query, top_k, reads)
            if matches is None:
                return found + self._before_writers(queries[len(found) :], top_k, reads)
            found.append(matches)
        return found

    def _beside_writers(self, query: Query, top_k: int, reads: DocumentReader) -> list[Match] | None:
        """Make one search, locking the index only while it is searched. None: the tries are used up."""
        for _ in range(PATIENCE):
            with self._store.read_transaction() as revision:
                if query.vector_D is None:
                    return self._matches(query, None, top_k, reads, revision)
                among = reads.selected(revision)
                with self._in_step.shared():
                    dense = self._nearest(query, top_k, among) if self._is_at(revision) else None
                if dense is not None:
                    return self._matches(query, dense, top_k, reads, revision)
            time.sleep(RETRY_S)
        return None

    def _before_writers(self, queries: Sequence[Query], top_k: int, reads: DocumentReader) -> list[list[Match]]:
        while True:
            with self._in_step.shared(), self._store.read_transaction() as revision:
                if self._is_at(revision):
                    among = reads.selected(revision)
                    nearest_B = (self._nearest(query, top_k, among) for query in queries)
                    return [
                        self._matches(query, dense, top_k, reads, revision)
                        for query, dense in zip(queries, nearest_B, strict=True)
                    ]
            time.sleep(RETRY_S)

    def _is_at(self, revision: int) -> bool:
        return self._revision in {None, revision}

    def _nearest(self, query: Query, top_k: int, among: Rows | None) -> Ranked | None:
        if query.vector_D is None:
            return None
        wanted = top_k if query.words is None else depth(top_k)
        if query.without is None:
            return nearest(self._store, self._index, query.vector_D, top_k=wanted, among=among)
        own = self._store.rows_of([query.without])
        best = nearest(self._store, self._index, query.vector_D, top_k=wanted + 1, among=among)
        return [hit for hit in best if hit[1] not in own][:wanted]

    def _matches(
        self, query: Query, dense: Ranked | None, top_k: int, reads: DocumentReader, revision: int
    ) -> list[Match]:
        found = None if query.words is None else reads.with_keywords(revision, query.words)
        return reads.matches(ranked(self._store, dense, found, query.vector_D, top_k), query)

    def _delete(self, transaction: Transaction, rows: Sequence[int]) -> int:
        if rows:
            transaction.delete(rows)
            transaction.commit()
            self._follow(transaction)
        return len(rows)

    def _follow(self, transaction: Transaction, addition: Addition | None = None) -> None:
        """Apply a durable change to the index. If that fails, the index is reloaded and not saved."""
        self._documents += transaction.new
        removed = transaction.removed
        try:
            with self._in_step.exclusive():
                self._revision = transaction.revision
                if removed:
                    self._index.remove(removed)
                if addition is not None:
                    self._index.replace(addition)
        except BaseException:
            self._is_behind = True
            self._changed.set()
            raise
        self._note(len(removed) + (0 if addition is None else len(addition.rows)))

    def _note(self, changed: int) -> None:
        """Wake the background thread if a new index or snapshot is due."""
        self._upkeep.note(changed)
        if self._upkeep.is_outgrown(self._index) or self._upkeep.is_stale(self._index):
            self._changed.set()

    def _maintain(self) -> None:
        while not self._is_closing:
            self._changed.wait(RELOAD_S if self._is_behind else FOLD_S)
            self._changed.clear()
            self._store.fold_log()
            try:
                if self._is_behind:
                    self._reload_index()
                elif self._upkeep.is_outgrown(self._index):
                    self._replace_index()
                elif self._upkeep.is_stale(self._index):
                    with self._writing:
                        self._save()
            except BuildStoppedError:
                return
            except StorageFull as exc:
                logger.warning("index not built", extra={"reason": str(exc)})
            except Exception:  # keep serving the current index
                logger.exception("index not built")

    def _save(self) -> None:
        if self._revision is not None and not self._is_behind:
            self._upkeep.save(self._index, self._revision)

    def _reload_index(self) -> None:
        with self._writing:
            index = self._upkeep.load()
            with self._in_step.exclusive():
                self._index = index
            self._is_behind = False

    def _replace_index(self) -> None:
        built = self._upkeep.build(lambda: self._is_closing, self._room.check_memory)
        with self._store.read_transaction() as revision:  # most changes, without blocking writers
            self._upkeep.catch_up(built.index, built.revision)
        with self._writing:  # the last changes: writers wait, readers do not
            self._upkeep.catch_up(built.index, revision)
            with self._in_step.exclusive():
                self._index = built.index
        self._note(0)  # a bulk load may have outgrown it already
