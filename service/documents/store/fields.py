"""Lists what filters find of a document's metadata. Knows JSON values and the kinds they are kept as; runs no SQL."""

import math
from collections.abc import Mapping

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1  # SQLite's, and Milvus'

SqlValue = str | int | float
Kinds = set[tuple[str, SqlValue]]

OTHER: tuple[str, SqlValue] = ("other", 0)  # an object or a list in a list: it is there, and equals nothing


def inexact(value: object) -> str | None:
    """Why a number cannot be kept as it is; None: it can, or it is no number."""
    if isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return (
            f"a whole number is beyond 64 bits; those from {SMALLEST_INTEGER} to {LARGEST_INTEGER} are kept exactly, "
            "send a larger one as a string"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return "a number is NaN or infinite, which JSON cannot say; leave it out, or send null"
    return None


def stored_kind(value: object) -> tuple[str, SqlValue] | None:
    """How a scalar is kept in the `fields` table: its kind and an SQL value; None for a list or an object."""
    if value is None:
        return "null", 0
    if isinstance(value, bool):  # before int: True is an int in Python
        return "boolean", int(value)
    if isinstance(value, int | float):
        # Only older stores have larger ones.
        return "number", value if SMALLEST_INTEGER <= value <= LARGEST_INTEGER else float(value)
    return ("string", value) if isinstance(value, str) else None


def fields_of(metadata: Mapping[str, object]) -> dict[str, Kinds]:
    """Every path with the kinds and values at its end, those of a list one by one; never none.

    A path is the keys on the way, joined by dots; it leads through the objects of a list as well. Of two ways with the
    same path the one with the longer first key counts, then the longer second: the key `a.b` goes before `b` in `a`.
    """
    found: dict[str, Kinds] = {}
    waiting: list[tuple[str, list[Mapping[str, object]]]] = [("", [metadata])]
    while waiting:
        prefix, objects = waiting.pop()
        elements_at: dict[str, list[object]] = {}
        for one in objects:
            for key, value in one.items():
                elements_at.setdefault(key, []).extend(value if isinstance(value, list) else [value])
        for key, elements in sorted(elements_at.items(), key=lambda item: len(item[0])):  # the longest is popped first
            kinds = {stored_kind(element) or OTHER for element in elements}
            found.setdefault(prefix + key, kinds or {OTHER})  # an empty list is there, too
            inner: list[Mapping[str, object]] = [element for element in elements if isinstance(element, dict)]
            if inner:
                waiting.append((f"{prefix}{key}.", inner))
    return found
