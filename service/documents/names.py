"""Names of collections, ways to search, and a default. Imports nothing slow: settings and commands need it first."""

import re
from typing import Literal

from service.errors import InvalidInput, StorageFull

Mode = Literal["dense", "keywords", "hybrid"]  # of a search
PREFERENCE = 0.12  # added to the score of a document that a query prefers

DEFAULT_NAME = "default"  # of the collection that is always there
LONGEST_NAME = 64
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")


def check_name(name: str) -> None:
    """Raises: InvalidInput: no collection may be named like this."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"a collection's name has 1 to {LONGEST_NAME} characters: letters and digits of English, and . _ - after "
            "the first"
        )


def check_count(name: str, count: int, *, most: int) -> None:
    """Raises: StorageFull: there are too many collections for another one of this name."""
    if count >= most:
        raise StorageFull(
            f"collection {name} cannot be made: there are {count} collections; the limit is {most} "
            "(CROSSLET_MAX_COLLECTIONS): drop one first"
        )


def where(name: str) -> str:
    """Return how a message about a document begins: each collection has ids of its own. Empty for the default one."""
    return "" if name == DEFAULT_NAME else f"collection {name}: "
