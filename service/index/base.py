"""The seam between documents and the search structure. Knows row numbers and vectors; knows no text.

N documents, D dims
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hits:
    """rows: int64, best first.  scores: float32, the inner products.  Every tie with the last one is included."""

    rows: Rows
    scores: Vectors


class VectorIndex(Protocol):
    """Finds the unit vectors with the largest inner product; holds nothing that the document store does not."""

    @property
    def backend(self) -> str:
        """What `GET /info` calls it."""

    @property
    def size_bytes(self) -> int:
        """Memory that the vectors take."""

    @property
    def row_bytes(self) -> int:
        """Memory that one more row takes."""

    def __len__(self) -> int: ...

    def growth_bytes(self, count: int) -> int:
        """Memory that adding so many rows takes at its peak, beyond what is taken now."""

    def replace(self, rows: Sequence[int], vectors_ND: Vectors) -> None:
        """Add rows, or give existing rows a new vector."""

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; unknown ones are ignored."""

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """The best `top_k` rows and every row that ties with the last of them, among the given rows or all."""
