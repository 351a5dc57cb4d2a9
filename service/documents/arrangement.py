"""Groups of documents and orders by metadata. Knows rows and their fields; searches nothing.

A field's values are ordered as the table `fields` has them: booleans, numbers, strings by code point. Of a list the
first value in that order counts, where it descends the last. null, objects and empty lists are no values.

N documents
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from service.documents.document import Rows
from service.documents.filters import Condition
from service.documents.interface import Group, SortField
from service.documents.store.store import LAST, FieldReader

GROUP_DEPTH = 2000  # documents that are looked at until there are enough groups
MORE = 4  # factor by which to look at more, until then

Ranked = Sequence[tuple[float, int]]  # scores and rows, best first
Places = npt.NDArray[np.intp]


def of_enough_groups(reader: FieldReader, field: str, best: Callable[[int], Ranked], *, wanted: int) -> Ranked:
    """Return the best documents, as many as have the wanted number of groups; at most GROUP_DEPTH, or that number.

    best: returns so many of the best documents, or all there are.
    """
    depth = wanted
    while True:
        ranked = best(depth)
        if len(ranked) < depth or depth >= GROUP_DEPTH:
            return ranked
        if len(first_of_groups(reader, field, _rows(ranked))) >= wanted:
            return ranked
        depth = min(MORE * depth, GROUP_DEPTH)


def first_of_groups(reader: FieldReader, field: str, rows_N: Rows) -> Places:
    """Return the place of the first document of each group, ascending. One without a value is a group of its own."""
    key_N = reader.order_keys(field, rows_N)
    _, first = np.unique(key_N, return_index=True)
    return np.union1d(first, np.flatnonzero(key_N == LAST))


def in_order(reader: FieldReader, sort: Sequence[SortField], rows_N: Rows) -> Places:
    """Return the places of documents in the order of their fields; equal ones keep theirs."""
    keys = [reader.order_keys(one.field, rows_N, descending=one.descending) for one in sort]
    return np.lexsort(keys[::-1]) if keys else np.arange(len(rows_N))


def groups_of(
    reader: FieldReader, field: str, rows: Sequence[int], *, condition: Condition | None, found: Rows | None = None
) -> dict[int, Group]:
    """Return each document's group with its size: how many of `found` are in it, else how many that match."""
    value_of = reader.first_values(field, rows)
    if found is None:
        size_of = reader.count_by_first_value(field, {*value_of.values()}, condition)
    else:
        size_of = Counter(reader.first_values(field, found.tolist()).values())
    groups = dict.fromkeys(rows, Group(None, 1))
    for row, (kind, value) in value_of.items():
        groups[row] = Group(bool(value) if kind == "boolean" else value, size_of[kind, value])
    return groups


def _rows(ranked: Ranked) -> Rows:
    return np.fromiter((row for _, row in ranked), np.int64, len(ranked))
