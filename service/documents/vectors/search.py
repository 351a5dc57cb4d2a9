"""One search of a FAISS index, and a set of rows as FAISS takes it. Knows rows and vectors; makes no index."""

from typing import Any

import numpy as np

from service.documents.protocol import Hits, Rows, Vectors

SMALL = 1000  # rows: a hash set of so many is quicker made than a bitmap over all
ROWS_A_MEMBER = 320  # and a larger one where row numbers lie farther apart: a bitmap takes a byte each while it is made


def selector_of(rows: Rows) -> Any:
    """Selects the given rows inside a search. Any: the library's stubs describe its C++ classes."""
    import faiss  # loaded by now: there are rows

    if len(rows) <= max(SMALL, int(rows.max()) // ROWS_A_MEMBER):
        return faiss.IDSelectorBatch(np.ascontiguousarray(rows, np.int64))
    members = np.zeros(int(rows.max()) + 1, np.bool_)
    members[rows] = True
    bitmap: Any = np.packbits(members, bitorder="little")
    return faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg]  # it keeps the array that C++ points to


def search_index(index: Any, vector_D: Vectors, count: int, parameters: Any) -> Hits:
    """The best `count` rows of an index, fewer if it has not so many. parameters: FAISS's `SearchParameters`."""
    scores_1K, rows_1K = index.search(
        np.ascontiguousarray(vector_D, np.float32).reshape(1, -1), count, params=parameters
    )
    found = rows_1K[0] >= 0  # -1: fewer rows than asked for
    return Hits(rows_1K[0][found], scores_1K[0][found])
