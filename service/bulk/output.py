"""Where a command writes: standard output, or a file that is there whole or not at all. Knows bytes only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from service.errors import StartError, StorageFull


@contextmanager
def writing(path: Path | None) -> Iterator[BinaryIO]:
    """None: standard output, whose reader may leave early, as `head` does.

    Raises: StartError: the file cannot be made.  StorageFull: it cannot be written to its end; nothing is left of it.
    """
    if path is None:
        with _standard_output() as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.part")
    try:
        file = partial.open("wb")
    except OSError as exc:
        raise StartError(f"{path} cannot be written ({exc.strerror})") from exc
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as exc:
        raise StorageFull(f"{path} cannot be written to its end ({exc.strerror})") from exc
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes once more as it ends: to nowhere, not to the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
