"""Writes files atomically: a kill leaves the old one or the new one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def partial(path: Path) -> Path:
    """The temporary file that is later renamed to `path`."""
    return path.with_name(f".{path.name}.partial")


def fresh(path: Path) -> Path:
    """Create an empty file in place of one that a kill left; a link of that name is replaced, never followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
    return path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`."""
    temporary = fresh(partial(path))
    write(temporary)
    complete(temporary, path)


def complete(temporary: Path, path: Path) -> None:
    """Rename a file that is written to `path`, once it is on the disk."""
    with temporary.open("rb") as handle:
        os.fsync(handle.fileno())
    temporary.replace(path)


def share(folder: Path) -> None:
    """Let who may read a folder read its weights: safetensors writes them for their owner alone, whatever the umask."""
    for path in folder.rglob("*.safetensors"):
        path.chmod(path.parent.stat().st_mode & 0o666)


def files_under(folder: Path) -> list[Path]:
    """Every file below a folder, sorted; follows links, skips hidden files."""
    walked = (Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    return sorted(path for path in walked if not path.name.startswith("."))


def fingerprint_files(paths: list[Path], *, relative_to: Path) -> str:
    """A hash of the names and contents of these files, 16 hex digits."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(relative_to).as_posix()}\t{content}\n".encode())
    return digest.hexdigest()[:16]


def write_json_atomically(path: Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
