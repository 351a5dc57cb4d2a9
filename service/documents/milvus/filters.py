"""Encodes metadata for Milvus, and translates the API's filters to Milvus expressions over it.

Milvus' own JSON comparisons mix types, and its versions disagree about absent keys under `not`. So a row carries two
fields derived from its metadata, and expressions test these alone. They never quote a user's text:

tokens  a digest of each fact: a path exists; it has a value of this type; it has this value
bounds  the least and the greatest element of each path and type, encoded so that they sort as text

Equality is the presence of a token. `not` is pushed down to single tests. A bound is compared only where the token of
its path and type is present.

A range with two bounds asks for one element within both. If the least or the greatest element is, the row matches. If
they lie on either side, an element between them may match; so may any string if a part is asked for (`contains`). Then
the metadata decide.

Of a field with several values the first one, by which documents are grouped, has tokens of its own.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.documents.filters import (
    FieldTests,
    Scalar,
    SqlValue,
    comparable,
    field_tests,
    fields_of,
    to_condition,
)
from service.errors import InvalidInput

SORTED_BYTES = 128  # of a string's UTF-8 are kept: enough to compare it with any shorter string
SORTED_KINDS = {"number", "string"}
NO_VALUES = {"null", "other"}
SEVERAL, FIRST = "several ", "first "  # facts about a field with several values; no type has such a name
NEVER, ALWAYS = "number < 0", "number >= 0"
# Some element is > x if and only if the greatest one is. Operator -> (bound, comparison, comparison under `not`).
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
            elements = [_sortable(element) for its_kind, element in kinds if its_kind == kind]
            tokens.add(slot)
            low[slot], high[slot] = min(elements), max(elements)
        values = [scalar for scalar in kinds if scalar[0] not in NO_VALUES]
        if len(values) > 1:
            kind, value = min(values)
            tokens |= {_token(key, SEVERAL), _token(key, FIRST + kind, value)}
    return Searchable(sorted(tokens), {"low": low, "high": high})


@dataclass(frozen=True)
class RowFilter:
    """A filter as Milvus expressions. sure: rows that match.  unsure: rows whose metadata decide; empty: none."""

    sure: str
    unsure: str = ""


def to_expression(filter_: Mapping[str, object]) -> RowFilter:
    """Return the Milvus expressions of a filter. With the metadata they match what the embedded index matches.

    Raises: InvalidInput: the filter is malformed, or a range has a bound that is too long a string.
    """
    to_condition(filter_)  # validates the filter
    sure = _Translation(is_sure=True).all_of(filter_)
    possible = _Translation(is_sure=False).all_of(filter_)
    if sure == possible:
        return RowFilter(sure)
    not_sure = _Translation(is_sure=False, is_negated=True).all_of(filter_)
    return RowFilter(sure, f"({possible} and {not_sure})")


def both(first: str, second: str) -> str:
    """Return the expression that both hold; an empty one always holds."""
    return f"({first} and {second})" if first and second else first or second


def first_is(field: str, kind: str, value: SqlValue) -> str:
    """Return the expression for rows whose first value of a field, in the order of types and values, is this."""
    key = comparable(field)
    alone = f"({_any_of([_token(key, kind, value)])} and not {_any_of([_token(key, SEVERAL)])})"
    return f"({alone} or {_any_of([_token(key, FIRST + kind, value)])})"


@dataclass(frozen=True)
class _Translation:
    """Translates valid filters, or their negations, to expressions.

    is_sure: for rows that match in any case; otherwise for all that may match.
    """

    is_sure: bool
    is_negated: bool = False

    def all_of(self, filter_: object) -> str:
        """Return the expression of a filter."""
        assert isinstance(filter_, Mapping)  # noqa: S101 - checked by to_condition
        return self._join([self._one(str(key), value) for key, value in filter_.items()], "and")

    @property
    def _negation(self) -> "_Translation":
        return replace(self, is_negated=not self.is_negated)

    def _join(self, parts: Sequence[str], operator: str) -> str:
        """Join by `and` or `or`; under `not` by the other one (De Morgan)."""
        if self.is_negated:
            operator = "or" if operator == "and" else "and"
        return parts[0] if len(parts) == 1 else f"({f' {operator} '.join(parts)})"

    def _one(self, key: str, value: object) -> str:
        if key == "not":
            return self._negation.all_of(value)
        if key in {"and", "or"} and isinstance(value, list):
            return self._join([self.all_of(part) for part in value], key)
        return self._field(comparable(key), field_tests(value))

    def _field(self, key: str, tests: FieldTests) -> str:
        parts: list[str] = []
        if tests.among is not None:
            parts.append(self._equals_any(key, tests.among))
        if tests.bounds:
            parts.append(self._within(key, tests.bounds))
        if tests.substring is not None:
            parts.append(self._may_contain(key))
        if tests.differs_from is not None:
            parts.append(self._negation._equals_any(key, [tests.differs_from]))
        if tests.exists is not None:
            parts.append((self if tests.exists else self._negation)._has([_token(key)]))
        return self._join(parts, "and")

    def _has(self, tokens: Sequence[str]) -> str:
        test = _any_of(tokens)
        return f"(not {test})" if self.is_negated else test

    def _equals_any(self, key: str, scalars: Sequence[Scalar]) -> str:
        wanted = list(dict.fromkeys(_token(key, kind, value) for kind, value in scalars))
        if not wanted:  # nothing is left of `in`: no document
            return self._join([self._has([_token(key)]), self._negation._has([_token(key)])], "and")
        if any(kind == "null" for kind, _ in scalars):  # null also matches an absent field
            return self._join([self._negation._has([_token(key)]), self._has(wanted)], "or")
        return self._has(wanted)

    def _may_contain(self, key: str) -> str:
        """Any string may have a part. Without a string none has."""
        if self.is_sure != self.is_negated:
            return ALWAYS if self.is_negated else NEVER
        return self._has([_token(key, "string")])

    def _within(self, key: str, bounds: Sequence[tuple[str, Scalar]]) -> str:
        slot = _token(key, bounds[0][1][0])
        # The least or the greatest element within both bounds is sure; each bound may also hold for another element.
        if len(bounds) > 1 and self.is_sure != self.is_negated:
            ends = [["low"] * len(bounds), ["high"] * len(bounds)]
        else:
            ends = [[RANGES[name][0] for name, _ in bounds]]
        ways = [
            self._join([self._compared(slot, end, *bound) for end, bound in zip(way, bounds, strict=True)], "and")
            for way in ends
        ]
        return self._join([self._has([slot]), self._join(ways, "or")], "and")

    def _compared(self, slot: str, end: str, name: str, bound: Scalar) -> str:
        _, value = bound
        if isinstance(value, str) and len(value.encode()) >= SORTED_BYTES:
            raise InvalidInput(
                f"the filter's {name!r} compares with a string of {len(value.encode())} bytes; "
                f"the limit is {SORTED_BYTES - 1} where Milvus keeps the documents (CROSSLET_INDEX)"
            )
        _, comparison, opposite = RANGES[name]
        return f'bounds["{end}"]["{slot}"] {opposite if self.is_negated else comparison} "{_sortable(value)}"'


def _any_of(tokens: Sequence[str]) -> str:
    listed = ", ".join(f'"{token}"' for token in tokens)
    return f"array_contains_any(tokens, [{listed}])"


def _token(key: str, kind: str = "", value: SqlValue | None = None) -> str:
    parts = [kind, key]
    if value is not None:
        parts.append(value if isinstance(value, str) else _sortable(value))
    return digest_of(*parts)


def digest_of(*parts: str) -> str:
    """Return a digest of texts. It begins with a letter: a digit could be taken for a position in a JSON path."""
    digest = hashlib.blake2b(digest_size=16)
    for part in map(str.encode, parts):
        digest.update(struct.pack(">Q", len(part)) + part)
    return f"k{digest.hexdigest()}"


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
