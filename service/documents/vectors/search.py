"""Searches a FAISS index, and converts a set of rows to a FAISS selector."""

from typing import Any

import numpy as np

from service.documents.protocol import Hits, Rows, Vectors

SMALL = 1000  # up to this number of rows, a hash set is faster to make than a bitmap
ROWS_A_MEMBER = 320  # also for sparser sets: making a bitmap takes a byte for each row number


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
