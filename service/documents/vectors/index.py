"""The interface of a vector index, in row numbers and vectors, and the exact one (FAISS, flat).

N documents, D dims
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from service.documents.document import Rows, Vectors

MORE_CANDIDATES = 2
SMALL = 1000  # up to this number of rows, a hash set is faster to make than a bitmap
ROWS_A_MEMBER = 320  # also for sparser sets: making a bitmap takes a byte for each row number


@dataclass(frozen=True)
class Hits:
    """Rows found, best first, with all ties of the last one. rows: int64.  scores: float32 inner products."""

    rows: Rows
    scores: Vectors

    @classmethod
    def none(cls) -> "Hits":
        """Return empty hits."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True)
class Addition:
    """Rows with their vectors, and what the index computed for them without a lock."""

    rows: Rows
    vectors_ND: Vectors
    prepared: Any = None


class VectorIndex(Protocol):
    """Finds the unit vectors with the largest inner product. All it holds can be rebuilt from the document store."""

    @property
    def backend(self) -> str:
        """The name in `GET /info`."""

    @property
    def is_exact(self) -> bool:
        """Whether the search is exhaustive and scores are inner products of the original vectors."""

    @property
    def recall(self) -> float:
        """Share of the 10 nearest that a search finds, measured when the index was built; 1 if it is exact."""

    @property
    def size_bytes(self) -> int:
        """Memory of the vectors."""

    @property
    def row_bytes(self) -> int:
        """Memory of one more row."""

    def __len__(self) -> int: ...

    def growth_bytes(self, count: int) -> int:
        """Return the additional memory, at its peak, of adding `count` rows."""

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Compute what `replace` needs. Changes nothing: searches may run meanwhile."""

    def replace(self, addition: Addition) -> None:
        """Add rows, or replace the vectors of existing ones."""

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown ones are ignored."""

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """Return the best `top_k` rows and all ties with the last one, among the given rows or all."""


def candidates(top_k: int) -> int:
    """Return how many rows to ask of an approximate index; exact scores then rank them."""
    return 2 * top_k + MORE_CANDIDATES


def with_ties(search: Callable[[int], Hits], *, wanted: int, available: int) -> Hits:
    """Return the best `wanted` of `available` rows and all ties with the last one.

    Args: search: returns the best `count` rows, or fewer if there are no more.
    """
    if not wanted:
        return Hits.none()
    asked = min(wanted + 1, available)  # one more: shows whether the last one ties with the next
    while True:
        hits = search(asked)
        found = len(hits.rows)
        if found < asked or asked == available or hits.scores[-1] < hits.scores[wanted - 1]:
            keep = hits.scores >= hits.scores[min(wanted, found) - 1] if found else slice(0)
            return Hits(hits.rows[keep], hits.scores[keep])
        asked = min(asked * 2, available)


def selector_of(rows: Rows) -> Any:
    """Return a FAISS selector of the given rows. Any: the library's stubs describe its C++ classes."""
    import faiss  # already loaded: there are rows

    if len(rows) <= max(SMALL, int(rows.max()) // ROWS_A_MEMBER):
        return faiss.IDSelectorBatch(np.ascontiguousarray(rows, np.int64))
    members = np.zeros(int(rows.max()) + 1, np.bool_)
    members[rows] = True
    bitmap: Any = np.packbits(members, bitorder="little")
    return faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg]  # it keeps the array alive for C++


def search_index(index: Any, vector_D: Vectors, count: int, parameters: Any) -> Hits:
    """Return the best `count` rows of an index, or all if it has fewer. parameters: FAISS's `SearchParameters`."""
    scores_1K, rows_1K = index.search(
        np.ascontiguousarray(vector_D, np.float32).reshape(1, -1), count, params=parameters
    )
    found = rows_1K[0] >= 0  # -1: fewer rows than asked for
    return Hits(rows_1K[0][found], scores_1K[0][found])


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
