"""Writes files atomically (a kill leaves the old one or the new one), checks, hashes and locks them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCK = ".lock"
RECORD_FILE = "crosslet.json"  # of a finished checkpoint: what it was trained on, and its scores
POINTER = b"version https://git-lfs.github.com/spec/v1"


def partial(path: Path) -> Path:
    """Return the temporary file that is later renamed to `path`."""
    return path.with_name(f".{path.name}.partial")


def fresh(path: Path) -> Path:
    """Create an empty file in place of one that a kill left; a link of that name is replaced, never followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
    return path


def is_path(name: str) -> bool:
    """Whether a model's name can only be a path, such as `./mine`; other names may be a hub's."""
    return Path(name).is_file() or name.count("/") > 1 or name.startswith((".", "/", "~"))


class LfsPointer(OSError):  # noqa: N818 - what it is
    """A file is the pointer that Git LFS leaves where the file itself was not downloaded."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull` in its repository")


def refuse_pointers(paths: Iterable[Path]) -> None:
    """Raises: LfsPointer: a file is one."""
    for path in paths:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise LfsPointer(path)


def check_folder(out: Path, *, error: type[Exception]) -> None:
    """Check, before any work, that there is a folder at `out`, or can be.

    Raises: error: something else is there, or it cannot be written to.
    """
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise error(f"{there} is no folder that can be written to; choose another --out")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`. A pipe or a device is written to."""
    if path.exists() and not path.is_file():
        write(path)
        return
    if path.is_symlink():  # such as /dev/fd/1: the file behind it is replaced
        path = path.resolve()
    temporary = fresh(partial(path))
    write(temporary)
    complete(temporary, path)


def complete(temporary: Path, path: Path) -> None:
    """Flush a written file to the disk, then rename it to `path`."""
    with temporary.open("rb") as handle:
        os.fsync(handle.fileno())
    temporary.replace(path)


def share(folder: Path) -> None:
    """Give weights their folder's read permissions: safetensors ignores the umask and writes for the owner alone."""
    for path in folder.rglob("*.safetensors"):
        path.chmod(path.parent.stat().st_mode & 0o666)


def files_under(folder: Path) -> list[Path]:
    """Return every file below a folder, sorted; follows links, skips hidden files."""
    walked = (Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    return sorted(path for path in walked if not path.name.startswith("."))


def fingerprint_files(paths: list[Path], *, relative_to: Path) -> str:
    """Return a hash of the names and contents of these files, 16 hex digits."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(relative_to).as_posix()}\t{content}\n".encode())
    return digest.hexdigest()[:16]


def write_text_atomically(path: Path, text: str) -> None:
    """Write text as UTF-8."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json_atomically(path: Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    write_text_atomically(path, json.dumps(value, indent=1, ensure_ascii=False))


@contextmanager
def wait_for(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; wait for the process that has it. The system releases it however that process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
