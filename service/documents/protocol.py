"""The seam between documents and the search structure. Knows row numbers and vectors; knows no text.

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
    """rows: int64, best first.  scores: float32, the inner products.  Every tie with the last one is included."""

    rows: Rows
    scores: Vectors

    @classmethod
    def none(cls) -> "Hits":
        """Nothing was found."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True)
class Addition:
    """Rows with their vectors, and whatever the index could work out for them without being locked."""

    rows: Rows
    vectors_ND: Vectors
    prepared: Any = None


class VectorIndex(Protocol):
    """Finds the unit vectors with the largest inner product; holds nothing that the document store does not."""

    @property
    def backend(self) -> str:
        """What `GET /info` calls it."""

    @property
    def is_exact(self) -> bool:
        """Whether nothing nearer was missed and scores are inner products of the vectors as they were given."""

    @property
    def recall(self) -> float:
        """Share of the 10 nearest that a search finds, measured when the index was built; 1 where it is exact."""

    @property
    def size_bytes(self) -> int:
        """Memory that the vectors take."""

    @property
    def row_bytes(self) -> int:
        """Memory that one more row takes."""

    def __len__(self) -> int: ...

    def growth_bytes(self, count: int) -> int:
        """Memory that adding so many rows takes at its peak, beyond what is taken now."""

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Work out what `replace` needs. Changes nothing, so that searches may go on."""

    def replace(self, addition: Addition) -> None:
        """Add rows, or give existing rows a new vector."""

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; unknown ones are ignored."""

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """The best `top_k` rows and every row that ties with the last of them, among the given rows or all."""


def candidates(top_k: int) -> int:
    """How many rows an inexact index is asked for, which their own vectors then rank."""
    return 2 * top_k + MORE_CANDIDATES


def with_ties(search: Callable[[int], Hits], *, wanted: int, available: int) -> Hits:
    """The best `wanted` of `available` rows and all that tie with the last of them.

    Args: search: gives the best so many rows; fewer, if there are no more.
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
