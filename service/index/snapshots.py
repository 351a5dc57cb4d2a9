"""Keeps a derived index on disk, whole or not at all. Knows files and checksums; knows no vectors.

index.json          what the newest snapshot is: its file, checksum, revision, model, and the index's own figures
index-<revision>    the bytes that FAISS wrote
*.quarantined       what was found damaged; the newest of each name
"""

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

FORMAT = 1
POINTER = "index.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """What `index.json` says. facts: of the index itself, plain JSON."""

    format: int
    fingerprint: str
    revision: int
    file: str
    size_bytes: int
    sha256: str
    facts: Mapping[str, Any]


class SnapshotFolder:
    """The snapshots beside a document store. One process writes; any may read."""

    def __init__(self, folder: Path, *, fingerprint: str) -> None:
        self._folder = folder
        self._fingerprint = fingerprint

    def write(self, dump: Callable[[Path], None], *, revision: int, facts: Mapping[str, Any]) -> Path:
        """Keep what `dump` writes to the path it is given; the snapshot before it goes when this one is safe.

        Raises: OSError: there is no room, or the folder is not writable; the snapshot before it stays.
        """
        temporary = self._folder / "index.new"
        target = self._folder / f"index-{revision}"
        try:
            dump(temporary)
            _flush(temporary)
            snapshot = Snapshot(
                FORMAT,
                self._fingerprint,
                revision,
                target.name,
                temporary.stat().st_size,
                _sha256(temporary),
                facts,
            )
            temporary.replace(target)
            pointer = self._folder / f"{POINTER}.new"
            pointer.write_bytes(orjson.dumps(asdict(snapshot), option=orjson.OPT_INDENT_2))
            _flush(pointer)
            pointer.replace(self._folder / POINTER)
            _flush(self._folder)
        finally:
            temporary.unlink(missing_ok=True)
        self._forget_all_but(target.name)
        return target

    def find(self) -> tuple[Snapshot, Path] | None:
        """The newest snapshot, if its bytes are what was written and it is of this model; else it is quarantined."""
        pointer = self._folder / POINTER
        try:
            found = orjson.loads(pointer.read_bytes())
            snapshot = Snapshot(**found)
            fault = self._fault(snapshot)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as exc:
            self.quarantine(f"{POINTER} cannot be read: {type(exc).__name__}")
            return None
        if fault:
            self.quarantine(fault, Path(snapshot.file).name)
            return None
        return snapshot, self._folder / snapshot.file

    def quarantine(self, reason: str, *files: str) -> None:
        """Put the newest snapshot aside, so that it is not tried again."""
        logger.warning("index snapshot quarantined", extra={"reason": reason})
        for name in (POINTER, *files):
            path = self._folder / name
            try:
                path.replace(path.with_name(f"{name.partition('-')[0]}.quarantined"))
            except OSError:  # not there, or a folder that is only read: it is not used either way
                continue

    def _fault(self, snapshot: Snapshot) -> str | None:
        """Why a snapshot is not used, or None."""
        if snapshot.format != FORMAT:
            return f"it has format {snapshot.format}, this service reads {FORMAT}"
        if snapshot.fingerprint != self._fingerprint:
            return "it is of another model"
        if snapshot.file != Path(snapshot.file).name:
            return "it names a file outside of its folder"
        path = self._folder / snapshot.file
        if not path.is_file():
            return f"{snapshot.file} is missing"
        if path.stat().st_size != snapshot.size_bytes or _sha256(path) != snapshot.sha256:
            return f"{snapshot.file} is damaged"
        return None

    def _forget_all_but(self, name: str) -> None:
        for path in self._folder.glob("index-*"):
            if path.name != name:
                path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Have the disk keep a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
