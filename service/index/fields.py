"""Lists what filters find of a document's metadata. Knows JSON values and the kinds they are kept as; runs no SQL."""

import math

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1  # SQLite's, and Milvus'

SqlValue = str | int | float


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


def stored_kinds(value: object) -> set[tuple[str, SqlValue]]:
    """The rows of the `fields` table for one metadata value: one an element of a list, never none."""
    elements = value if isinstance(value, list) else [value]
    kinds = {stored_kind(element) or ("other", 0) for element in elements}
    return kinds or {("other", 0)}  # an empty list is present, and matches nothing
