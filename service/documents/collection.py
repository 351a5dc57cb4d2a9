"""Keeps document store and vector index in step: a change is first durable, then searchable.

P passages, D dims
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from service.documents.document import Document, Page, Rows, StoredDocument, Vectors, means_by_row
from service.documents.filters import Facet, to_condition
from service.documents.interface import EVERYTHING, DocumentIndex, Match, MetadataChange, Query, ResultOptions
from service.documents.live_index import IndexMaintenance, LiveIndex, Upkeep
from service.documents.search import Search, count_facets
from service.documents.store.store import Deadline, DocumentStore
from service.documents.store.transaction import Transaction
from service.documents.vectors.index import Addition, VectorIndex
from service.errors import StorageFull


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

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        condition = to_condition(filter_)
        with self._live.writing:  # no other write between the look-up and the removal
            with self._store.snapshot(Deadline.after(filter_s)) as snapshot:
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
        filter_s: float | None = None,
        truncated: bool = False,
    ) -> Page:
        condition = to_condition(filter_) if filter_ else None  # {} matches everything
        with self._store.snapshot(Deadline.after(filter_s)) as snapshot:
            selected: list[Rows] = [snapshot.truncated()] if truncated else []
            if condition is not None:
                selected.append(snapshot.matching(condition))
            rows = reduce(np.intersect1d, selected) if selected else None
            page = snapshot.page(after_row=after_row, limit=limit, max_chars=max_chars, among=rows)
            return replace(page, total=snapshot.count() if rows is None else len(rows))

    def count(self, filter_: Mapping[str, object] | None = None, *, filter_s: float | None = None) -> int:
        if not filter_:
            return len(self)
        return self.counts([], most_values=0, filter_=filter_, filter_s=filter_s)[0]

    def counts(
        self,
        fields: Sequence[str],
        *,
        most_values: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
    ) -> tuple[int, dict[str, Facet]]:
        with self._store.snapshot(Deadline.after(filter_s)) as snapshot:
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
