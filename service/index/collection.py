"""Documents and their index, always in step: a change is durable first, then searchable. Knows no HTTP and no encoder.

N documents, D dims, B queries
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.errors import StorageFull
from service.index.base import Rows, VectorIndex, Vectors
from service.index.documents import Document, DocumentStore, Page, StoredDocument, Transaction
from service.index.filters import Condition, to_condition
from service.index.locks import ReadWriteLock


@dataclass(frozen=True)
class Match:
    """A document found by a search; score is the cosine with the query."""

    score: float
    document: StoredDocument


class Collection:
    """The document store with the vector index derived from it. Every method may block; call it off the event loop."""

    def __init__(
        self,
        store: DocumentStore,
        index: VectorIndex,
        *,
        max_index_bytes: int = 0,
        check_memory: Callable[[int], None] = lambda growth_bytes: None,
    ) -> None:
        """Fill the index from the store.

        max_index_bytes: most memory for vectors, 0 = no limit.  check_memory: raises StorageFull where the process has
        no room for so many bytes more.
        """
        self._store = store
        self._index = index
        self._max_index_bytes = max_index_bytes
        self._check_memory = check_memory
        self._writing = threading.Lock()
        self._in_step = ReadWriteLock()  # store and index agree whenever it is free
        for rows, vectors_ND in store.vectors():
            index.replace(rows, vectors_ND)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def backend(self) -> str:
        """The name of the index."""
        return self._index.backend

    @property
    def size_bytes(self) -> int:
        """Memory that the index takes."""
        return self._index.size_bytes

    def check_room(self, ids: Sequence[str]) -> None:
        """Refuse documents that have no room before they are embedded; `put` checks again.

        Raises: StorageFull: no room under `max_index_bytes`, or in the process.
        """
        self._check_growth(len(set(ids)) - len(self._store.rows_of(ids)))

    def put(self, documents: Sequence[Document], vectors_ND: Vectors) -> int:
        """Insert or replace documents, by id; gives the revision of the change. Durable and searchable on return.

        Raises: StorageFull: no room on the disk or under `max_index_bytes`; nothing was changed.
        """
        with self._writing, self._store.transaction() as transaction:
            self._check_growth(len(documents) - len(transaction.rows_of([document.id for document in documents])))
            rows = transaction.upsert(documents, vectors_ND)
            with self._in_step.exclusive():
                transaction.commit()
                self._index.replace(rows, vectors_ND)
            return transaction.revision

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id; gives how many there were."""
        with self._writing, self._store.transaction() as transaction:
            return self._delete(transaction, transaction.rows_of(ids))

    def delete_matching(self, filter_: Mapping[str, object]) -> int:
        """Remove the documents that a filter selects; gives how many there were.

        Raises: InvalidInput: the filter is empty or malformed.
        """
        condition = to_condition(filter_)
        with self._writing, self._store.transaction() as transaction:
            # Read outside the transaction's own connection: safe, for no other writer runs.
            return self._delete(transaction, self._store.matching(condition).tolist())

    def get(self, id_: str) -> StoredDocument | None:
        """One document by its id."""
        return self._store.get(id_)

    def page(self, *, after_row: int, limit: int, max_chars: int) -> Page:
        """The next documents in the order of first arrival, at most `limit` and about `max_chars` characters."""
        return self._store.page(after_row=after_row, limit=limit, max_chars=max_chars)

    def search(self, vector_D: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None) -> list[Match]:
        """The `top_k` nearest documents that the filter selects: by score, ties by id.

        Raises: InvalidInput: the filter is malformed.
        """
        return self.search_all(vector_D[None], top_k=top_k, filter_=filter_)[0]

    def search_all(
        self, vectors_BD: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None
    ) -> list[list[Match]]:
        """One search a vector, all over the same revision; the filter is looked up once.

        Raises: InvalidInput: the filter is malformed.
        """
        condition: Condition | None = to_condition(filter_) if filter_ else None  # {} selects everything
        with self._in_step.shared():
            among = None if condition is None else self._store.matching(condition)
            best_B = [self._best(vector_D, top_k, among) for vector_D in vectors_BD]
            documents = self._store.fetch(list({row for best in best_B for _, row in best}))
        return [[Match(score, documents[row]) for score, row in best] for best in best_B]

    def _best(self, vector_D: Vectors, top_k: int, among: Rows | None) -> list[tuple[float, int]]:
        """Scores and rows, best first; ties are cut by id before any text is read."""
        hits = self._index.search(vector_D, top_k=top_k, among=among)
        rows = hits.rows.tolist()
        ids = self._store.ids_of(rows)
        scores = np.clip(hits.scores, -1, 1).tolist()  # rounding may leave a cosine just above 1
        return sorted(zip(scores, rows, strict=True), key=lambda hit: (-hit[0], ids[hit[1]]))[:top_k]

    def _delete(self, transaction: Transaction, rows: Sequence[int]) -> int:
        if rows:
            transaction.delete(rows)
            with self._in_step.exclusive():
                transaction.commit()
                self._index.remove(rows)
        return len(rows)

    def _check_growth(self, new: int) -> None:
        if not new:
            return
        needed = self._index.size_bytes + new * self._index.row_bytes
        if self._max_index_bytes and needed > self._max_index_bytes:
            raise StorageFull(
                f"the index would take {needed} bytes; the limit is {self._max_index_bytes} (CROSSLET_MAX_INDEX_BYTES)"
            )
        self._check_memory(self._index.growth_bytes(new))
