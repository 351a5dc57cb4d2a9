"""Turns SQLite's errors about damage and full disks into ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from service.errors import Damaged, NotReady, StorageFull

REPAIR = "`crosslet index verify` lists damage, `crosslet index repair` recomputes vectors"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = {  # SQLite's codes for a full disk, quota and shared memory
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}
UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


def damaged_document(id_: str, what: str) -> Damaged:
    """Return the error for a document whose checksum differs. what: the damaged part."""
    name = orjson.dumps(id_).decode()
    return Damaged(f"the {what} of document {name} is damaged on the disk: put it again or delete it ({REPAIR})")


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Convert SQLite's errors about damage, and about a disk that went away.

    Raises: Damaged, NotReady.
    """
    try:
        yield
    except sqlite3.DatabaseError as exc:
        if str(exc).startswith("Could not decode"):  # the message quotes a user's text: keep it out of logs
            raise Damaged(f"document store {path} is damaged on the disk (not UTF-8); {REPAIR}") from None
        code = getattr(exc, "sqlite_errorcode", 0)
        if code & 0xFF in UNREACHABLE and code not in FULL:
            raise NotReady(
                f"document store {path} cannot be reached ({exc}): look at its disk and its permissions (CROSSLET_DATA)"
            ) from exc
        if code & 0xFF not in DAMAGED:
            raise
        raise Damaged(f"document store {path} is damaged on the disk ({exc}); {REPAIR}") from exc


@contextmanager
def unless_full() -> Iterator[None]:
    """Convert SQLite's errors about a full disk.

    Raises: StorageFull: the change was rolled back.
    """
    try:
        yield
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode not in FULL:
            raise
        raise StorageFull("the disk of the document store is full (CROSSLET_DATA); nothing was changed") from exc
