"""Where a command writes: standard output, or a file that is there whole or not at all. Knows bytes only."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from service.errors import StartError, StorageFull


@contextmanager
def writing(path: Path | None) -> Iterator[BinaryIO]:
    """None: standard output; what goes wrong there is the command line's. A link is followed; a pipe or a device, which
    cannot be whole or not there, is written to as it is.

    Raises: StartError: the file cannot be made.  StorageFull: it cannot be written to its end; nothing is left of it.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        target = path.resolve()
        is_replaced = target.is_file() or not target.exists()
        partial = target.with_name(f"{target.name}.part") if is_replaced else target
        file = io.BufferedWriter(_Destination(partial, named=path))
    except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
        raise StartError(f"{path} cannot be written ({getattr(exc, 'strerror', exc)})") from exc
    try:
        with file:
            yield file
            file.flush()
            if is_replaced:
                with _to_its_end(path):
                    os.fsync(file.fileno())
                    partial.replace(target)
    finally:
        if is_replaced:
            partial.unlink(missing_ok=True)


class _Destination(io.FileIO):
    """A file that says itself that it takes no more: what is read meanwhile may fail, too."""

    def __init__(self, path: Path, *, named: Path) -> None:
        super().__init__(path, "wb")
        self._named = named

    def write(self, data: Any) -> int:  # whatever has a buffer, which has no name before Python 3.12
        """Raises: StorageFull."""
        with _to_its_end(self._named):
            return super().write(data)


@contextmanager
def _to_its_end(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StorageFull(f"{path} cannot be written to its end ({exc.strerror})") from exc


def give_up_standard_output() -> None:
    """Python flushes once more as it ends: to nowhere, not to what takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
