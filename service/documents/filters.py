"""Translates the API's metadata filters to SQL conditions on the `fields` table. Runs nothing.

{"lang": "de"} · {"year": {"gte": 2020, "lt": 2024}} · {"tag": {"in": ["a", "b"]}} · {"lang": {"ne": "de"}} ·
{"lang": {"exists": true}} · {"source.site": "x"} · {"and": [..]} · {"or": [..]} · {"not": {..}}

Several keys in one object are joined by "and". A list in the metadata matches if one of its elements does. null matches
a field that is null or absent. `ne` is the negation of equality. Types are never converted: 1 is not "1" or true.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from service.documents.store.fields import SqlValue, inexact, stored_kind
from service.errors import InvalidInput

MAX_DEPTH = 16
MAX_TERMS = 1000  # operators plus values
RANGE_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OPERATORS = f"in, ne, exists, {', '.join(RANGE_OPERATORS)}"
# Before a query with a condition; its first value is the collection's number.
FILTERABLE = "WITH filterable AS NOT MATERIALIZED (SELECT key, kind, value, row FROM fields WHERE collection = ?)"


@dataclass(frozen=True)
class Condition:
    """A boolean SQL expression over a column `row`, behind FILTERABLE, and the values of its question marks."""

    sql: str
    values: tuple[SqlValue, ...] = ()


def to_condition(filter_: Mapping[str, object]) -> Condition:
    """Return the SQL of a filter; every name and value is a bound parameter.

    Raises: InvalidInput: the filter is malformed; the message names the place, never a value.
    """
    _check_size(filter_)
    return _all_of(filter_, "filter")


def has_nested_field(filter_: object) -> bool:
    """Return whether a valid filter tests a path with a dot."""
    return any("." in name for name in fields_in(filter_))


def fields_in(filter_: object) -> list[str]:
    """Return the fields that a valid filter tests, in its order; none for None."""
    found: list[str] = []
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key in {"and", "or"} and isinstance(value, list):
            found += [name for part in value for name in fields_in(part)]
        elif key == "not":
            found += fields_in(value)
        else:
            found.append(str(key))
    return found


def _check_size(filter_: Mapping[str, object]) -> None:
    """Refuse a filter that is nested too deeply or has too many operators and values. Stops at the limit."""
    terms = 0
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
        if max(terms, len(inner), len(waiting)) > MAX_TERMS:
            raise InvalidInput(
                f"filter has too many operators and values; the limit is {MAX_TERMS}: ask in several requests"
            )
        waiting += [(value, depth + 1) for value in inner]


def _all_of(node: object, where: str) -> Condition:
    if not isinstance(node, Mapping) or not node:
        raise InvalidInput(f"{where} must be an object with at least one field or operator")
    return _join([_one(str(key), value, where) for key, value in node.items()], "AND")


def _one(key: str, value: object, where: str) -> Condition:
    if key in {"and", "or"}:
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"{where}.{key} must be a list with at least one filter")
        parts = [_all_of(part, f"{where}.{key}[{number}]") for number, part in enumerate(value)]
        return _join(parts, key.upper())
    if key == "not":
        return _not(_all_of(value, f"{where}.not"))
    return _field(key, value, where)


def _field(key: str, value: object, where: str) -> Condition:
    if not isinstance(value, Mapping):
        return _equals_any(key, [value], where)
    if not value:
        raise InvalidInput(f"{where}: a field's operators must be at least one of {OPERATORS}")
    return _join([_operator(key, name, operand, where) for name, operand in value.items()], "AND")


def _operator(key: str, name: object, operand: object, where: str) -> Condition:
    if name == "in":
        if not isinstance(operand, list) or not operand:
            raise InvalidInput(f"{where}: 'in' takes a list with at least one value")
        return _equals_any(key, operand, where)
    if name == "ne":
        return _not(_equals_any(key, [operand], where))
    if name == "exists":
        if not isinstance(operand, bool):
            raise InvalidInput(f"{where}: 'exists' takes true or false")
        return _is_there(key) if operand else _not(_is_there(key))
    if name not in RANGE_OPERATORS:
        raise InvalidInput(f"{where}: a field's operators are {OPERATORS}")
    kind = _kind(operand, where)
    if kind is None or kind[0] not in {"number", "string"}:
        raise InvalidInput(f"{where}: {name!r} takes a number or a string")
    return _has(key, kind[0], f"{RANGE_OPERATORS[str(name)]} ?", (kind[1],))


def _equals_any(key: str, values: Sequence[object], where: str) -> Condition:
    by_kind: dict[str, list[SqlValue]] = {}
    for value in values:
        kind = _kind(value, where)
        if kind is None:
            raise InvalidInput(
                f"{where}: a field is compared with a string, a number, a boolean or null; "
                'with one of several by {"in": [..]}'
            )
        by_kind.setdefault(kind[0], []).append(kind[1])
    parts = []
    for name, same_kind in by_kind.items():
        if name == "null":
            parts.append(_is_null(key))
        else:
            marks = ", ".join("?" * len(same_kind))
            parts.append(_has(key, name, f"IN ({marks})", tuple(same_kind)))
    return _join(parts, "OR")


def _kind(value: object, where: str) -> tuple[str, SqlValue] | None:
    if fault := inexact(value):
        raise InvalidInput(f"{where}: {fault}")
    return stored_kind(value)


def _has(key: str, kind: str, test: str, values: tuple[SqlValue, ...]) -> Condition:
    sql = f"(row IN (SELECT row FROM filterable WHERE key = ? AND kind = ? AND value {test}))"  # noqa: S608 - no user text
    return Condition(sql, (key, kind, *values))


def _is_there(key: str) -> Condition:
    return Condition("(row IN (SELECT row FROM filterable WHERE key = ?))", (key,))


def _is_null(key: str) -> Condition:
    """The condition that a field is absent, null, or a list with a null."""
    null = Condition("(row IN (SELECT row FROM filterable WHERE key = ? AND kind = 'null'))", (key,))
    return _join([_not(_is_there(key)), null], "OR")


def _not(condition: Condition) -> Condition:
    return Condition(f"NOT {condition.sql}", condition.values)


def _join(parts: Sequence[Condition], operator: str) -> Condition:
    sql = f" {operator} ".join(part.sql for part in parts)
    return Condition(f"({sql})", tuple(value for part in parts for value in part.values))
