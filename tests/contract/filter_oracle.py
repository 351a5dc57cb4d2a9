"""The meaning of a metadata filter, in plain Python, and metadata and filters that try it."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

KEYS = ["x", "y", "a.b", 'q"\\', "ключ"]
NUMBERS = [0, 1, -1, 2.0, 0.5, -0.5, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 2.0**63, -(2**63), 1e308, -1e-308]
STRINGS = ["", "1", "a", "ab", "b", "ü", "日本", "q\"\\'", "a" * 200, "a" * 200 + "b", "2024-05-01", "\x00", "🙂"]
SCALARS = [None, True, False, *NUMBERS, *STRINGS]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
}

BOUNDS = st.sampled_from([value for value in NUMBERS + STRINGS if len(str(value).encode()) < 100])
RANGES = st.dictionaries(st.sampled_from(list(COMPARE)), BOUNDS, min_size=1, max_size=2)
EQUALS = st.sampled_from(SCALARS)
METADATA = st.dictionaries(st.sampled_from(KEYS), EQUALS | st.lists(EQUALS, max_size=3), max_size=3)
LEAVES = st.dictionaries(
    st.sampled_from(KEYS),
    EQUALS | RANGES | st.lists(EQUALS, min_size=1, max_size=4).map(lambda values: {"in": values}),
    min_size=1,
    max_size=2,
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"and": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"or": parts})
        | inner.map(lambda part: {"not": part})
    ),
    max_leaves=5,
)


def varied_metadata(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Metadata of every kind: scalars, lists of mixed kinds, empty lists, objects, absent keys."""
    rng = random.Random(seed)

    def value() -> Any:
        shape = rng.randrange(6)
        if shape < 4:
            return rng.choice(SCALARS)
        return [rng.choice(SCALARS) for _ in range(rng.randrange(4))] if shape == 4 else {"nested": [1, {"x": None}]}

    return [{key: value() for key in rng.sample(KEYS, rng.randrange(len(KEYS) + 1))} for _ in range(count)]


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
    held = metadata.get(key)
    elements = held if isinstance(held, list) else [held]
    if not isinstance(value, dict):
        return any(_same(element, value) for element in elements)
    return all(_holds(name, bound, elements) for name, bound in value.items())


def _holds(name: str, bound: Any, elements: list[Any]) -> bool:
    if name == "in":
        return any(_same(element, wanted) for element in elements for wanted in bound)
    return any(
        _kind(element) == _kind(bound) in ("number", "string") and COMPARE[name](element, bound) for element in elements
    )


def _same(left: object, right: object) -> bool:
    return _kind(left) == _kind(right) != "other" and left == right


def _kind(value: object) -> str:
    kinds: dict[type, str] = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string"}
    return kinds.get(type(value), "other")
