"""A command's output: standard output, or a file that appears only once it is complete."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from service.errors import StartError, StorageFull
from service.process.files import PRIVATE, SHARED, create_beside


@contextmanager
def writing(path: Path | None, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Open the output. None: standard output, whose errors `cli/main.py` handles.

    is_private: it holds stored documents, which only their owner may read.

    Links are followed. Pipes and devices are written directly: they cannot be replaced at the end.

    Raises: StartError: the file cannot be created.  StorageFull: it cannot be written completely; it is removed.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        target = path.resolve()
        is_replaced = target.is_file() or not target.exists()
        partial = create_beside(target, mode=PRIVATE if is_private else SHARED) if is_replaced else target
        file = io.BufferedWriter(_Destination(partial, named=path))
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links
        raise StartError(f"{path} cannot be written ({getattr(exc, 'strerror', exc)})") from exc
    try:
        with file:
            yield file
            file.flush()
            if is_replaced:
                with _complete(path):
                    os.fsync(file.fileno())
                    partial.replace(target)
    finally:
        if is_replaced:
            partial.unlink(missing_ok=True)


class _Destination(io.FileIO):
    """A file whose own write errors become StorageFull; errors of the input read meanwhile stay as they are."""

    def __init__(self, path: Path, *, named: Path) -> None:
        super().__init__(path, "wb")
        self._named = named

    def write(self, data: Any) -> int:  # any buffer; collections.abc.Buffer needs Python 3.12
        """Raises: StorageFull."""
        with _complete(self._named):
            return super().write(data)


@contextmanager
def _complete(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StorageFull(f"{path} cannot be written completely ({exc.strerror})") from exc


def give_up_standard_output() -> None:
    """Redirect standard output to /dev/null: Python's flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
