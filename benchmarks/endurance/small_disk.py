"""A file system of a few megabytes in memory, to be filled or made read-only. Knows mount and unshare; knows no store.

Mounting needs a process with mounts of its own: `own_mounts` is the command that starts one. It needs no rights where
the system lets everybody have a user namespace (Ubuntu 23.10 and later do not; there run it as root).
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BALLAST = "ballast"


def own_mounts(command: Sequence[str]) -> list[str]:
    """A command in namespaces of its own: its mounts are seen by it and its children, and end with them."""
    return ["unshare", "--user", "--map-root-user", "--mount", *command]


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        _mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder))

    def fill(self, *, but_for: int) -> None:
        """Leave so many bytes, rounded to pages."""
        status = os.statvfs(self.folder)
        size_bytes = max(0, status.f_bavail * status.f_bsize - but_for)
        with (self.folder / BALLAST).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size_bytes))

    def empty(self) -> None:
        """Give the room back."""
        (self.folder / BALLAST).unlink()

    def unmount(self) -> None:
        """End it, and with it what it holds."""
        subprocess.run(["umount", str(self.folder)], check=True)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Refuse all writes."""
        _mount("-o", "remount,ro", str(self.folder))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", str(self.folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
