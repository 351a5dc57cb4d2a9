"""What the disk gives otherwise than it was stored, in words. Knows how SQLite says so; opens no file."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from service.errors import Damaged

REPAIR = "`crosslet index verify` lists what is damaged, `crosslet index repair` puts vectors right"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damaged_document(id_: str, what: str) -> Damaged:
    """The error for a document of which a checksum differs.  what: the part of it."""
    name = orjson.dumps(id_).decode()
    return Damaged(f"the {what} of document {name} is damaged on the disk: put it again, or delete it ({REPAIR})")


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """SQLite's own finds of damage, in our words.

    Raises: Damaged.
    """
    try:
        yield
    except sqlite3.DatabaseError as exc:
        if str(exc).startswith("Could not decode"):  # the rest of it is a user's text: no log may have it
            raise Damaged(f"document store {path} is damaged on the disk (no UTF-8); {REPAIR}") from None
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF not in DAMAGED:
            raise
        raise Damaged(f"document store {path} is damaged on the disk ({exc}); {REPAIR}") from exc
