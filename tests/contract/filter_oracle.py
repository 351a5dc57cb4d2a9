"""The meaning of a metadata filter, in plain Python, and metadata and filters that try it."""

import random
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

KEYS = ["x", "y", "a", "a.b", 'q"\\', "ключ", "é", "e\u0301"]
INNER_KEYS = ["b", "b.c", "c", "x", ""]
PATHS = [
    *(*KEYS, "é.b", "e\u0301.b", "a.b.c", "a.x", "a.", "x.b", "x.b.c", "x.b.x"),
    *("y.c", "y.x.x", "ключ.b", ".", "a..b"),
]
NUMBERS = [0, 1, -1, 2.0, 0.5, -0.5, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 2.0**63, -(2**63), 1e308, -1e-308]
STRINGS = [
    *("", "1", "a", "ab", "b", "ü", "日本", "q\"\\'", "a" * 200, "a" * 200 + "b", "2024-05-01", "\x00", "🙂"),
    *("é", "e\u0301", "한글", "\u1112\u1161\u11ab글", "Straße %_", "ΣΊΣΥΦΟΣ", "σίσυφος"),
]
PARTS = [*STRINGS, "A", "SS", "É", "E\u0301", 'Q"\\', "05"]
SCALARS = [None, True, False, *NUMBERS, *STRINGS]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
}

BOUNDS = [NUMBERS, [value for value in STRINGS if len(value.encode()) < 100]]  # of one type in a range
RANGES = st.sampled_from(BOUNDS).flatmap(
    lambda values: st.dictionaries(st.sampled_from(list(COMPARE)), st.sampled_from(values), min_size=1, max_size=4)
)
EQUALS = st.sampled_from(SCALARS)
NESTED = st.recursive(
    EQUALS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER_KEYS), inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(st.sampled_from(KEYS), NESTED, max_size=3)
OPERATORS: list[st.SearchStrategy[dict[str, Any]]] = [
    RANGES,
    st.lists(EQUALS, min_size=1, max_size=4).map(lambda values: {"in": values}),
    EQUALS.map(lambda value: {"ne": value}),
    st.booleans().map(lambda value: {"exists": value}),
    st.sampled_from([text for text in PARTS if text]).map(lambda part: {"contains": part}),
]


def filters_of(operators: Sequence[st.SearchStrategy[dict[str, Any]]]) -> st.SearchStrategy[dict[str, Any]]:
    """Filters that have these operators, alone and together."""
    together = st.tuples(*operators, st.sets(st.sampled_from(range(len(operators))), min_size=2)).map(
        lambda drawn: {name: value for at in sorted(drawn[-1]) for name, value in drawn[at].items()}
    )
    leaves = st.dictionaries(st.sampled_from(PATHS), EQUALS | st.one_of(operators) | together, min_size=1, max_size=2)
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"and": parts})
            | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"or": parts})
            | inner.map(lambda part: {"not": part})
        ),
        max_leaves=5,
    )


FILTERS = filters_of(OPERATORS)


def varied_metadata(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Metadata of every kind: scalars, lists of mixed kinds, empty lists, objects, lists of objects, absent keys."""
    rng = random.Random(seed)

    def value(depth: int) -> Any:
        shape = rng.randrange(8 if depth < 4 else 4)
        if shape < 4:
            return rng.choice(SCALARS)
        if shape < 6:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {key: value(depth + 1) for key in rng.sample(INNER_KEYS, rng.randrange(len(INNER_KEYS)))}

    return [{key: value(0) for key in rng.sample(KEYS, rng.randrange(len(KEYS) + 1))} for _ in range(count)]


def matches(filter_: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a filter selects a document."""
    return all(_matches_one(key, value, metadata) for key, value in filter_.items())


def _matches_one(key: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if key == "and":
        return all(matches(part, metadata) for part in value)
    if key == "or":
        return any(matches(part, metadata) for part in value)
    if key == "not":
        return not matches(value, metadata)
    held = _held([metadata], _nfc(key))
    if not isinstance(value, dict):
        value = {"in": [value]}
    if "exists" in value and (held is not None) != value["exists"]:
        return False
    elements = [None] if held is None else held
    if "ne" in value and any(_same(element, value["ne"]) for element in elements):
        return False
    of_one = {name: bound for name, bound in value.items() if name in {"in", "contains", *COMPARE}}
    return not of_one or any(all(_holds(*test, element) for test in of_one.items()) for element in elements)


def _held(objects: list[Mapping[str, Any]], path: str) -> list[Any] | None:
    """What is at the end of a path from some objects, lists taken apart; None: it leads nowhere.

    The longest first key is tried first, and the next one where the rest of the path leads nowhere.
    """
    dots = [place for place, character in enumerate(path) if character == "."]
    for end in [len(path), *reversed(dots)]:
        values = [value for one in objects for key, value in one.items() if _nfc(key) == path[:end]]
        elements = [element for value in values for element in (value if isinstance(value, list) else [value])]
        if values and end == len(path):
            return elements
        inner = [element for element in elements if isinstance(element, dict)]
        if inner and (held := _held(inner, path[end + 1 :])) is not None:
            return held
    return None


def _holds(name: str, bound: Any, element: Any) -> bool:
    if name == "in":
        return any(_same(element, wanted) for wanted in bound)
    if name == "contains":
        return isinstance(element, str) and _folded(bound) in _folded(element)
    left, right = _nfc(element), _nfc(bound)
    return _kind(left) == _kind(right) in ("number", "string") and COMPARE[name](left, right)


def _same(left: object, right: object) -> bool:
    return _kind(left) == _kind(right) != "other" and bool(_nfc(left) == _nfc(right))


def _nfc(value: Any) -> Any:
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _kind(value: object) -> str:
    kinds: dict[type, str] = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string"}
    return kinds.get(type(value), "other")
