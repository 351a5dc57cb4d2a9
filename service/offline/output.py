"""What a command writes: files that appear only once they are complete, and progress on standard error."""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Never

from tqdm import tqdm

from service.errors import StartError, StorageFull
from service.process.files import PRIVATE, SHARED, create_beside

DESCRIPTOR = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>[0-9]{1,9})")
ESCAPED = re.compile(r"\\([0-7]{3})")  # a space and the like in /proc/self/mountinfo


LOG_INTERVAL_S = 10  # in a log file every update is a new line


@contextmanager
def writing(path: Path | None, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Open the output. None: standard output, whose errors `cli/main.py` handles.

    is_private: it holds stored documents, which only their owner may read.

    Links are followed. Pipes and devices are written directly: they cannot be replaced at the end. Neither can a mount
    point, nor a file in a folder that cannot be written.

    Raises: StartError: the file cannot be created.  StorageFull: it cannot be written completely; it is removed.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        descriptor, target = _descriptor(path), path.resolve()
        if descriptor is None and not target.parent.is_dir():
            raise StartError(f"{path} cannot be written (there is no folder {path.parent}; make it first)")
        is_replaced = descriptor is None and (not target.exists() or (target.is_file() and is_replaceable(target)))
        partial = create_beside(target, mode=PRIVATE if is_private else SHARED) if is_replaced else target
        file = io.BufferedWriter(_Destination(partial if descriptor is None else os.dup(descriptor), named=path))
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


@contextmanager
def progress(name: str, *, total: int | None, unit: str) -> Iterator["tqdm[Never]"]:
    """Show a bar to `update`. total: None if unknown. unit: "B" is shown as KB, MB, GB."""
    interval_s = 0.1 if sys.stderr.isatty() else LOG_INTERVAL_S
    with tqdm(
        total=total, desc=name, unit=unit, unit_scale=unit == "B", mininterval=interval_s, file=sys.stderr
    ) as bar:
        yield bar


def tell(sentence: str) -> None:
    """Write a line to standard error, above the bar if there is one."""
    tqdm.write(f"crosslet: {sentence}", file=sys.stderr)


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path names: what others have written to it must stay."""
    match = DESCRIPTOR.fullmatch(str(path))
    if match is None:
        return None
    return int(match["number"]) if match["number"] else {"out": 1, "err": 2}[match["name"]]


def is_replaceable(file: Path) -> bool:
    """Return whether another file can take the place of one: it is no mount point, and its folder can be written."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    points = {ESCAPED.sub(lambda code: chr(int(code[1], 8)), mount.split(" ")[4]) for mount in mounts}
    return str(file) not in points and os.access(file.parent, os.W_OK)


class _Destination(io.FileIO):
    """A file whose own write errors become StorageFull; errors of the input read meanwhile stay as they are."""

    def __init__(self, file: Path | int, *, named: Path) -> None:
        super().__init__(file, "wb")
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
