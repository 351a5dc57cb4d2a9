"""Exact inner-product search over a flat FAISS index. Knows rows and vectors; knows no text and no SQL.

N documents, D dims
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.index.base import Hits, Rows, Vectors


class FaissIndex:
    """`IndexFlatIP` behind an id map. Searches may run at once; a change needs the index for itself.

    FAISS is loaded with the first row: a service without documents does without its memory and its time at start.
    """

    backend = "faiss-flat"

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

    def replace(self, rows: Sequence[int], vectors_ND: Vectors) -> None:
        """Add rows, or give existing rows a new vector."""
        if not len(rows):
            return
        self.remove(rows)
        if self._index is None:
            self._index = _empty(self._dim)
        before, wanted = len(self), len(self) + len(rows)
        self._index.add_with_ids(np.ascontiguousarray(vectors_ND, np.float32), np.asarray(rows, np.int64))
        self._largest_row = max(self._largest_row, *rows)
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
        wanted = min(top_k, available)
        if not wanted:
            return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
        asked = min(wanted + 1, available)  # one more: shows whether the last one ties with the next
        while True:
            hits = self._search(vector_D, asked, among)
            found = len(hits.rows)
            if found < asked or asked == available or hits.scores[-1] < hits.scores[wanted - 1]:
                keep = hits.scores >= hits.scores[min(wanted, found) - 1] if found else slice(0)
                return Hits(hits.rows[keep], hits.scores[keep])
            asked = min(asked * 2, available)

    def _search(self, vector_D: Vectors, count: int, among: Rows | None) -> Hits:
        import faiss  # loaded by now: there are rows

        # Named, so that the array outlives the selector's pointer to it.
        selector = None if among is None else faiss.IDSelectorBatch(np.ascontiguousarray(among, np.int64))
        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # as above
        scores_1K, rows_1K = self._index.search(
            np.ascontiguousarray(vector_D, np.float32).reshape(1, -1), count, params=parameters
        )
        found = rows_1K[0] >= 0  # -1: fewer rows than asked for
        return Hits(rows_1K[0][found], scores_1K[0][found])


def _empty(dim: int) -> Any:
    import faiss  # here, for its memory and its time at start: only documents need it

    return faiss.IndexIDMap(faiss.IndexFlatIP(dim))
