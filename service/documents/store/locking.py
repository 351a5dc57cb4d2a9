"""Locks the store's file for one process, and opens connections to it."""

import fcntl
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from service.errors import StoreError, StoreInUse
from service.process.files import PRIVATE, resolved

STEPS_A_LOOK = 100_000  # of SQLite's machine, some milliseconds, until a look-up looks at the clock
SERVICE_URL = re.compile(rb"http://([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+")  # what the file of a lock may hold
CACHED_STATEMENTS = 16  # per connection; each filter is a statement of its own, and a large one takes a megabyte


def read_mode(path: Path) -> str:
    """Return the mode for reading a store that a service may be using, or start to use meanwhile.

    A reader with other rights than the store's owner must not create the log: the owner could not open it. It then
    reads an unused store as immutable, which assumes that nobody writes meanwhile.
    """
    is_open = path.with_name(f"{path.name}-wal").exists()  # a service is using it, or has crashed
    return "ro" if is_open or _is_ours(path) else "ro&immutable=1"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a store, usable from any thread. mode: of SQLite's URI."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
        cached_statements=CACHED_STATEMENTS,
    )


@contextmanager
def given_up_at(connection: sqlite3.Connection, until: float) -> Iterator[None]:
    """Whatever the connection reads is given up at a time of `time.monotonic`.

    Raises: TimeoutError.
    """
    connection.set_progress_handler(lambda: time.monotonic() > until, STEPS_A_LOOK)
    try:
        yield
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        raise TimeoutError from exc
    finally:
        connection.set_progress_handler(None, 0)


def _is_ours(path: Path) -> bool:
    """Return whether the store's owner can use files that this process creates; SQLite gives root's to the owner."""
    try:
        return os.geteuid() in {0, path.stat().st_uid} and os.access(path.parent, os.W_OK)
    except OSError:
        return False


def check_lone(path: Path) -> None:
    """Refuse a store that has a second name: SQLite finds its log, and a process its lock, by the name.

    Raises: StoreError.  OSError: there is none.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"document store {path} is no file; CROSSLET_DATA names its folder")
    if found.st_nlink > 1:
        raise StoreError(
            f"document store {path} has {found.st_nlink} names (hard links), so that two services could change it at "
            "once: remove the others, or put a copy in the place of this one"
        )


def lock_path(path: Path) -> Path:
    """The file whose lock is the store's. Links are followed: one store has one lock."""
    return resolved(path).with_suffix(".lock")


def lock_for_this_process(path: Path) -> IO[bytes]:
    """Lock the store while the returned file is open. The system frees the lock however the process ends.

    Raises: StoreError: the folder cannot be written.  StoreInUse: another process has the store.
    """
    target = lock_path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE), "r+b", 0)
    except OSError as exc:
        raise StoreError(f"folder {target.parent} cannot be written ({exc.strerror}); set CROSSLET_DATA") from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        url = _read_url(lock)
        lock.close()
        holder = f"the service at {url}" if url else "another process"
        raise StoreInUse(
            f"document store {path} is in use by {holder} (CROSSLET_DATA): stop the service first", url=url
        ) from exc
    write_url(lock, "")  # that of an earlier service
    return lock


def write_url(lock: IO[bytes], url: str) -> None:
    """Tell other processes where the one with the lock answers. On a full disk they are not told."""
    with suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.pwrite(lock.fileno(), f"{url} {_network()}".encode() if url else b"", 0)


def _read_url(lock: IO[bytes]) -> str | None:
    """Return where the process with the lock answers; None: it is no service, or one in another container."""
    url, _, network = os.pread(lock.fileno(), 200, 0).partition(b" ")
    is_here = SERVICE_URL.fullmatch(url) and network == _network().encode()
    return url.decode() if is_here else None


def _network() -> str:
    """Name this process' network: in a container's, another service may have the same address."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 - the name is no path
    return ""
