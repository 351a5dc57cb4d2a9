"""The interface of a vector index, in row numbers and vectors, and the exact one (FAISS, flat).

N documents, D dims
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.documents.document import Rows, Vectors

MORE_CANDIDATES = 2
SMALL = 1000  # up to this number of rows, a hash set is faster to make than a bitmap
ROWS_A_MEMBER = 320  # also for sparser sets: a bitmap takes a bit for each row number
ROWS_A_PART = 2**20  # of a bitmap, made with a byte for each row number


@dataclass(frozen=True)
class Hits:
    """Rows found, best first, with all ties of the last one. rows: int64.  scores: float32 inner products."""

    rows: Rows
    scores: Vectors


@dataclass(frozen=True)
class Addition:
    """Rows with their vectors, and what the index computed for them without a lock."""

    rows: Rows
    vectors_ND: Vectors
    prepared: Any = None


class VectorIndex(ABC):
    """Finds the unit vectors with the largest inner product. All it holds can be rebuilt from the document store.

    Searches may run concurrently; a change needs exclusive access.

    backend: the name in `GET /info`.
    is_exact: whether the search is exhaustive and scores are inner products of the original vectors.
    """

    backend: str
    is_exact: bool

    def __init__(self, index: Any) -> None:
        self._index = index  # Any: the library's stubs describe its C++ classes, not their Python wrappers
        self._largest_row = -1  # larger rows are new, so adding them needs no pass to remove old vectors

    @property
    @abstractmethod
    def recall(self) -> float:
        """Share of the 10 nearest that a search finds, measured when the index was built; 1 if it is exact."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Memory of the vectors and row numbers, without FAISS's spare capacity."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Memory of one more row."""

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @abstractmethod
    def growth_bytes(self, count: int) -> int:
        """Return the additional memory, at its peak, of adding `count` rows."""

    @abstractmethod
    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Compute what `replace` needs. Changes nothing: searches may run meanwhile."""

    def replace(self, addition: Addition) -> None:
        """Add rows, or replace the vectors of existing ones."""
        if len(addition.rows):
            self.remove(addition.rows.tolist())
            self._add(addition)

    @abstractmethod
    def _add(self, addition: Addition) -> None:
        """Add rows, at least one, that are not there."""

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown ones are ignored. One pass over the row numbers, however many are removed."""
        known = [row for row in rows if row <= self._largest_row]
        if known:
            self._remove(np.asarray(known, np.int64))

    def _remove(self, rows: Rows) -> None:
        self._index.remove_ids(rows)

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """Return the best `top_k` rows and all ties with the last one, among the given rows, ascending, or all."""
        available = len(self) if among is None else min(len(self), len(among))
        wanted = min(top_k, available)
        hits = Hits(np.empty(0, np.int64), np.empty(0, np.float32))
        if wanted:
            for parameters in self._parameters(vector_D, wanted, among):
                hits = self._with_ties(vector_D, parameters, wanted=wanted, available=available)
                if len(hits.rows) >= wanted:
                    break
        return hits

    @abstractmethod
    def _parameters(self, vector_D: Vectors, wanted: int, among: Rows | None) -> Iterator[Any]:
        """Yield FAISS's `SearchParameters` to try until enough rows are found."""

    def _with_ties(self, vector_D: Vectors, parameters: Any, *, wanted: int, available: int) -> Hits:
        """Return the best `wanted` of `available` rows, or fewer if no more are found, and all ties with the last."""
        asked = min(wanted + 1, available)  # one more: shows whether the last one ties with the next
        while True:
            hits = self._best(vector_D, asked, parameters)
            if len(hits.rows) < asked or asked == available or hits.scores[-1] < hits.scores[wanted - 1]:
                keep = hits.scores >= hits.scores[:wanted][-1:]  # a slice: there may be none
                return Hits(hits.rows[keep], hits.scores[keep])
            asked = min(asked * 2, available)

    def _best(self, vector_D: Vectors, count: int, parameters: Any) -> Hits:
        """Return the best `count` rows, or fewer if there are no more."""
        scores_1K, rows_1K = self._index.search(
            np.ascontiguousarray(vector_D, np.float32)[None], count, params=parameters
        )
        found = rows_1K[0] >= 0  # -1: fewer rows than asked for
        return Hits(rows_1K[0][found], scores_1K[0][found])


def candidates(top_k: int) -> int:
    """Return how many rows to ask of an approximate index; exact scores then rank them."""
    return 2 * top_k + MORE_CANDIDATES


def selector_of(rows: Rows) -> Any:
    """Return a FAISS selector of the given rows, which ascend."""
    import faiss  # already loaded: there are rows

    largest = int(rows.max())
    if len(rows) <= max(SMALL, largest // ROWS_A_MEMBER):
        return faiss.IDSelectorBatch(np.ascontiguousarray(rows, np.int64))
    bitmap: Any = np.zeros(largest // 8 + 1, np.uint8)
    for part in np.split(rows, np.searchsorted(rows, np.arange(ROWS_A_PART, largest + 1, ROWS_A_PART))):
        if len(part):
            first = int(part[0]) // 8
            members = np.zeros(int(part[-1]) + 1 - 8 * first, np.bool_)
            members[part - 8 * first] = True
            bits = np.packbits(members, bitorder="little")
            bitmap[first : first + len(bits)] |= bits
    return faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg]  # it keeps the array alive for C++


class FaissIndex(VectorIndex):
    """`IndexFlatIP` in an `IndexIDMap`.

    FAISS is imported with the first row: a service without documents saves its memory and start-up time.
    """

    backend = "faiss-flat"
    is_exact = True
    recall = 1.0

    def __init__(self, dim: int) -> None:
        super().__init__(None)
        self._dim = dim
        self._capacity = 0  # rows that fit in FAISS's buffers

    @property
    def size_bytes(self) -> int:
        return len(self) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        return 4 * self._dim + 8  # a vector and its row number

    def __len__(self) -> int:
        return 0 if self._index is None else super().__len__()

    def growth_bytes(self, count: int) -> int:
        wanted = len(self) + count
        return (count if wanted <= self._capacity else wanted) * self.row_bytes  # a full buffer is copied to a larger

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        return Addition(np.asarray(rows, np.int64), np.ascontiguousarray(vectors_ND, np.float32))

    def _add(self, addition: Addition) -> None:
        import faiss  # here, to save memory and start-up time without documents

        if self._index is None:
            self._index = faiss.IndexIDMap(faiss.IndexFlatIP(self._dim))
        before, wanted = len(self), len(self) + len(addition.rows)
        self._index.add_with_ids(addition.vectors_ND, addition.rows)
        self._largest_row = max(self._largest_row, int(addition.rows.max()))
        if wanted > self._capacity:  # std::vector doubles, or grows to the requested size
            self._capacity = max(2 * before, wanted)

    def _parameters(self, vector_D: Vectors, wanted: int, among: Rows | None) -> Iterator[Any]:
        import faiss  # already loaded: there are rows

        yield None if among is None else faiss.SearchParameters(sel=selector_of(among))  # type: ignore[call-arg]
