"""What the disk refuses, or gives otherwise than it was stored, in words. Knows how SQLite says so; opens no file."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from service.errors import Damaged, StorageFull

REPAIR = "`crosslet index verify` lists what is damaged, `crosslet index repair` puts vectors right"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = {  # how SQLite calls a disk, a quota and a shared memory without room
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


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


@contextmanager
def unless_full() -> Iterator[None]:
    """A change that the disk has no room for, in our words.

    Raises: StorageFull: nothing of the change was kept.
    """
    try:
        yield
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode not in FULL:
            raise
        raise StorageFull("the disk of the document store is full (CROSSLET_DATA); nothing was changed") from exc
