"""A tmpfs of a few megabytes that can be filled or made read-only.

Mounting needs a process in its own mount namespace; `own_mounts` makes the command that starts one. It needs no
privileges where unprivileged user namespaces are allowed. Ubuntu 23.10 and later restrict them: run it as root there.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BALLAST = "ballast"


def own_mounts(command: Sequence[str]) -> list[str]:
    """Wrap a command so that it runs in its own namespaces; its mounts are private and end with it."""
    return ["unshare", "--user", "--map-root-user", "--mount", *command]


class SmallDisk:
    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        _mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder))

    def fill(self, *, but_for: int) -> None:
        """Fill the disk except for `but_for` bytes, rounded to pages."""
        status = os.statvfs(self.folder)
        size_bytes = max(0, status.f_bavail * status.f_bsize - but_for)
        with (self.folder / BALLAST).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size_bytes))

    def empty(self) -> None:
        (self.folder / BALLAST).unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        _mount("-o", "remount,ro", str(self.folder))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", str(self.folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
