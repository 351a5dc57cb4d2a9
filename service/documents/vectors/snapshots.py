"""Keeps a derived index on disk, whole or not at all. Knows files and checksums; knows no vectors.

index.json          what the newest snapshot is: its name in the store, file, checksum, revision, model, and the index's
                    own figures; and a checksum of all that
index-<revision>    the bytes that FAISS wrote
*.quarantined       what was found damaged; the newest of each name
"""

import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from service.process.files import flush

FORMAT = 2
POINTER = "index.json"
FILE = re.compile(r"index-[0-9]+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """What `index.json` says. id: what the store knows it by.  facts: of the index itself, plain JSON."""

    format: int
    id: str
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

    def write(
        self, dump: Callable[[Path], None], *, revision: int, facts: Mapping[str, Any], remember: Callable[[str], None]
    ) -> Path:
        """Keep what `dump` writes to the path it is given; the snapshot before it goes when this one is safe.

        Args: remember: has the store note the id, and keep the one before: the pointer may not be replaced any more.
        Raises: OSError: there is no room, or the folder is not writable; the snapshot before it stays.
        """
        temporary = self._folder / "index.new"
        target = self._folder / f"index-{revision}"
        id_ = secrets.token_hex(8)
        try:
            dump(temporary)
            flush(temporary)
            size_bytes, sha256 = temporary.stat().st_size, _sha256(temporary)
            snapshot = Snapshot(FORMAT, id_, self._fingerprint, revision, target.name, size_bytes, sha256, facts)
            remember(id_)
            temporary.replace(target)
            pointer = self._folder / f"{POINTER}.new"
            said = {"snapshot": asdict(snapshot), "sha256": _sha256_of(asdict(snapshot))}
            pointer.write_bytes(orjson.dumps(said, option=orjson.OPT_INDENT_2))
            flush(pointer)
            pointer.replace(self._folder / POINTER)
            flush(self._folder)
        finally:
            temporary.unlink(missing_ok=True)
        self._forget_all_but(target.name)
        return target

    def find(self, *, known: Collection[str]) -> tuple[Snapshot, Path] | None:
        """The newest snapshot, if its bytes are what was written, of this model and this store; else quarantined.

        Args: known: the ids that the store remembers. One from a backup does not know what was made after it.
        """
        try:
            said = orjson.loads((self._folder / POINTER).read_bytes())
            if said["sha256"] != _sha256_of(said["snapshot"]):
                raise ValueError("its checksum differs")
            snapshot = Snapshot(**said["snapshot"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as exc:
            self.quarantine(f"{POINTER} cannot be read: {type(exc).__name__}")
            return None
        if fault := self._fault(snapshot, known):
            self.quarantine(fault, snapshot.file)
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

    def _fault(self, snapshot: Snapshot, known: Collection[str]) -> str | None:
        """Why a snapshot is not used, or None."""
        if snapshot.format != FORMAT:
            return f"it has format {snapshot.format}, this service reads {FORMAT}"
        if snapshot.fingerprint != self._fingerprint:
            return "it is of another model"
        if snapshot.id not in known:
            return "it was not made from this store as it is: one of the two is a copy of another time"
        if snapshot.file != Path(snapshot.file).name:
            return "it names a file outside of its folder"
        path = self._folder / snapshot.file
        if not path.is_file():
            return f"{snapshot.file} is missing"
        if path.stat().st_size != snapshot.size_bytes or _sha256(path) != snapshot.sha256:
            return f"{snapshot.file} is damaged"
        return None

    def _forget_all_but(self, name: str) -> None:
        for path in self._folder.iterdir():
            if FILE.fullmatch(path.name) and path.name != name:
                path.unlink(missing_ok=True)


def _sha256_of(snapshot: object) -> str:
    return hashlib.sha256(orjson.dumps(snapshot)).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
