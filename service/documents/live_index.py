"""The vector index that searches use: loaded or built, in step with the store, rebuilt when outgrown, saved."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from service.documents.store.store import DocumentStore, Snapshot
from service.documents.vectors.index import Addition, FaissIndex, VectorIndex
from service.documents.vectors.ivf import BuildStoppedError, InvertedIndex, build_inverted, expected_bytes
from service.documents.vectors.snapshots import SnapshotFolder
from service.errors import NotReady, StorageFull

GROWTH = 4  # rebuild an index once it holds 4 times the rows it was built for
SAVED_SHARE = 10  # renew a snapshot when 1 in 10 rows has changed
SAVED_ROWS = 1_000  # but not for fewer changes
RETRY_SHARE = 10  # retry a failed build when the store has grown by 1/10
RETRY_S = 5.0  # after a step that is to be repeated
FOLD_S = 30.0  # between folds of the store's log: soon after the last write its file is whole

logger = logging.getLogger(__name__)


class Upkeep:
    """A thread for all collections of a store. It runs while there is a step."""

    def __init__(self, fold_log: Callable[[], None]) -> None:
        self._fold_log = fold_log
        self._steps: list[Callable[[], bool]] = []
        self._due = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, step: Callable[[], bool]) -> None:
        """Call `step` from time to time, and after `wake`. It returns whether to repeat it soon, and never raises."""
        self._steps = [*self._steps, step]
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="index", daemon=True)
            self._thread.start()

    def remove(self, step: Callable[[], bool]) -> None:
        """Do not begin `step` again. After the last one, wait until the thread has ended."""
        self._steps = [other for other in self._steps if other != step]
        if not self._steps and self._thread is not None:
            self._due.set()
            self._thread.join()
            self._thread = None

    def wake(self) -> None:
        """Call the steps now."""
        self._due.set()

    def _run(self) -> None:
        wait_s = FOLD_S
        while self._steps:
            self._due.wait(wait_s)
            self._due.clear()
            if self._steps:
                self._fold_log()
            is_unfinished = [step() for step in self._steps]
            wait_s = RETRY_S if any(is_unfinished) else FOLD_S


class ReadWriteLock:
    """Many readers or one writer, who takes precedence, so that readers cannot starve it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._has_writer = False  # waiting or active

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_writer)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone. One writer at a time may ask for it."""
        try:
            with self._changed:
                self._has_writer = True
                self._changed.wait_for(lambda: not self._readers)
            yield
        finally:  # also after Ctrl-C while it waits
            with self._changed:
                self._has_writer = False
                self._changed.notify_all()


class IndexMaintenance:
    """Exact search up to `exact_rows` passages, inverted lists beyond, kept in `snapshots`."""

    def __init__(self, store: DocumentStore, *, dim: int, snapshots: SnapshotFolder, exact_rows: int) -> None:
        self._store = store
        self._dim = dim
        self._snapshots = snapshots
        self._exact_rows = exact_rows
        self._tried_rows = 0
        self._unsaved = 0
        self._unsaved_at_failure = 0  # after a failed snapshot, wait for as many further changes

    def load(self) -> VectorIndex:
        """Load or build the index to start with, at the store's revision; nothing else may be writing the store."""
        with self._store.snapshot() as snapshot:
            is_small = snapshot.count_passages() <= self._exact_rows
        if is_small:
            return self.load_exact()
        return self._load_snapshot() or self.build(lambda: False)[0]

    def expected_bytes(self) -> int:
        """Memory of the index that `load` gives, without loading it. Inverted lists count as if built now."""
        with self._store.snapshot() as snapshot:
            count = snapshot.count_passages()
        if count <= self._exact_rows:
            return count * FaissIndex(self._dim).row_bytes
        return expected_bytes(count, dim=self._dim)

    def load_exact(self) -> VectorIndex:
        """Load an exact index. For a reader beside the service, too, which must not write snapshots."""
        index = FaissIndex(self._dim)
        with self._store.snapshot() as snapshot:
            for rows, vectors_ND in snapshot.vectors():
                index.replace(index.prepare(rows, vectors_ND))
        return index

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
    ) -> tuple[InvertedIndex, int]:
        """Build inverted lists over the current store, and save them if the disk has room.

        Returns: the index, and the revision it is at.
        Raises: BuildStoppedError.  StorageFull: there is not enough memory.
        """
        with self._store.snapshot() as snapshot:
            self._tried_rows = snapshot.count_passages()
            check_memory(2 * self._tried_rows * (self._dim + 8))
            index = build_inverted(snapshot, should_stop=should_stop)
        if path := self._save(index, snapshot.revision):
            index = InvertedIndex.read(path, index.facts)  # drops the spare capacity left by adding
        self._tried_rows = 0
        return index, snapshot.revision

    def catch_up(self, index: InvertedIndex, snapshot: Snapshot, *, since: int) -> None:
        """Bring an index from an earlier revision to the snapshot's; nothing else may be changing it.

        Rows that differ because the store was restored from a backup are corrected, too.
        """
        for rows, vectors_ND in snapshot.vectors(changed_after=since):
            index.replace(index.prepare(rows, vectors_ND))
            self._unsaved += len(rows)
        held, wanted = index.rows(), snapshot.passages()
        gone, missing = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
        index.remove(gone.tolist())
        if len(missing):
            index.replace(index.prepare(*snapshot.vectors_of(missing.tolist())))
        self._unsaved += len(gone) + len(missing)

    def save(self, index: VectorIndex, revision: int) -> None:
        """Renew the snapshot if the index has unsaved changes.

        revision: of the index, which must not change meanwhile.
        """
        if isinstance(index, InvertedIndex) and self._unsaved:
            self._save(index, revision)

    def _save(self, index: InvertedIndex, revision: int) -> Path | None:
        if self._snapshots.read_only:
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
        if (found := self._snapshots.find(known=self._store.snapshot_ids)) is None:
            return None
        saved, path = found
        try:
            index = InvertedIndex.read(path, dict(saved.facts))
            with self._store.snapshot() as snapshot:
                self.catch_up(index, snapshot, since=saved.revision)
        except (RuntimeError, TypeError, ValueError) as exc:
            self._snapshots.quarantine(f"FAISS cannot use it: {type(exc).__name__}", path.name)
            return None
        return index


