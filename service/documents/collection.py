"""Keeps document store and vector index in step: a change is first durable, then searchable.

P passages, D dims
"""

import time
from collections.abc import Callable, Mapping, Sequence

from service.documents.backend import MetadataChange
from service.documents.filters import to_condition
from service.documents.keywords.fusion import Ranked, depth
from service.documents.live_index import LiveIndex
from service.documents.protocol import Addition, Rows, VectorIndex, Vectors
from service.documents.query import Query
from service.documents.ranking import nearest, ranked
from service.documents.results import EVERYTHING, DocumentReader, FilterTime, Match, Shown
from service.documents.room import Room
from service.documents.store.store import Document, DocumentStore
from service.documents.store.transaction import Transaction
from service.documents.stored_documents import StoredDocuments
from service.documents.upkeep import Upkeep
from service.documents.vectors.maintenance import IndexMaintenance
from service.errors import NotReady

RETRY_S = 0.0005  # until a reader checks again whether the index has the last change
PATIENCE = 5  # tries
LONGEST_CHANGE_S = 10.0  # from the disk to the index; the largest takes some tenths of a second


class Collection(StoredDocuments):
    """The document store and the vector index derived from it. Every method may block; call it off the event loop."""

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

        Args: max_index_bytes, others_bytes, check_memory: as `Room` has them.
              upkeep: the thread for all collections of the store; None: one of its own.
              read_only: another process may be writing the store.
        """
        super().__init__(store)
        self._room = Room(store, max_index_bytes=max_index_bytes, others_bytes=others_bytes, check_memory=check_memory)
        upkeep = None if read_only else upkeep or Upkeep(store.fold_log)
        self._live = LiveIndex(store, maintenance, check_memory=check_memory, upkeep=upkeep)
        self._documents = store.count()

    def close(self) -> None:
        """Write a snapshot and close the store. A running build is abandoned."""
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
        """Whether documents are split into passages where nothing else is said."""
        return self._store.chunks

    @property
    def backend(self) -> str:
        """The name of the index."""
        return self._live.now.backend

    @property
    def size_bytes(self) -> int:
        """Memory of the index."""
        return self._live.now.size_bytes

    @property
    def recall(self) -> float:
        """Share of the 10 nearest that a search finds, measured when the index was built; 1 where it is exact."""
        return self._live.now.recall

    def check_room(self, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again.

        Raises: StorageFull: `max_index_bytes` or the process's memory is full.
        """
        self._room.check(self._live.now, documents, self._store.rows_of([document.id for document in documents]))

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Insert or replace documents by id. Return the change's revision. Durable and searchable on return.

        Raises: StorageFull: the disk or `max_index_bytes` is full; nothing was changed.
        """
        with self._live.writing, self._store.transaction() as transaction:
            replaced = transaction.rows_of([document.id for document in documents])
            self._room.check(self._live.now, documents, replaced)
            addition = self._live.now.prepare(transaction.upsert(documents, vectors_PD), vectors_PD)
            transaction.commit()
            self._follow(transaction, addition)
            return transaction.revision

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """Replace a document's metadata, as in `DocumentIndex`. Its vector and keywords stay.

        Raises: StorageFull, Damaged: nothing was changed.
        """
        with self._live.writing, self._store.transaction() as transaction:
            if not transaction.update_metadata(id_, change):
                return None
            transaction.commit()
            self._follow(transaction)
            return transaction.revision

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id. Return how many existed."""
        with self._live.writing, self._store.transaction() as transaction:
            return self._delete(transaction, transaction.rows_of(ids))

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        """Remove the documents that match a filter. Return their number.

        filter_s: time limit for evaluating the filter; None: no limit.
        Raises: InvalidInput: the filter is empty, malformed or takes too long.
                Damaged: a document that matches has other metadata than the filter saw; nothing was removed.
        """
        condition = to_condition(filter_)
        with self._live.writing:  # no other write between the look-up and the removal
            rows = FilterTime(filter_s).matching(self._store, condition).tolist()
            with self._store.transaction() as transaction:
                transaction.check_fields(rows)
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
                NotReady: another process changes the store.
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
                with self._live.held() as held:
                    dense = self._nearest(held.index, query, top_k, among) if held.is_at(revision) else None
                if dense is not None:
                    return self._matches(query, dense, top_k, reads, revision)
            time.sleep(RETRY_S)
        return None

    def _before_writers(self, queries: Sequence[Query], top_k: int, reads: DocumentReader) -> list[list[Match]]:
        until = time.monotonic() + LONGEST_CHANGE_S
        while time.monotonic() < until:
            with self._live.held() as held, self._store.read_transaction() as revision:
                if held.is_at(revision):
                    among = reads.selected(revision)
                    nearest_B = (self._nearest(held.index, query, top_k, among) for query in queries)
                    return [
                        self._matches(query, dense, top_k, reads, revision)
                        for query, dense in zip(queries, nearest_B, strict=True)
                    ]
            time.sleep(RETRY_S)
        raise NotReady(
            f"the index lacks the store's last change after {LONGEST_CHANGE_S:g} s: another process changes the store; "
            "stop that process, then start the service anew"
        )

    def _nearest(self, index: VectorIndex, query: Query, top_k: int, among: Rows | None) -> Ranked | None:
        if query.vector_D is None:
            return None
        wanted = top_k if query.words is None else depth(top_k)
        if query.without is None:
            return nearest(self._store, index, query.vector_D, top_k=wanted, among=among)
        own = self._store.rows_of([query.without])
        best = nearest(self._store, index, query.vector_D, top_k=wanted + 1, among=among)
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
