"""The interface between documents and vector index, in row numbers and vectors.

N documents, D dims
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

MORE_CANDIDATES = 2


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
