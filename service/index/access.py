"""Who may have the store's file, and how it is opened. Knows lock files; knows nothing about what is in the store."""

import fcntl
from pathlib import Path
from typing import IO

from service.errors import StoreError


def read_mode(path: Path) -> str:
    """A store at rest is read without leaving -wal and -shm files, which its owner may not be able to open."""
    is_open = path.with_name(f"{path.name}-wal").exists()  # as long as a service has it, and after a crash
    return "ro" if is_open else "ro&immutable=1"


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
