"""Counts documents by the values of their metadata. Knows the table `fields`; reads no document."""

import sqlite3
from dataclasses import dataclass

import orjson

from service.documents.filters import FILTERABLE, Condition
from service.documents.store.fields import LARGEST_INTEGER, SMALLEST_INTEGER, SqlValue, comparable

MAX_VALUE_BYTES = 1024  # a longer text is no category
# Of the types that are counted, strings alone are spelled like another one's values.
IS_MIXED = """
SELECT EXISTS (SELECT 1 FROM fields WHERE collection = ?1 AND key = ?2 AND kind = 'string')
AND EXISTS (SELECT 1 FROM fields WHERE collection = ?1 AND key = ?2 AND kind IN ('number', 'boolean'))
"""
COUNT = """
SELECT kind, value, count(*) AS documents FROM fields
WHERE collection = ?1 AND key = ?2 AND kind IN ('string', 'number', 'boolean') AND length(CAST(value AS BLOB)) <= ?3
{where} GROUP BY kind, value
"""
# A document that has a value also as a string is counted by the string.
NO_SUCH_STRING = """
AND (kind = 'string' OR NOT EXISTS (
    SELECT 1 FROM fields AS other WHERE collection = ?1 AND key = ?2 AND kind = 'string'
    AND value = spelled(fields.kind, fields.value) AND row = fields.row
))
"""
MERGED = """
SELECT 'string' AS kind, CASE kind WHEN 'string' THEN value ELSE spelled(kind, value) END AS value,
sum(documents) AS documents FROM ({counts}) GROUP BY 2
"""


@dataclass(frozen=True)
class Facet:
    """How many documents have each value of a field.

    counts: by value, the most frequent first, ties by type and value; numbers and booleans are spelled as in JSON.
    is_cut: there are further values.
    """

    counts: dict[str, int]
    is_cut: bool


def facet(
    reader: sqlite3.Connection, field: str, *, collection: int, most_values: int, condition: Condition | None = None
) -> Facet:
    """Count the documents that a condition selects, or all, once for each value of a field, as it is spelled.

    An element of a list is a value.
    """
    field = comparable(field)
    where, tested = ("", ()) if condition is None else (f"AND {condition.sql}", condition.values)
    counts = COUNT.format(where=where)
    if reader.execute(IS_MIXED, (collection, field)).fetchone()[0]:
        reader.create_function("spelled", 2, _spelled, deterministic=True)
        counts = MERGED.format(counts=COUNT.format(where=where + NO_SUCH_STRING))
    # The question mark of FILTERABLE is ?1; those of the condition, and the last one, follow ?3.
    query = f"{FILTERABLE} SELECT kind, value, documents FROM ({counts}) ORDER BY documents DESC, kind, value LIMIT ?"  # noqa: S608
    values = (collection, field, MAX_VALUE_BYTES, *tested, most_values + 1)  # one more: shows if there are others
    found = reader.execute(query, values).fetchall()
    counted = {_spelled(kind, value): count for kind, value, count in found[:most_values]}
    return Facet(counted, is_cut=len(found) > most_values)


def _spelled(kind: str, value: SqlValue) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if isinstance(value, float):
        is_whole = value.is_integer() and SMALLEST_INTEGER <= value <= LARGEST_INTEGER
        return orjson.dumps(int(value) if is_whole else value).decode()  # 2.0 and 2 are one number
    return str(value)
