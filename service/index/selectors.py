"""A set of rows as FAISS takes it. Knows row numbers; knows no index."""

from typing import Any

import numpy as np

from service.index.base import Rows

SMALL = 1000  # rows: a hash set of so many is quicker made than a bitmap over all


def selector_of(rows: Rows) -> Any:
    """Selects the given rows inside a search. Any: the library's stubs describe its C++ classes."""
    import faiss  # loaded by now: there are rows

    if len(rows) <= SMALL:
        return faiss.IDSelectorBatch(np.ascontiguousarray(rows, np.int64))
    members = np.zeros(int(rows.max()) + 1, np.bool_)
    members[rows] = True
    bitmap: Any = np.packbits(members, bitorder="little")
    return faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg]  # it keeps the array that C++ points to