class LiveIndex:
    """The index of one collection, and the revision it is at."""

    def __init__(
        self,
        store: DocumentStore,
        maintenance: IndexMaintenance,
        *,
        check_memory: Callable[[int], None],
        upkeep: Upkeep | None,
    ) -> None:
        """Load the store's index, or build it.

        Args: check_memory: raises StorageFull if the process has no room for that many more bytes.
              upkeep: the thread that renews it; None: another process may be writing the store.
        """
        self.writing = threading.Lock()  # held from before a change of the store until the index has followed
        self._in_step = ReadWriteLock()
        self._store = store
        self._maintenance = maintenance
        self._check_memory = check_memory
        self.now: VectorIndex = maintenance.load_exact() if upkeep is None else maintenance.load()
        self._revision = None if upkeep is None else store.last_change  # None: another process may advance the store
        self._is_behind = False  # the index failed to apply a change that is on disk
        self._is_closing = False
        self._stepping = threading.Lock()
        self._upkeep = upkeep
        self.resume()

    @contextmanager
    def held(self) -> Iterator[VectorIndex]:
        """Lend the index to search in; changes wait until the block ends."""
        with self._in_step.shared():
            yield self.now

    def is_at(self, revision: int) -> bool:
        """Whether the index has the changes up to a revision, and no more, as far as this process knows."""
        return self._revision in {None, revision}

    def follow(self, revision: int, removed: Sequence[int], addition: Addition | None = None) -> None:
        """Apply a durable change of the store. If that fails, the index is reloaded and not saved."""
        try:
            with self._in_step.exclusive():
                self._revision = revision
                self.now.remove(removed)
                if addition is not None:
                    self.now.replace(addition)
        except BaseException:
            self._is_behind = True
            self._wake()
            raise
        self._note(len(removed) + (0 if addition is None else len(addition.rows)))

    def resume(self) -> None:
        """Renew the index from now on, whenever that is due."""
        self._is_closing = False
        if self._upkeep is not None:
            self._upkeep.add(self._step)

    def rest(self) -> None:
        """Abandon a running build, and renew nothing from now on."""
        self._is_closing = True
        if self._upkeep is not None:
            self._upkeep.remove(self._step)
        with self._stepping:  # until the last step has ended
            pass

    def save(self) -> None:
        """Write a snapshot if there are unsaved changes; nothing may be changing the index."""
        if self._revision is not None and not self._is_behind:
            self._maintenance.save(self.now, self._revision)

    def _note(self, changed: int) -> None:
        """Wake the thread if a new index or snapshot is due."""
        self._maintenance.note(changed)
        if self._maintenance.is_outgrown(self.now) or self._maintenance.is_stale(self.now):
            self._wake()

    def _wake(self) -> None:
        if self._upkeep is not None:
            self._upkeep.wake()

    def _step(self) -> bool:
        """Make or save the index that is due. Return whether to try again soon."""
        with self._stepping:
            try:
                if self._is_closing:
                    return False
                if self._is_behind:
                    with self.writing:
                        index = self._maintenance.load()
                        with self._in_step.exclusive():
                            self.now = index
                        self._is_behind = False
                elif self._maintenance.is_outgrown(self.now):
                    self._replace()
                elif self._maintenance.is_stale(self.now):
                    with self.writing:
                        self.save()
            except BuildStoppedError:
                return False
            except StorageFull as exc:
                logger.warning("index not built", extra={"reason": str(exc)})
            except Exception:  # keep serving the current index
                logger.exception("index not built")
            return self._is_behind

    def _replace(self) -> None:
        index, revision = self._maintenance.build(lambda: self._is_closing, self._check_memory)
        with self._store.snapshot() as snapshot:  # most changes, without blocking writers
            self._maintenance.catch_up(index, snapshot, since=revision)
        with self.writing, self._store.snapshot() as last:  # the last changes: writers wait, readers do not
            self._maintenance.catch_up(index, last, since=snapshot.revision)
            with self._in_step.exclusive():
                self.now = index
        self._note(0)  # a bulk load may have outgrown it already
