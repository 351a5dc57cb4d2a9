"""Counts documents by the values of their metadata. Knows the table `fields`; reads no document."""

import sqlite3
from dataclasses import dataclass

import orjson

from service.documents.filters import FILTERABLE, Condition
from service.documents.store.fields import LARGEST_INTEGER, SqlValue

MAX_VALUE_BYTES = 1024  # a longer text is no category
COUNT = """
SELECT kind, value, count(*) FROM fields WHERE collection = ? AND key = ? AND kind IN ('string', 'number', 'boolean')
AND length(CAST(value AS BLOB)) <= ?{where} GROUP BY kind, value ORDER BY count(*) DESC, kind, value LIMIT ?
"""


@dataclass(frozen=True)
class Facet:
    """How many documents have each value of a field.

    counts: by value, the most frequent first, ties by value; numbers and booleans are spelled as in JSON.
    is_cut: there are further values.
    """

    counts: dict[str, int]
    is_cut: bool


def facet(
    reader: sqlite3.Connection, field: str, *, collection: int, most_values: int, condition: Condition | None = None
) -> Facet:
    """Count the documents that a condition selects, or all, by a field's values. An element of a list is a value."""
    query = COUNT.format(where="")
    before: list[SqlValue] = []
    after: list[SqlValue] = []
    if condition is not None:
        query = f"{FILTERABLE}{COUNT.format(where=f' AND {condition.sql}')}"
        before, after = [collection], list(condition.values)
    values = (
        *before,
        collection,
        field,
        MAX_VALUE_BYTES,
        *after,
        most_values + 1,
    )  # one more: shows if there are others
    found = reader.execute(query, values).fetchall()
    counts: dict[str, int] = {}
    for kind, value, count in found[:most_values]:
        spelled = _spelled(kind, value)
        counts[spelled] = counts.get(spelled, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Facet(dict(ordered), is_cut=len(found) > most_values)


def _spelled(kind: str, value: SqlValue) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) <= LARGEST_INTEGER
        return orjson.dumps(int(value) if is_whole else value).decode()  # 2.0 and 2 are one number
    return str(value)
