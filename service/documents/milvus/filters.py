"""Encodes metadata for Milvus, and translates the API's filters to Milvus expressions over it.

A row has two fields derived from its metadata:
tokens  digests, one for each fact: the path exists; it has a value of this type; it has this value
bounds  for each path and type, the smallest and the largest element, encoded so that they sort as text

Milvus' own JSON comparisons mix types, and its versions disagree about absent keys under `not`. Here equality is the
presence of a token, and `not` is pushed down to single tests. A bound is compared only together with the token that
says it exists. Expressions hold only digests and hexadecimal digits: they never quote a user's text.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.documents.filters import to_condition
from service.documents.store.fields import SqlValue, fields_of, stored_kind
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


def to_expression(filter_: Mapping[str, object]) -> str:
    """Return the Milvus expression of a filter. It matches exactly what the embedded index matches.

    Raises: InvalidInput: the filter is malformed, or a range has a bound that is too long a string.
    """
    to_condition(filter_)  # validates the filter
    return _all_of(filter_, is_negated=False)


def _all_of(node: object, *, is_negated: bool) -> str:
    assert isinstance(node, Mapping)  # noqa: S101 - checked by to_condition
    parts = [_one(str(key), value, is_negated=is_negated) for key, value in node.items()]
    return _join(parts, "or" if is_negated else "and")


def _one(key: str, value: object, *, is_negated: bool) -> str:
    if key == "not":
        return _all_of(value, is_negated=not is_negated)
    if key in {"and", "or"} and isinstance(value, list):
        parts = [_all_of(part, is_negated=is_negated) for part in value]
        return _join(parts, "and" if (key == "and") != is_negated else "or")  # De Morgan
    if not isinstance(value, Mapping):
        return _equals_any(key, [value], is_negated=is_negated)
    parts = [_operator(key, str(name), operand, is_negated=is_negated) for name, operand in value.items()]
    return _join(parts, "or" if is_negated else "and")


def _operator(key: str, name: str, operand: object, *, is_negated: bool) -> str:
    if isinstance(operand, list):
        return _equals_any(key, operand, is_negated=is_negated)
    if name == "ne":
        return _equals_any(key, [operand], is_negated=not is_negated)
    if name == "exists":
        return _lacks([_token(key)]) if is_negated == operand else _has([_token(key)])
    kind, value = _kind(operand)
    if isinstance(value, str) and len(value.encode()) >= SORTED_BYTES:
        raise InvalidInput(
            f"the filter's {name!r} compares with a string of {len(value.encode())} bytes; "
            f"the limit is {SORTED_BYTES - 1} where Milvus keeps the documents (CROSSLET_INDEX)"
        )
    end, comparison, opposite = RANGES[name]
    slot = _token(key, kind)
    bound = f'bounds["{end}"]["{slot}"]'
    if is_negated:
        return f'({_lacks([slot])} or {bound} {opposite} "{_sortable(value)}")'
    return f'({_has([slot])} and {bound} {comparison} "{_sortable(value)}")'


def _equals_any(key: str, values: Sequence[object], *, is_negated: bool) -> str:
    kinds = dict.fromkeys(_kind(value) for value in values)
    wanted = list(dict.fromkeys(_token(key, kind, value) for kind, value in kinds))
    if not any(kind == "null" for kind, _ in kinds):
        return _lacks(wanted) if is_negated else _has(wanted)
    if is_negated:
        return f"({_has([_token(key)])} and {_lacks(wanted)})"
    return f"({_lacks([_token(key)])} or {_has(wanted)})"  # null also matches an absent field


def _kind(value: object) -> tuple[str, SqlValue]:
    kind = stored_kind(value)
    assert kind is not None  # noqa: S101 - checked by to_condition
    return kind


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
