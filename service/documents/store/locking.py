"""Who may have the store's file, and how it is opened. Knows lock files; knows nothing about what is in the store."""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import IO

from service.errors import StoreError

CACHED_STATEMENTS = 16  # a connection; each filter is its own statement, and a large one takes a megabyte


def read_mode(path: Path) -> str:
    """How to open a store that is only read: so that a service may have it, or start meanwhile.

    Where the log cannot be made as the store's owner would make it, a store at rest is read as it lies: its owner could
    not open a log of ours. Nobody should write it meanwhile.
    """
    is_open = path.with_name(f"{path.name}-wal").exists()  # as long as a service has it, and after a crash
    return "ro" if is_open or _is_ours(path) else "ro&immutable=1"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a store, for any thread. mode: of SQLite's URIs."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
        cached_statements=CACHED_STATEMENTS,
    )


def _is_ours(path: Path) -> bool:
    """Whether files that this process makes beside the store are its owner's; those of root are given to the owner."""
    try:
        return os.geteuid() in {0, path.stat().st_uid} and os.access(path.parent, os.W_OK)
    except OSError:
        return False


def lock_for_this_process(path: Path) -> IO[bytes]:
    """Hold a lock file as long as the store is open; the system frees it when the process ends, however it ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("ab")
    except OSError as exc:
        raise StoreError(f"folder {path.parent} cannot be written ({exc.strerror}); set CROSSLET_DATA") from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        lock.close()
        raise StoreError(f"document store {path} is in use by another process (CROSSLET_DATA)") from exc
    return lock
