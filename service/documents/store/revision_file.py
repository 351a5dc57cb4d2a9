"""Records the last acknowledged revision in a file beside the document store.

SQLite reads a truncated log or an empty file as a valid older store. The revision file reveals the loss. It is written
after each change is on disk, so it is never ahead of an intact store.
"""

import os
import zlib
from contextlib import suppress
from pathlib import Path

from service.process.files import PRIVATE

REVISION_SUFFIX = ".revision"  # suffix of the file beside the store
LENGTH = 40  # bytes: twenty digits, their CRC-32, padding; written in one call


class RevisionFile:
    """The file of one store, open for writing."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError: the file cannot be created."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        if os.fstat(self._file).st_size < LENGTH:
            with suppress(OSError):  # a full disk must not prevent reading the store
                os.pwrite(self._file, b" " * LENGTH, 0)  # reserves the space for all later writes

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._file

    def revision(self) -> int:
        """Return the last acknowledged revision; 0 if there is none or the file is damaged."""
        digits, _, checksum = os.pread(self._file, LENGTH, 0).decode(errors="replace").strip().partition(" ")
        is_whole = digits.isdecimal() and checksum == _checksum(digits)
        return int(digits) if is_whole else 0

    def write(self, revision: int) -> None:
        """Record a revision that is on disk. If this fails, the change is still safe."""
        digits = f"{revision:020d}"
        with suppress(OSError):
            os.pwrite(self._file, f"{digits} {_checksum(digits)}".ljust(LENGTH - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _checksum(digits: str) -> str:
    return f"{zlib.crc32(digits.encode()):08x}"
