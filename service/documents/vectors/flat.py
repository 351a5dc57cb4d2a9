"""Exact inner-product search with a flat FAISS index.

N documents, D dims
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.documents.protocol import Addition, Hits, Rows, Vectors, with_ties
from service.documents.vectors.search import search_index, selector_of


class FaissIndex:
    """`IndexFlatIP` in an `IndexIDMap`. Searches may run concurrently; a change needs exclusive access.

    FAISS is imported with the first row: a service without documents saves its memory and start-up time.
    """

    backend = "faiss-flat"
    is_exact = True
    recall = 1.0

    def __init__(self, dim: int) -> None:
        self._dim = dim
        # Any: the library's stubs describe its C++ classes, not their Python wrappers.
        self._index: Any = None
        self._largest_row = -1  # larger rows are new, so adding them needs no pass to remove old vectors
        self._capacity = 0  # rows that fit in FAISS's buffers

    @property
    def size_bytes(self) -> int:
        """Vectors and row numbers, without FAISS's own small overhead."""
        return len(self) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """A vector and its row number."""
        return 4 * self._dim + 8

    def __len__(self) -> int:
        return 0 if self._index is None else int(self._index.ntotal)

    def growth_bytes(self, count: int) -> int:
        """Return the memory, at its peak, of adding `count` rows. A full buffer is copied to a larger one."""
        wanted = len(self) + count
        return (count if wanted <= self._capacity else wanted) * self.row_bytes

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Convert rows and vectors to FAISS's types."""
        return Addition(np.asarray(rows, np.int64), np.ascontiguousarray(vectors_ND, np.float32))

    def replace(self, addition: Addition) -> None:
        """Add rows, or replace the vectors of existing ones."""
        if not len(addition.rows):
            return
        self.remove(addition.rows.tolist())
        if self._index is None:
            self._index = _empty(self._dim)
        before, wanted = len(self), len(self) + len(addition.rows)
        self._index.add_with_ids(addition.vectors_ND, addition.rows)
        self._largest_row = max(self._largest_row, int(addition.rows.max()))
        if wanted > self._capacity:  # std::vector doubles, or grows to the requested size
            self._capacity = max(2 * before, wanted)

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown ones are ignored. One pass over the index, whatever their number."""
        known = [row for row in rows if row <= self._largest_row]
        if known:
            self._index.remove_ids(np.asarray(known, np.int64))

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """Return the best `top_k` rows and all ties with the last one, among the given rows or all."""
        available = len(self) if among is None else min(len(self), len(among))
        if not available:
            return Hits.none()
        selector = None if among is None else selector_of(among)
        return with_ties(
            lambda count: self._search(vector_D, count, selector), wanted=min(top_k, available), available=available
        )

    def _search(self, vector_D: Vectors, count: int, selector: Any) -> Hits:
        import faiss  # already loaded: there are rows

        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # as above
        return search_index(self._index, vector_D, count, parameters)


def _empty(dim: int) -> Any:
    import faiss  # here, to save memory and start-up time without documents

    return faiss.IndexIDMap(faiss.IndexFlatIP(dim))
