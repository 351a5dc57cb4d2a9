"""Names that a mistyped one may mean."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the nearest name, or nothing if none is near."""
    by_lower = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
