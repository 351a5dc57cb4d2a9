"""Metadata filters: the values that they test, the SQL of a filter, and counts by value.

The table `fields` has a row for each path, type and value of a document's metadata (`fields_of`); `to_condition`
translates a filter to SQL over it; `count_values` counts a field's values.

{"lang": "de"} · {"year": {"gte": 2020, "lt": 2024}} · {"tag": {"in": ["a", "b"]}} · {"lang": {"ne": "de"}} ·
{"lang": {"exists": true}} · {"title": {"contains": "kettle"}} · {"source.site": "x"} · {"and": [..]} · {"or": [..]} ·
{"not": {..}}

Several keys in one object are joined by "and". A list in the metadata matches if one of its elements does: the same one
for `in`, `contains` and both bounds of a range. null matches a field that is null or absent. `ne` is the negation of
equality, over all elements. Types are never converted: 1 is not "1" or true. Keys and strings are compared as
`comparable` has them, parts of strings also without case (`caseless`).
"""

import math
import operator
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.errors import InvalidInput

MAX_DEPTH = 16
MAX_TERMS = 1000  # operators plus values
COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {  # in SQL, in Python
    "gt": (">", operator.gt),
    "gte": (">=", operator.ge),
    "lt": ("<", operator.lt),
    "lte": ("<=", operator.le),
}
OPERATORS = ("in", "ne", "exists", "contains", *COMPARISONS)
# Before a query with a condition; its first value is the collection's number.
FILTERABLE = "WITH filterable AS NOT MATERIALIZED (SELECT key, kind, value, row FROM fields WHERE collection = ?)"

FIELD_RULES = f"1-{unicodedata.unidata_version}"  # version of these rules, and of Unicode
MOST_MARKS = 30  # in a row, as in Unicode's Stream-Safe Text Format (UAX #15): NFC takes the square of a run's length
_LONG_RUN = re.compile(rf"([^\w\x00-\x7f]{{{MOST_MARKS + 1},}})")  # a mark is no word character
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1  # limits of SQLite and Milvus

SqlValue = str | int | float
Scalar = tuple[str, SqlValue]  # type and value

OTHER: Scalar = ("other", 0)  # an object, or a list in a list: it exists, but equals nothing
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
class FieldTests:
    """What a filter asks of one field.

    among: an element equals one of these; None: that is not asked. An absent field has one element, null.
    bounds: comparisons that hold for one element, all of one type: at most one from below and one from above.
    substring: a part of the same element, which is a string; as `caseless` has both.
    differs_from: no element equals this.  exists: whether the field is there.
    """

    among: tuple[Scalar, ...] | None = None
    bounds: tuple[tuple[str, Scalar], ...] = ()
    substring: str | None = None
    differs_from: Scalar | None = None
    exists: bool | None = None


@dataclass(frozen=True)
class Condition:
    """A boolean SQL expression over a column `row`, behind FILTERABLE, and the values of its question marks."""

    sql: str
    values: tuple[SqlValue, ...] = ()


def to_condition(filter_: Mapping[str, object]) -> Condition:
    """Return the SQL of a filter; every name and value is a bound parameter.

    Raises: InvalidInput: the filter is malformed; the message names the place, never a value.
    """
    filter_chars(filter_)
    return _all_of(filter_, "filter")


def both(first: Condition | None, second: Condition) -> Condition:
    """Return the condition that both hold. None always holds."""
    return second if first is None else _join([first, second], "AND")


def fields_in(filter_: object) -> list[str]:
    """Return the fields that a valid filter tests, in its order; none for None."""
    fields: list[str] = []
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key in {"and", "or"} and isinstance(value, list):
            fields += [name for part in value for name in fields_in(part)]
        elif key == "not":
            fields += fields_in(value)
        else:
            fields.append(comparable(str(key)))
    return fields


