"""Remembers, beside the document store, the last revision that was answered for. Knows no SQL.

SQLite takes a log that was cut short, and an empty file, for what they might have been: older. The witness is written
after each change is on the disk, so that it is never ahead of a store that has lost nothing.
"""

import os
import zlib
from contextlib import suppress
from pathlib import Path

REVISION_SUFFIX = ".revision"  # suffix of the file beside the store
LENGTH = 40  # bytes: twenty digits, their CRC-32, padding; written at once


class RevisionFile:
    """The file of one store, open for writing."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError: the file cannot be made."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._file).st_size < LENGTH:
            with suppress(OSError):  # a full disk must not keep the store from being read
                os.pwrite(self._file, b" " * LENGTH, 0)  # the room for all later writes

    def revision(self) -> int:
        """What was answered for; 0: nothing yet, or the file is damaged itself."""
        digits, _, checksum = os.pread(self._file, LENGTH, 0).decode(errors="replace").strip().partition(" ")
        is_whole = digits.isdecimal() and checksum == _checksum(digits)
        return int(digits) if is_whole else 0

    def write(self, revision: int) -> None:
        """Note a revision that is on the disk. Should this fail, the change is safe all the same."""
        digits = f"{revision:020d}"
        with suppress(OSError):
            os.pwrite(self._file, f"{digits} {_checksum(digits)}".ljust(LENGTH - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def _checksum(digits: str) -> str:
    return f"{zlib.crc32(digits.encode()):08x}"
