"""Encodes metadata for Milvus, and translates the API's filters to Milvus expressions over it.

A row has two fields derived from its metadata:
tokens  digests, one for each fact: the path exists; it has a value of this type; it has this value
bounds  for each path and type, the smallest and the largest element, encoded so that they sort as text

Milvus' own JSON comparisons mix types, and its versions disagree about absent keys under `not`. Here equality is the
presence of a token, and `not` is pushed down to single tests. A bound is compared only together with the token that
says it exists. Expressions hold only digests and hexadecimal digits: they never quote a user's text.

Two bounds hold for one element. If the smallest or the largest element is within both, the row matches; if these two
are on either side, an element between them may match. Only the metadata says so: `selected` reads them.
"""

import hashlib
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import orjson

from service.documents.filters import (
    FILTERABLE,
    FieldTests,
    Scalar,
    SqlValue,
    comparable,
    field_tests,
    fields_in,
    fields_of,
    to_condition,
)
from service.documents.store.schema import DEFAULT, FIELDS
from service.errors import InvalidInput

SORTED_BYTES = 128  # prefix of a string's UTF-8; orders it correctly against any shorter string
SORTED_KINDS = {"number", "string"}
# Some element is > x if and only if the largest one is. The last entry is the comparison under `not`.
RANGES = {"gt": ("high", ">", "<="), "gte": ("high", ">=", "<"), "lt": ("low", "<", ">="), "lte": ("low", "<=", ">")}


@dataclass(frozen=True)
class Searchable:
    """The filterable form of one document's metadata."""

    tokens: list[str]
    bounds: dict[str, dict[str, str]]


def searchable(metadata: Mapping[str, object]) -> Searchable:
    """Return the tokens and bounds of a document's metadata."""
    tokens: set[str] = set()
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for key, kinds in fields_of(metadata).items():
        tokens.add(_token(key))
        tokens.update(_token(key, kind, element) for kind, element in kinds if kind != "other")
        for kind in SORTED_KINDS & {kind for kind, _ in kinds}:
            slot = _token(key, kind)
            elements = [_sortable(element) for other, element in kinds if other == kind]
            tokens.add(slot)
            low[slot], high[slot] = min(elements), max(elements)
    return Searchable(sorted(tokens), {"low": low, "high": high})


@dataclass(frozen=True)
class RowFilter:
    """A filter as Milvus expressions: `sure` rows match; of `unsure` ones the metadata decide. "": there are none."""

    sure: str
    unsure: str = ""


def to_expression(filter_: Mapping[str, object]) -> RowFilter:
    """Return the Milvus expressions of a filter. With `selected` they match what the embedded index matches.

    Raises: InvalidInput: the filter is malformed, or a range has a bound that is too long a string.
    """
    to_condition(filter_)  # validates the filter
    sure, possible = (_all_of(filter_, is_negated=False, is_sure=is_sure) for is_sure in (True, False))
    if sure == possible:
        return RowFilter(sure)
    not_sure = _all_of(filter_, is_negated=True, is_sure=False)
    return RowFilter(sure, f"({possible} and {not_sure})")