def filter_chars(filter_: Mapping[str, object]) -> int:
    """Return the characters of a filter's keys and strings.

    Raises: InvalidInput: it is nested too deeply, or has too many operators and values. Stops at the limit.
    """
    terms = chars = 0
    waiting: list[tuple[object, int]] = [(filter_, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InvalidInput(f"filter is nested deeper than {MAX_DEPTH} levels")
        inner: Collection[object] = ()
        if isinstance(node, Mapping):
            terms += len(node)
            inner = node.values()
        elif isinstance(node, list):
            inner = node
        else:
            terms += 1
            chars += len(node) if isinstance(node, str) else 0
        if max(terms, len(inner), len(waiting)) > MAX_TERMS:
            raise InvalidInput(
                f"filter has too many operators and values; the limit is {MAX_TERMS}: ask in several requests"
            )
        chars += sum(map(len, node)) if isinstance(node, Mapping) else 0
        waiting += [(value, depth + 1) for value in inner]
    return chars


def _all_of(node: object, where: str) -> Condition:
    if not isinstance(node, Mapping) or not node:
        raise InvalidInput(f"{where} must be an object with at least one field or operator")
    return _join([_part(str(key), value, where) for key, value in node.items()], "AND")


def _part(key: str, value: object, where: str) -> Condition:
    if key in {"and", "or"}:
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"{where}.{key} must be a list with at least one filter")
        return _join([_all_of(part, f"{where}.{key}[{at}]") for at, part in enumerate(value)], key.upper())
    if key == "not":
        return _not(_all_of(value, f"{where}.not"))
    return _field(comparable(key), field_tests(value, where))


def _field(key: str, tests: FieldTests) -> Condition:
    parts: list[Condition] = []
    if tests.among is not None:
        parts.append(_equals_any(key, tests.among))
    of_one = [(f"AND kind = ? AND value {COMPARISONS[name][0]} ?", *bound) for name, bound in tests.bounds]
    if tests.substring is not None:
        of_one.append(("AND kind = ? AND instr(caseless(value), ?)", "string", tests.substring))
    if of_one:
        sql, values = " ".join(test for test, *_ in of_one), [value for _, *values in of_one for value in values]
        parts.append(_has(key, sql, *values))
    if tests.differs_from is not None:
        parts.append(_not(_equals_any(key, [tests.differs_from])))
    if tests.exists is not None:
        parts.append(_has(key) if tests.exists else _not(_has(key)))
    return _join(parts, "AND")


def field_tests(value: object, where: str = "filter") -> FieldTests:
    """Return what a filter asks of a field, without what its other tests imply.

    Raises: InvalidInput: the operators or their operands are malformed; the message names the place, never a value.
    """
    if not isinstance(value, Mapping):
        return FieldTests(among=(_scalar(value, where),))
    if not value or not value.keys() <= {*OPERATORS}:
        raise InvalidInput(
            f"{where}: a field's operators must be at least one of {', '.join(OPERATORS)}, and no others"
        )
    among: tuple[Scalar, ...] | None = None
    if "in" in value:
        if not isinstance(value["in"], list) or not value["in"]:
            raise InvalidInput(f"{where}: 'in' takes a list with at least one value")
        among = tuple(_scalar(element, where) for element in value["in"])
    differs_from = _scalar(value["ne"], where) if "ne" in value else None
    exists = value.get("exists")
    if "exists" in value and not isinstance(exists, bool):
        raise InvalidInput(f"{where}: 'exists' takes true or false")
    bounds = _bounds({str(name): bound for name, bound in value.items() if name in COMPARISONS}, where)
    substring = None
    if "contains" in value:
        if not isinstance(value["contains"], str) or not value["contains"]:
            raise InvalidInput(
                f"{where}: 'contains' takes a string with at least one character; "
                'a list that has another value is found by {"field": value}'
            )
        substring = caseless(value["contains"])
    if among is not None:
        among = tuple(element for element in among if all(_is_within(element, *bound) for bound in bounds))
        if substring is not None:
            among = tuple((kind, text) for kind, text in among if kind == "string" and substring in caseless(str(text)))
        bounds, substring = (), None
    return FieldTests(among, bounds, substring, differs_from, exists)


def _bounds(given: Mapping[str, object], where: str) -> tuple[tuple[str, Scalar], ...]:
    """Return the narrowest lower and the narrowest upper bound."""
    bounds = [(name, _scalar(operand, where)) for name, operand in given.items()]
    for name, (kind, _) in bounds:
        if kind not in {"number", "string"}:
            raise InvalidInput(f"{where}: {name!r} takes a number or a string")
    if len({kind for _, (kind, _) in bounds}) > 1:
        raise InvalidInput(f"{where}: the bounds of a range must be all numbers or all strings; types never mix")
    lower = [bound for bound in bounds if bound[0] in {"gt", "gte"}]
    upper = [bound for bound in bounds if bound[0] in {"lt", "lte"}]
    lower.sort(key=lambda bound: (bound[1], bound[0] == "gt"))
    upper.sort(key=lambda bound: (bound[1], bound[0] != "lt"))
    return (*lower[-1:], *upper[:1])


def _is_within(element: Scalar, name: str, bound: Scalar) -> bool:
    _, compare = COMPARISONS[name]
    return element[0] == bound[0] and compare(element[1], bound[1])


def _scalar(value: object, where: str) -> Scalar:
    if fault := inexact(value):
        raise InvalidInput(f"{where}: {fault}")
    scalar = stored_kind(value)
    if scalar is None:
        raise InvalidInput(
            f"{where}: a field is compared with a string, a number, a boolean or null; "
            'with one of several by {"in": [..]}'
        )
    return scalar


def _equals_any(key: str, scalars: Sequence[Scalar]) -> Condition:
    by_kind: dict[str, list[SqlValue]] = {}
    for kind, value in scalars:
        by_kind.setdefault(kind, []).append(value)
    parts = [Condition("(0)")] if not by_kind else []  # no value is left: no document matches
    for kind, values in by_kind.items():
        if kind == "null":  # absent, null, or a list with a null
            parts += [_not(_has(key)), _has(key, "AND kind = 'null'")]
        else:
            parts.append(_has(key, f"AND kind = ? AND value IN ({', '.join('?' * len(values))})", kind, *values))
    return _join(parts, "OR")


def _has(key: str, tests: str = "", *values: SqlValue) -> Condition:
    """Return the condition that a field has an element that passes the tests."""
    return Condition(f"(row IN (SELECT row FROM filterable WHERE key = ? {tests}))", (key, *values))  # noqa: S608 - no user text


def _not(condition: Condition) -> Condition:
    return Condition(f"NOT {condition.sql}", condition.values)


def _join(parts: Sequence[Condition], operator: str) -> Condition:
    sql = f" {operator} ".join(part.sql for part in parts)
    return Condition(f"({sql})", tuple(value for part in parts for value in part.values))


def comparable(text: str) -> str:
    """Return a key or a string as filters compare it: in NFC, so that an é typed as e and an accent is an é.

    A run of more than `MOST_MARKS` marks or symbols stays as it is.
    """
    if text.isascii():
        return text
    parts = _LONG_RUN.split(text)  # each second one is such a run
    parts[::2] = (unicodedata.normalize("NFC", part) for part in parts[::2])
    return "".join(parts)


def caseless(text: str) -> str:
    """Return a string as `contains` compares it: by full case folding, in NFC; i with and without a dot is one."""
    if text.isascii():
        return text.lower()
    return comparable(comparable(text).casefold().replace("i\u0307", "i").replace("\u0131", "i"))


def inexact(value: object) -> str | None:
    """Return why a number cannot be stored exactly; None if it can, or if the value is not a number."""
    if isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return (
            f"a whole number is beyond 64 bits; those from {SMALLEST_INTEGER} to {LARGEST_INTEGER} are stored exactly, "
            "send a larger one as a string"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return "a number is NaN or infinite, which JSON does not allow; leave it out, or send null"
    return None


def stored_kind(value: object) -> Scalar | None:
    """Return a scalar's type and value in the `fields` table; None for a list or an object."""
    if value is None:
        return "null", 0
    if isinstance(value, bool):  # before int: True is an int in Python
        return "boolean", int(value)
    if isinstance(value, int | float):
        # The API refuses larger integers (`inexact`); SQLite has none.
        return "number", value if SMALLEST_INTEGER <= value <= LARGEST_INTEGER else float(value)
    return ("string", comparable(value)) if isinstance(value, str) else None


def fields_of(metadata: Mapping[str, object]) -> dict[str, set[Scalar]]:
    """Return every path with the set of (type, value) at its end, which is never empty; a list gives its elements.

    A path is keys, as `comparable` has them, joined by dots; it also leads through objects in a list. If two routes
    give the same path, the one with the longer first key wins, then the longer second: the key `a.b` takes precedence
    over `b` in `a`.
    """
    scalars_at: dict[str, set[Scalar]] = {}
    waiting: list[tuple[str, list[Mapping[str, object]]]] = [("", [metadata])]
    while waiting:
        prefix, objects = waiting.pop()
        elements_at: dict[str, list[object]] = {}
        for object_ in objects:
            for key, value in object_.items():
                elements = value if isinstance(value, list) else [value]
                elements_at.setdefault(comparable(key), []).extend(elements)
        for key, elements in sorted(elements_at.items(), key=lambda item: len(item[0])):  # the longest is popped first
            scalars = {stored_kind(element) or OTHER for element in elements}
            scalars_at.setdefault(prefix + key, scalars or {OTHER})  # an empty list exists, too
            inner: list[Mapping[str, object]] = [element for element in elements if isinstance(element, dict)]
            if inner:
                waiting.append((f"{prefix}{key}.", inner))
    return scalars_at


def field_rows(metadata: Mapping[str, object]) -> list[tuple[str, str, SqlValue]]:
    """Return the key, kind and value of each row in the `fields` table."""
    return [(path, *scalar) for path, scalars in fields_of(metadata).items() for scalar in scalars]


def replace_fields(connection: sqlite3.Connection, collection: int, row: int, metadata: Mapping[str, object]) -> None:
    """Store what filters test of a document's metadata."""
    connection.execute("DELETE FROM fields WHERE row = ?", (row,))
    connection.executemany(
        "INSERT INTO fields (collection, key, kind, value, row) VALUES (?, ?, ?, ?, ?)",
        ((collection, *field, row) for field in field_rows(metadata)),
    )


@dataclass(frozen=True)
class Facet:
    """How many documents have each value of a field.

    counts: by value, the most frequent first, ties by type and value; numbers and booleans are spelled as in JSON.
    is_cut: there are further values.  is_counted: whether all documents were counted; else the counts are the least.
    """

    counts: dict[str, int]
    is_cut: bool
    is_counted: bool = True


def count_values(
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
    counts_by_value = reader.execute(query, values).fetchall()
    counted = {_spelled(kind, value): count for kind, value, count in counts_by_value[:most_values]}
    return Facet(counted, is_cut=len(counts_by_value) > most_values)


def _spelled(kind: str, value: SqlValue) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if isinstance(value, float):
        is_whole = value.is_integer() and SMALLEST_INTEGER <= value <= LARGEST_INTEGER
        return orjson.dumps(int(value) if is_whole else value).decode()  # 2.0 and 2 are one number
    return str(value)
