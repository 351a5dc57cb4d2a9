"""Translates the API's metadata filters to SQL conditions on the `fields` table. Runs nothing.

{"lang": "de"} · {"year": {"gte": 2020, "lt": 2024}} · {"tag": {"in": ["a", "b"]}} · {"lang": {"ne": "de"}} ·
{"lang": {"exists": true}} · {"source.site": "x"} · {"and": [..]} · {"or": [..]} · {"not": {..}}

Several keys in one object are joined by "and". A list in the metadata matches if one of its elements does: the same one
for `in` and both bounds of a range. null matches a field that is null or absent. `ne` is the negation of equality, over
all elements. Types are never converted: 1 is not "1" or true. Keys and strings are compared as `comparable` has them.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.documents.store.fields import Scalar, SqlValue, comparable, inexact, stored_kind
from service.errors import InvalidInput

MAX_DEPTH = 16
MAX_TERMS = 1000  # operators plus values
RANGE_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
OPERATORS = f"in, ne, exists, {', '.join(RANGE_OPERATORS)}"
# Before a query with a condition; its first value is the collection's number.
FILTERABLE = "WITH filterable AS NOT MATERIALIZED (SELECT key, kind, value, row FROM fields WHERE collection = ?)"


@dataclass(frozen=True)
class FieldTests:
    """What a filter asks of one field.

    among: an element equals one of these; None: that is not asked. An absent field has one element, null.
    bounds: comparisons that hold for one element, all of one type: at most one from below and one from above.
    differs_from: no element equals this.  exists: whether the field is there.
    """

    among: tuple[Scalar, ...] | None = None
    bounds: tuple[tuple[str, Scalar], ...] = ()
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
    _check_size(filter_)
    return _all_of(filter_, "filter")


def fields_in(filter_: object) -> list[str]:
    """Return the fields that a valid filter tests, in its order; none for None."""
    found: list[str] = []
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key in {"and", "or"} and isinstance(value, list):
            found += [name for part in value for name in fields_in(part)]
        elif key == "not":
            found += fields_in(value)
        else:
            found.append(comparable(str(key)))
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
    key, tests = comparable(key), field_tests(value, where)
    parts: list[Condition] = []
    if tests.among is not None:
        parts.append(_equals_any(key, tests.among))
    if tests.bounds:
        compared = " AND value ".join(f"{RANGE_OPERATORS[name]} ?" for name, _ in tests.bounds)
        (kind, *_), values = zip(*(bound for _, bound in tests.bounds), strict=True)
        parts.append(_has(key, kind, compared, values))
    if tests.differs_from is not None:
        parts.append(_not(_equals_any(key, [tests.differs_from])))
    if tests.exists is not None:
        parts.append(_is_there(key) if tests.exists else _not(_is_there(key)))
    return _join(parts, "AND")


def field_tests(value: object, where: str = "filter") -> FieldTests:
    """Return what a filter asks of a field, without what its other tests imply.

    Raises: InvalidInput: the operators or their operands are malformed; the message names the place, never a value.
    """
    if not isinstance(value, Mapping):
        return FieldTests(among=(_scalar(value, where),))
    if not value or not value.keys() <= RANGE_OPERATORS.keys() | {"in", "ne", "exists"}:
        raise InvalidInput(f"{where}: a field's operators must be at least one of {OPERATORS}, and no others")
    among: tuple[Scalar, ...] | None = None
    if "in" in value:
        if not isinstance(value["in"], list) or not value["in"]:
            raise InvalidInput(f"{where}: 'in' takes a list with at least one value")
        among = tuple(_scalar(one, where) for one in value["in"])
    differs_from = _scalar(value["ne"], where) if "ne" in value else None
    exists = value.get("exists")
    if "exists" in value and not isinstance(exists, bool):
        raise InvalidInput(f"{where}: 'exists' takes true or false")
    bounds = _bounds({str(name): bound for name, bound in value.items() if name in RANGE_OPERATORS}, where)
    if among is not None:
        among = tuple(one for one in among if all(_is_within(one, *bound) for bound in bounds))
        bounds = ()
    return FieldTests(among, bounds, differs_from, exists)


def _bounds(given: Mapping[str, object], where: str) -> tuple[tuple[str, Scalar], ...]:
    """Return the narrowest lower and the narrowest upper bound."""
    bounds: list[tuple[str, Scalar]] = []
    for name, operand in given.items():
        bound = _scalar(operand, where)
        if bound[0] not in {"number", "string"}:
            raise InvalidInput(f"{where}: {name!r} takes a number or a string")
        bounds.append((name, bound))
    if len({kind for _, (kind, _) in bounds}) > 1:
        raise InvalidInput(f"{where}: the bounds of a range must be all numbers or all strings; types never mix")
    below = [bound for bound in bounds if bound[0] in {"gt", "gte"}]
    above = [bound for bound in bounds if bound[0] in {"lt", "lte"}]
    narrowest = [max(below, key=lambda bound: (bound[1], bound[0] == "gt"), default=None)]
    narrowest.append(min(above, key=lambda bound: (bound[1], bound[0] != "lt"), default=None))
    return tuple(bound for bound in narrowest if bound is not None)


def _is_within(element: Scalar, name: str, bound: Scalar) -> bool:
    (kind, value), (wanted, limit) = element, bound
    return kind == wanted and COMPARISONS[name](value, limit)


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
    parts = [Condition("(0)")] if not by_kind else []  # nothing is left of them: no document
    for kind, values in by_kind.items():
        if kind == "null":
            parts.append(_is_null(key))
        else:
            marks = ", ".join("?" * len(values))
            parts.append(_has(key, kind, f"IN ({marks})", tuple(values)))
    return _join(parts, "OR")


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
