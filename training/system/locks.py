"""Locks a folder against other processes."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def wait_for(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, after waiting for the process that has it. The system releases it however that one ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
