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
        file = partial.open("wb")
    except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
        raise StartError(f"{path} cannot be written ({getattr(exc, 'strerror', exc)})") from exc
    try:
        with file:
            yield file
            file.flush()
            if is_replaced:
                os.fsync(file.fileno())
        if is_replaced:
            partial.replace(target)
    except OSError as exc:
        raise StorageFull(f"{path} cannot be written to its end ({exc.strerror})") from exc
    finally:
        if is_replaced:
            partial.unlink(missing_ok=True)


def give_up_standard_output() -> None:
    """Python flushes once more as it ends: to nowhere, not to what takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
