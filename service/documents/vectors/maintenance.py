"""Decides which index a document store has, and keeps it on disk. Knows both; knows no locks and no threads."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from service.documents.protocol import VectorIndex
from service.documents.store.store import DocumentStore
from service.documents.vectors.flat import FaissIndex
from service.documents.vectors.ivf import InvertedIndex
from service.documents.vectors.ivf_build import build_inverted
from service.documents.vectors.snapshots import SnapshotFolder
from service.errors import StorageFull

EXACT_ROWS = 20_000
GROWTH = 4  # an index is built anew when it holds so many times the rows it was built for
SAVED_SHARE = 10  # a snapshot is renewed when one in so many rows has changed
SAVED_ROWS = 1_000  # but not for fewer
RETRY_SHARE = 10  # after a build that failed, the next is tried when the store has grown by one in so many

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Built:
    """An index that holds the store as it was at a revision."""

    index: InvertedIndex
    revision: int


class IndexMaintenance:
    """Exact search up to `exact_rows` documents, inverted lists beyond.

    Args: snapshots: where to keep inverted lists; None: nowhere, they are built at each start.
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
        self._unsaved_at_failure = 0  # a snapshot that had no room is tried again after as many changes more

    def load(self) -> VectorIndex:
        """The index to start with, in step with the store; nothing else may be writing it."""
        if self._store.count() <= self._exact_rows:
            return self._flat()
        return self._load_snapshot() or self.build(lambda: False).index

    def load_exact(self) -> VectorIndex:
        """Every vector as it is; for a reader beside the service, which must not write snapshots."""
        return self._flat()

    def note(self, changed: int) -> None:
        """So many rows of the index changed."""
        self._unsaved += changed

    def is_outgrown(self, index: VectorIndex) -> bool:
        """Whether another index is due."""
        if len(index) <= self._tried_rows + self._tried_rows // RETRY_SHARE:
            return False
        if isinstance(index, InvertedIndex):
            return len(index) > GROWTH * index.tuning.built_rows
        return len(index) > self._exact_rows

    def is_stale(self, index: VectorIndex) -> bool:
        """Whether the snapshot should be renewed."""
        changed = self._unsaved - self._unsaved_at_failure
        return isinstance(index, InvertedIndex) and changed > max(SAVED_ROWS, len(index) // SAVED_SHARE)

    def build(
        self, should_stop: Callable[[], bool], check_memory: Callable[[int], None] = lambda growth_bytes: None
    ) -> Built:
        """Inverted lists over the store as it is now, on disk already where there is room.

        Raises: BuildStoppedError; StorageFull: there is no memory to build.
        """
        self._tried_rows = self._store.count()
        check_memory(2 * self._tried_rows * (self._dim + 8))
        with self._store.read_transaction() as revision:
            index = build_inverted(self._store, should_stop=should_stop)
        if path := self._save(index, revision):
            index = InvertedIndex.read(path, index.facts)  # without the room to spare that adding has left
        self._tried_rows = 0
        return Built(index, revision)

    def catch_up(self, index: InvertedIndex, revision: int) -> None:
        """Bring an index of an earlier revision to the store's; nothing else may be writing either.

        Rows that a store from a backup lacks, or has and should not have, are put right too.
        """
        for rows, vectors_ND in self._store.vectors(changed_after=revision):
            index.replace(index.prepare(rows, vectors_ND))
            self._unsaved += len(rows)
        held, wanted = index.rows(), self._store.rows()
        gone, missing = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
        index.remove(gone.tolist())
        if len(missing):
            index.replace(index.prepare(*self._store.vectors_of(missing.tolist())))
        self._unsaved += len(gone) + len(missing)

    def save(self, index: VectorIndex, revision: int) -> None:
        """Renew the snapshot, if the index has one and it is behind.

        revision: what the index has; it may not change meanwhile.
        """
        if isinstance(index, InvertedIndex) and self._unsaved:
            self._save(index, revision)

    def _save(self, index: InvertedIndex, revision: int) -> Path | None:
        if self._snapshots is None:
            return None
        try:
            path = self._snapshots.write(
                index.write, revision=revision, facts=index.facts, remember=self._store.remember_snapshot
            )
        except (OSError, StorageFull, sqlite3.OperationalError) as exc:  # the last: a writer has had the store too long
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
        for rows, vectors_ND in self._store.vectors():
            index.replace(index.prepare(rows, vectors_ND))
        return index
