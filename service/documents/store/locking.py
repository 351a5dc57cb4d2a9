"""The lock beside a store that one process holds, and the URL where that process answers."""

import fcntl
import os
import re
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path

from service.errors import StoreError, StoreInUse
from service.process.files import PRIVATE, resolved

SERVICE_URL = re.compile(rb"http://([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+")  # what a lock's file may hold

LOCKS = Path("/proc/locks")


def check_lone(path: Path) -> None:
    """Refuse a store that has a second name: SQLite finds its log, and a process its lock, by the name.

    Raises: StoreError.  OSError: there is no file.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"document store {path} is no file; CROSSLET_DATA names its folder")
    if status.st_nlink > 1:
        raise StoreError(
            f"document store {path} has {status.st_nlink} names (hard links), so that two services could change it at "
            "once: remove the others, or put a copy in the place of this one"
        )


def lock_path(path: Path) -> Path:
    """Return the file whose lock is the store's. Links are followed: one store has one lock."""
    return resolved(path).with_suffix(".lock")


def open_private(path: Path) -> int:
    """Open a file for reading and writing, created for its owner alone. Return its descriptor.

    Raises: OSError: it cannot be written, or is a link.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)


def lock_for_this_process(path: Path) -> FileIO:
    """Lock the store while the returned file is open. The system frees the lock however the process ends.

    Raises: StoreError: the folder cannot be written.  StoreInUse: another process has the store.
    """
    target = lock_path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileIO(open_private(target), "r+")
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
    write_url(lock, "")  # removes that of an earlier service
    return lock


def holder_url(path: Path) -> str | None:
    """Return where the service that has the store answers; "": another process has it; None: none on this machine.

    It takes no lock, which could make a service fail to start.
    """
    try:
        with FileIO(lock_path(path)) as lock:
            inode = f":{os.fstat(lock.fileno()).st_ino} "
            held = [line for line in LOCKS.read_text().splitlines() if " FLOCK " in line and inode in line]
            return (_read_url(lock) or "") if held else None  # one that was killed has left its own
    except OSError:
        return None


def write_url(lock: FileIO, url: str) -> None:
    """Tell other processes where the lock's process answers. On a full disk they are not told."""
    with suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.pwrite(lock.fileno(), f"{url} {_network()}".encode() if url else b"", 0)


def _read_url(lock: FileIO) -> str | None:
    """Return where the process with the lock answers; None: it is no service, or one in another container."""
    url, _, network = os.pread(lock.fileno(), 200, 0).partition(b" ")
    is_here = SERVICE_URL.fullmatch(url) and network == _network().encode()
    return url.decode() if is_here else None


def _network() -> str:
    """Name this process' network: in a container's, another service may have the same address."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 - the name is no path
    return ""