def selected(filter_: Mapping[str, object], documents: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the ids of the documents whose metadata match a filter, by the SQL of the embedded index."""
    condition, tested = to_condition(filter_), {*fields_in(filter_)}
    ids = list(documents)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(FIELDS)
        for row, metadata in enumerate(documents.values()):
            found = {path: scalars for path, scalars in fields_of(metadata).items() if path in tested}
            values = ((DEFAULT, path, *scalar, row) for path, scalars in found.items() for scalar in scalars)
            connection.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)", values)
        rows = orjson.dumps([*range(len(ids))]).decode()
        query = f"{FILTERABLE} SELECT row FROM (SELECT value AS row FROM json_each(?)) WHERE {condition.sql}"  # noqa: S608
        matching = connection.execute(query, (DEFAULT, rows, *condition.values)).fetchall()
    return [ids[row] for (row,) in matching]


def _all_of(node: object, *, is_negated: bool, is_sure: bool) -> str:
    """Return an expression for all rows that may match, or, if `is_sure`, for those that do in any case."""
    assert isinstance(node, Mapping)  # noqa: S101 - checked by to_condition
    parts = [_one(str(key), value, is_negated=is_negated, is_sure=is_sure) for key, value in node.items()]
    return _join(parts, "or" if is_negated else "and")


def _one(key: str, value: object, *, is_negated: bool, is_sure: bool) -> str:
    if key == "not":
        return _all_of(value, is_negated=not is_negated, is_sure=is_sure)
    if key in {"and", "or"} and isinstance(value, list):
        parts = [_all_of(part, is_negated=is_negated, is_sure=is_sure) for part in value]
        return _join(parts, "and" if (key == "and") != is_negated else "or")  # De Morgan
    return _field(comparable(key), field_tests(value), is_negated=is_negated, is_sure=is_sure)


def _field(key: str, tests: FieldTests, *, is_negated: bool, is_sure: bool) -> str:
    parts: list[str] = []
    if tests.among is not None:
        parts.append(_equals_any(key, tests.among, is_negated=is_negated))
    if tests.bounds:
        parts.append(_within(key, tests.bounds, is_negated=is_negated, is_sure=is_sure))
    if tests.differs_from is not None:
        parts.append(_equals_any(key, [tests.differs_from], is_negated=not is_negated))
    if tests.exists is not None:
        parts.append(_lacks([_token(key)]) if is_negated == tests.exists else _has([_token(key)]))
    return _join(parts, "or" if is_negated else "and")


def _within(key: str, bounds: Sequence[tuple[str, Scalar]], *, is_negated: bool, is_sure: bool) -> str:
    slot = _token(key, bounds[0][1][0])
    each = [("low", *bound) for bound in bounds], [("high", *bound) for bound in bounds]
    nearest = [(RANGES[name][0], name, bound) for name, bound in bounds]
    # One element within both bounds is sure of the smallest or the largest alone; that none is, of these two sides.
    ways = each if len(bounds) > 1 and is_sure != is_negated else [nearest]
    outer, inner = ("and", "or") if is_negated else ("or", "and")
    within = _join(
        [_join([_compared(slot, *test, is_negated=is_negated) for test in way], inner) for way in ways], outer
    )
    return f"({_lacks([slot])} or {within})" if is_negated else f"({_has([slot])} and {within})"


def _compared(slot: str, end: str, name: str, bound: Scalar, *, is_negated: bool) -> str:
    _, value = bound
    if isinstance(value, str) and len(value.encode()) >= SORTED_BYTES:
        raise InvalidInput(
            f"the filter's {name!r} compares with a string of {len(value.encode())} bytes; "
            f"the limit is {SORTED_BYTES - 1} where Milvus keeps the documents (CROSSLET_INDEX)"
        )
    _, comparison, opposite = RANGES[name]
    return f'bounds["{end}"]["{slot}"] {opposite if is_negated else comparison} "{_sortable(value)}"'


def _equals_any(key: str, scalars: Sequence[Scalar], *, is_negated: bool) -> str:
    wanted = list(dict.fromkeys(_token(key, kind, value) for kind, value in scalars))
    if not wanted:  # nothing is left of `in`: no document
        return f"({_has([_token(key)])} {'or' if is_negated else 'and'} {_lacks([_token(key)])})"
    if not any(kind == "null" for kind, _ in scalars):
        return _lacks(wanted) if is_negated else _has(wanted)
    if is_negated:
        return f"({_has([_token(key)])} and {_lacks(wanted)})"
    return f"({_lacks([_token(key)])} or {_has(wanted)})"  # null also matches an absent field


def _has(tokens: Sequence[str]) -> str:
    listed = ", ".join(f'"{token}"' for token in tokens)
    return f"array_contains_any(tokens, [{listed}])"


def _lacks(tokens: Sequence[str]) -> str:
    return f"(not {_has(tokens)})"


def _join(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {operator} '.join(parts)})"


def _token(key: str, kind: str = "", value: SqlValue | None = None) -> str:
    """Return the digest of a fact. It begins with a letter: a digit could be taken for a position in a JSON path."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(key, kind, value):
        digest.update(struct.pack(">Q", len(part)) + part)
    return f"k{digest.hexdigest()}"


def _parts(key: str, kind: str, value: SqlValue | None) -> Iterator[bytes]:
    yield kind.encode()
    yield key.encode()
    if value is not None:
        yield value.encode() if isinstance(value, str) else _sortable(value).encode()


def _sortable(value: SqlValue) -> str:
    """Encode a value as hexadecimal digits that sort like the values, within a type; of a string, its first bytes."""
    if isinstance(value, str):
        return value.encode()[:SORTED_BYTES].hex()
    nearest = float(value) + 0.0  # -0.0 is 0.0
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest))
    bits ^= (1 << 64) - 1 if bits >> 63 else 1 << 63  # makes IEEE 754 bits sort like their values
    # Large integers are not exact floats: the rounding error, at most 512 for 64 bits, is appended.
    lost = value - int(nearest) if isinstance(value, int) else 0
    return f"{bits:016x}{lost + 0x800:03x}"
