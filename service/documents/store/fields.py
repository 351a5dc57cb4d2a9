"""Flattens a document's metadata to the paths, types and values that filters test. Runs no SQL."""

import math
import re
import unicodedata
from collections.abc import Mapping

RULES = f"1-{unicodedata.unidata_version}"  # version of these rules, and of Unicode
MOST_MARKS = 30  # in a row, as in Unicode's Stream-Safe Text Format (UAX #15): NFC takes the square of a run's length
_LONG_RUN = re.compile(rf"([^\w\x00-\x7f]{{{MOST_MARKS + 1},}})")  # a mark is no word character
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1  # limits of SQLite and Milvus

SqlValue = str | int | float
Scalar = tuple[str, SqlValue]  # type and value

OTHER: Scalar = ("other", 0)  # an object, or a list in a list: it exists, but equals nothing


def comparable(text: str) -> str:
    """Return a key or a string as filters compare it: in NFC, so that an é typed as e and an accent is an é.

    A run of more than `MOST_MARKS` marks or symbols stays as it is.
    """
    if text.isascii():
        return text
    parts = _LONG_RUN.split(text)  # each second one is such a run
    parts[::2] = (unicodedata.normalize("NFC", part) for part in parts[::2])
    return "".join(parts)


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
        return "number", value
    return ("string", comparable(value)) if isinstance(value, str) else None


def fields_of(metadata: Mapping[str, object]) -> dict[str, set[Scalar]]:
    """Return every path with the set of (type, value) at its end, which is never empty; a list gives its elements.

    A path is keys, as `comparable` has them, joined by dots; it also leads through objects in a list. If two routes
    give the same path, the one with the longer first key wins, then the longer second: the key `a.b` takes precedence
    over `b` in `a`.
    """
    found: dict[str, set[Scalar]] = {}
    waiting: list[tuple[str, list[Mapping[str, object]]]] = [("", [metadata])]
    while waiting:
        prefix, objects = waiting.pop()
        elements_at: dict[str, list[object]] = {}
        for one in objects:
            for key, value in one.items():
                elements = value if isinstance(value, list) else [value]
                elements_at.setdefault(comparable(key), []).extend(elements)
        for key, elements in sorted(elements_at.items(), key=lambda item: len(item[0])):  # the longest is popped first
            kinds = {stored_kind(element) or OTHER for element in elements}
            found.setdefault(prefix + key, kinds or {OTHER})  # an empty list exists, too
            inner: list[Mapping[str, object]] = [element for element in elements if isinstance(element, dict)]
            if inner:
                waiting.append((f"{prefix}{key}.", inner))
    return found
