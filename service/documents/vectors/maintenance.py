"""Decides which index a document store has, and keeps snapshots of it on disk. Takes no locks."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from service.documents.protocol import VectorIndex
from service.documents.store.store import DocumentStore
from service.documents.vectors.flat import FaissIndex
from service.documents.vectors.ivf import InvertedIndex, expected_bytes
from service.documents.vectors.ivf_build import build_inverted
from service.documents.vectors.snapshots import SnapshotFolder
from service.errors import NotReady, StorageFull

EXACT_ROWS = 20_000
GROWTH = 4  # rebuild an index once it holds 4 times the rows it was built for
SAVED_SHARE = 10  # renew a snapshot when 1 in 10 rows has changed
SAVED_ROWS = 1_000  # but not for fewer changes
RETRY_SHARE = 10  # retry a failed build when the store has grown by 1/10

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Built:
    """An index of the store at a revision."""

    index: InvertedIndex
    revision: int


class IndexMaintenance:
    """Exact search up to `exact_rows` documents, inverted lists beyond.

    Args: snapshots: where to keep inverted lists; None: they are rebuilt at each start.
    """

    def __init__(
        self, store: DocumentStore, *, dim: int, snapshots: SnapshotFolder | None = None, exact_rows: int = EXACT_ROWS
    ) -> None:
        self._store = store
        self._dim = dim
        self._snapshots = snapshots
        self._exact_rows = exact_rows
        self._tried_rows = 0
        self._unsaved = 0
        self._unsaved_at_failure = 0  # after a failed snapshot, wait for as many further changes

    def load(self) -> VectorIndex:
        """Load or build the index to start with, at the store's revision; nothing else may be writing the store."""
        if self._store.passages.count() <= self._exact_rows:
            return self._flat()
        return self._load_snapshot() or self.build(lambda: False).index

    def expected_bytes(self) -> int:
        """Memory of the index that `load` gives, without loading it. Inverted lists count as if built now."""
        count, largest = self._store.passages.count(), self._store.passages.largest()
        if count <= self._exact_rows:
            return count * FaissIndex(self._dim).row_bytes
        return expected_bytes(count, largest_row=largest, dim=self._dim)

    def load_exact(self) -> VectorIndex:
        """Load an exact index. For a reader beside the service, which must not write snapshots."""
        return self._flat()

    def note(self, changed: int) -> None:
        """Record that `changed` rows of the index changed."""
        self._unsaved += changed

    def is_outgrown(self, index: VectorIndex) -> bool:
        """Return whether the index should be rebuilt or replaced."""
        if len(index) <= self._tried_rows + self._tried_rows // RETRY_SHARE:
            return False
        if isinstance(index, InvertedIndex):
            return len(index) > GROWTH * index.tuning.built_rows
        return len(index) > self._exact_rows

    def is_stale(self, index: VectorIndex) -> bool:
        """Return whether the snapshot should be renewed."""
        changed = self._unsaved - self._unsaved_at_failure
        return isinstance(index, InvertedIndex) and changed > max(SAVED_ROWS, len(index) // SAVED_SHARE)

    def build(
        self, should_stop: Callable[[], bool], check_memory: Callable[[int], None] = lambda growth_bytes: None
    ) -> Built:
        """Build inverted lists over the current store, and save them if the disk has room.

        Raises: BuildStoppedError.  StorageFull: there is not enough memory.
        """
        self._tried_rows = self._store.passages.count()
        check_memory(2 * self._tried_rows * (self._dim + 8))
        with self._store.read_transaction() as revision:
            index = build_inverted(self._store, should_stop=should_stop)
        if path := self._save(index, revision):
            index = InvertedIndex.read(path, index.facts)  # drops the spare capacity left by adding
        self._tried_rows = 0
        return Built(index, revision)

    def catch_up(self, index: InvertedIndex, revision: int) -> None:
        """Bring an index of an earlier revision to the store's revision; nothing else may be writing either.

        Rows that differ because the store was restored from a backup are corrected, too.
        """
        for rows, vectors_ND in self._store.passages.vectors(changed_after=revision):
            index.replace(index.prepare(rows, vectors_ND))
            self._unsaved += len(rows)
        held, wanted = index.rows(), self._store.passages.numbers()
        gone, missing = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
        index.remove(gone.tolist())
        if len(missing):
            index.replace(index.prepare(*self._store.passages.vectors_of(missing.tolist())))
        self._unsaved += len(gone) + len(missing)

    def save(self, index: VectorIndex, revision: int) -> None:
        """Renew the snapshot if the index has unsaved changes.

        revision: of the index, which must not change meanwhile.
        """
        if isinstance(index, InvertedIndex) and self._unsaved:
            self._save(index, revision)

    def _save(self, index: InvertedIndex, revision: int) -> Path | None:
        if self._snapshots is None or self._snapshots.read_only:
            return None
        try:
            self._store.check_files()  # its folder may be another store's by now
            path = self._snapshots.write(
                index.write, revision=revision, facts=index.facts, remember=self._store.remember_snapshot
            )
        except (OSError, StorageFull, NotReady, sqlite3.OperationalError) as exc:  # the last: the store is locked
            logger.warning("index snapshot not written", extra={"reason": getattr(exc, "strerror", None) or str(exc)})
            self._unsaved_at_failure = self._unsaved
            return None
        self._unsaved = self._unsaved_at_failure = 0
        return path

    def _load_snapshot(self) -> InvertedIndex | None:
        if self._snapshots is None or (found := self._snapshots.find(known=self._store.snapshot_ids)) is None:
            return None
        snapshot, path = found
        try:
            index = InvertedIndex.read(path, dict(snapshot.facts))
            self.catch_up(index, snapshot.revision)
        except (RuntimeError, TypeError, ValueError) as exc:
            self._snapshots.quarantine(f"FAISS cannot use it: {type(exc).__name__}", path.name)
            return None
        return index

    def _flat(self) -> FaissIndex:
        index = FaissIndex(self._dim)
        for rows, vectors_ND in self._store.passages.vectors():
            index.replace(index.prepare(rows, vectors_ND))
        return index
