"""Exact inner-product search over a flat FAISS index. Knows rows and vectors; knows no text and no SQL.

N documents, D dims
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.documents.protocol import Addition, Hits, Rows, Vectors, with_ties
from service.documents.vectors.search import search_index, selector_of


class FaissIndex:
    """`IndexFlatIP` behind an id map. Searches may run at once; a change needs the index for itself.

    FAISS is loaded with the first row: a service without documents does without its memory and its time at start.
    """

    backend = "faiss-flat"
    is_exact = True
    recall = 1.0

    def __init__(self, dim: int) -> None:
        self._dim = dim
        # Any: the library's stubs describe its C++ classes, not the Python methods put over them.
        self._index: Any = None
        self._largest_row = -1  # rows above it were never added: new documents cost no pass over the index
        self._capacity = 0  # rows that FAISS's vectors have room for

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
        """Memory that adding so many rows takes at its peak: a full vector is copied to a larger one, beside itself."""
        wanted = len(self) + count
        return (count if wanted <= self._capacity else wanted) * self.row_bytes

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """The arrays that FAISS takes."""
        return Addition(np.asarray(rows, np.int64), np.ascontiguousarray(vectors_ND, np.float32))

    def replace(self, addition: Addition) -> None:
        """Add rows, or give existing rows a new vector."""
        if not len(addition.rows):
            return
        self.remove(addition.rows.tolist())
        if self._index is None:
            self._index = _empty(self._dim)
        before, wanted = len(self), len(self) + len(addition.rows)
        self._index.add_with_ids(addition.vectors_ND, addition.rows)
        self._largest_row = max(self._largest_row, int(addition.rows.max()))
        if wanted > self._capacity:  # std::vector grows to twice its size, or to what is asked for
            self._capacity = max(2 * before, wanted)

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; unknown ones are ignored. One pass over the index, whatever the number of rows."""
        known = [row for row in rows if row <= self._largest_row]
        if known:
            self._index.remove_ids(np.asarray(known, np.int64))

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """The best `top_k` rows and every row that ties with the last of them, among the given rows or all."""
        available = len(self) if among is None else min(len(self), len(among))
        if not available:
            return Hits.none()
        selector = None if among is None else selector_of(among)
        return with_ties(
            lambda count: self._search(vector_D, count, selector), wanted=min(top_k, available), available=available
        )

    def _search(self, vector_D: Vectors, count: int, selector: Any) -> Hits:
        import faiss  # loaded by now: there are rows

        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # as above
        return search_index(self._index, vector_D, count, parameters)


def _empty(dim: int) -> Any:
    import faiss  # here, for its memory and its time at start: only documents need it

    return faiss.IndexIDMap(faiss.IndexFlatIP(dim))
