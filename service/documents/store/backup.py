"""Copies a document store to a file while a service uses it. Knows pages, not documents."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from service.documents.store.connections import FULL, connect, read_mode
from service.errors import StorageFull, StoreError
from service.process.files import create_anew

PAGES_A_STEP = 1024  # 4 MiB; a copy can be stopped between two steps


def back_up(
    store: Path,
    target: Path,
    *,
    advance: Callable[[int, int], object] = lambda done_bytes, all_bytes: None,
    mode: str | None = None,
) -> None:
    """Copy the store as it is at this moment, log included, into one file without a log of its own.

    Writers go on: one read transaction spans the copy. Without it, SQLite would begin anew after each change. What they
    write meanwhile stays in their log until the copy is complete.

    Args:   target: replaced by a file that only its owner may read; removed if the copy fails.
            advance: called after each step with the bytes copied and of all; what it raises ends the copy.
            mode: of SQLite's URI, to read the store; None: as a service may be using it.
    Raises: StorageFull: the target does not fit on its disk.  StoreError: the store cannot be read.
    """
    create_anew(target)
    try:
        with closing(connect(store, mode or read_mode(store))) as source:
            _copy(source, target, advance)
    except BaseException as exc:
        target.unlink(missing_ok=True)
        if not isinstance(exc, sqlite3.Error):
            raise
        if getattr(exc, "sqlite_errorcode", 0) in FULL:
            raise StorageFull(f"the disk of {target} is full; the copy was removed") from exc
        raise StoreError(f"{store} cannot be copied as a document store ({exc})") from exc


def _copy(source: sqlite3.Connection, target: Path, advance: Callable[[int, int], object]) -> None:
    source.execute("BEGIN")
    source.execute("SELECT value FROM store WHERE key = 'revision'").fetchone()  # the first read fixes the snapshot
    page_bytes, pages = (int(source.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "page_count"))
    free_bytes = shutil.disk_usage(target.parent).free
    if free_bytes < pages * page_bytes:
        raise StorageFull(f"a copy takes {pages * page_bytes} bytes; the disk of {target} has {free_bytes} free")

    def progress(_status: int, remaining: int, total: int) -> None:
        advance((total - remaining) * page_bytes, total * page_bytes)

    with closing(connect(target, "rw")) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # a copy that fails is removed
        copy.execute("PRAGMA synchronous = OFF")
        source.backup(copy, pages=PAGES_A_STEP, progress=progress)
        copy.execute("PRAGMA journal_mode = DELETE")  # the copied header asks for a log
