"""Writes files so that a kill leaves the old one or the new one, never half of one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def partial(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.partial")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place."""
    temporary = partial(path)
    write(temporary)
    with temporary.open("rb") as handle:
        os.fsync(handle.fileno())
    temporary.replace(path)


def files_under(folder: Path) -> list[Path]:
    """Every file below a folder, hidden ones left out, links followed; sorted."""
    walked = (Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    return sorted(path for path in walked if not path.name.startswith("."))


def fingerprint_files(paths: list[Path], *, relative_to: Path) -> str:
    """Identity of these files: their names and contents."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(relative_to).as_posix()}\t{content}\n".encode())
    return digest.hexdigest()[:16]


def write_json_atomically(path: Path, value: Any) -> None:
    """`value` as indented JSON."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
