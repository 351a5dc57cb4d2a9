"""Keeps snapshots of the index on disk, written atomically and verified by checksum.

index.json          describes the newest snapshot: its id in the store, file, checksum, revision, model and the index's
                    facts; with a checksum of its own
index-<revision>    the bytes that FAISS wrote
index_7.json, ..    the same of another collection, by its number
*.quarantined       damaged files, the newest of each name
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

from service.documents.store.schema import DEFAULT
from service.process.files import create_anew, flush, sha256_of

FORMAT = 2
OF_COLLECTION = re.compile(r"index_([0-9]+)[.-].*")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """The contents of `index.json`. id: as remembered by the store.  facts: the index's own, as plain JSON."""

    format: int
    id: str
    fingerprint: str
    revision: int
    file: str
    size_bytes: int
    sha256: str
    facts: Mapping[str, Any]


class SnapshotFolder:
    """The snapshots of one collection, beside its document store. One process writes; any may read."""

    def __init__(self, folder: Path, *, fingerprint: str, collection: int = DEFAULT, read_only: bool = False) -> None:
        """collection: its number.  read_only: another process may be writing them."""
        self.read_only = read_only
        self._folder = folder
        self._fingerprint = fingerprint
        self._name = "index" if collection == DEFAULT else f"index_{collection}"
        self._pointer = f"{self._name}.json"

    def write(
        self, dump: Callable[[Path], None], *, revision: int, facts: Mapping[str, Any], remember: Callable[[str], None]
    ) -> Path:
        """Save what `dump` writes to its path argument. The previous snapshot is removed once this one is safe.

        Args: remember: records the id in the store beside the previous one, which counts if this write fails.
        Raises: OSError: the disk is full or the folder is not writable; the previous snapshot stays.
        """
        temporary = create_anew(self._folder / f"{self._name}.new")
        target = self._folder / f"{self._name}-{revision}"
        id_ = secrets.token_hex(8)
        try:
            dump(temporary)
            flush(temporary)
            size_bytes, sha256 = temporary.stat().st_size, sha256_of(temporary)
            snapshot = Snapshot(FORMAT, id_, self._fingerprint, revision, target.name, size_bytes, sha256, facts)
            remember(id_)
            temporary.replace(target)
            pointer = create_anew(self._folder / f"{self._pointer}.new")
            content = {"snapshot": asdict(snapshot), "sha256": _sha256_of(asdict(snapshot))}
            pointer.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            flush(pointer)
            pointer.replace(self._folder / self._pointer)
            flush(self._folder)
        finally:
            temporary.unlink(missing_ok=True)
        for path in self._folder.iterdir():
            if re.fullmatch(rf"{self._name}-[0-9]+", path.name) and path != target:
                path.unlink(missing_ok=True)
        return target

    def find(self, *, known: Collection[str]) -> tuple[Snapshot, Path] | None:
        """Return the newest snapshot if it is intact and of this model and store; otherwise quarantine it.

        Args: known: ids that the store remembers. A store from a backup does not know later snapshots.
        """
        try:
            content = orjson.loads((self._folder / self._pointer).read_bytes())
            if content["sha256"] != _sha256_of(content["snapshot"]):
                raise ValueError("its checksum differs")
            snapshot = Snapshot(**content["snapshot"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as exc:
            self.quarantine(f"{self._pointer} cannot be read: {type(exc).__name__}")
            return None
        if fault := self._fault(snapshot, known):
            self.quarantine(fault, snapshot.file)
            return None
        return snapshot, self._folder / snapshot.file

    def quarantine(self, reason: str, *files: str) -> None:
        """Rename the newest snapshot, so that it is not tried again; a reader leaves that to who writes."""
        if self.read_only:
            return
        logger.warning("index snapshot quarantined", extra={"reason": reason})
        for name in (self._pointer, *files):
            path = self._folder / name
            try:
                path.replace(path.with_name(f"{name.partition('-')[0]}.quarantined"))
            except OSError:  # missing, or the folder is read-only: it is not used either way
                continue

    def _fault(self, snapshot: Snapshot, known: Collection[str]) -> str | None:
        """Return why a snapshot cannot be used, or None."""
        if snapshot.format != FORMAT:
            return f"it has format {snapshot.format}; this service reads {FORMAT}"
        if snapshot.fingerprint != self._fingerprint:
            return "it belongs to another model"
        if snapshot.id not in known:
            return "the store does not know it: either the store or the snapshot is an older copy"
        if snapshot.file != Path(snapshot.file).name:
            return "it names a file outside its folder"
        path = self._folder / snapshot.file
        if not path.is_file():
            return f"{snapshot.file} is missing"
        if path.stat().st_size != snapshot.size_bytes or sha256_of(path) != snapshot.sha256:
            return f"{snapshot.file} is damaged"
        return None


def forget_dropped(folder: Path, kept: Collection[int]) -> None:
    """Remove the files of collections that are no more. kept: the numbers of those that are."""
    for path in folder.glob("index_*"):
        if (name := OF_COLLECTION.fullmatch(path.name)) and int(name[1]) not in kept:
            path.unlink(missing_ok=True)


def _sha256_of(snapshot: object) -> str:
    return hashlib.sha256(orjson.dumps(snapshot)).hexdigest()
