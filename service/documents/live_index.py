"""The index that searches use: follows the store's changes, and gives way to a better one. Knows no documents."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.documents.protocol import VectorIndex
from service.documents.store.store import DocumentStore
from service.documents.upkeep import Upkeep
from service.documents.vectors.ivf_build import BuildStoppedError
from service.documents.vectors.maintenance import IndexMaintenance
from service.documents.vectors.rwlock import ReadWriteLock
from service.errors import StorageFull

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldIndex:
    """An index that no change is applied to, and the revision it is at; None: another process may advance the store."""

    index: VectorIndex
    revision: int | None

    def is_at(self, revision: int) -> bool:
        """Whether it has the changes up to a revision, and no more."""
        return self.revision in {None, revision}


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
    def held(self) -> Iterator[HeldIndex]:
        """The index to search in; changes wait until the block ends."""
        with self._in_step.shared():
            yield HeldIndex(self.now, self._revision)

    def follow(self, revision: int, change: Callable[[VectorIndex], None], *, changed: int) -> None:
        """Apply a durable change of so many rows. If that fails, the index is reloaded and not saved."""
        try:
            with self._in_step.exclusive():
                self._revision = revision
                change(self.now)
        except BaseException:
            self._is_behind = True
            self._wake()
            raise
        self._note(changed)

    def resume(self) -> None:
        """Have it renewed when that is due."""
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
                    self._reload()
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

    def _reload(self) -> None:
        with self.writing:
            index = self._maintenance.load()
            with self._in_step.exclusive():
                self.now = index
            self._is_behind = False

    def _replace(self) -> None:
        built = self._maintenance.build(lambda: self._is_closing, self._check_memory)
        with self._store.read_transaction() as revision:  # most changes, without blocking writers
            self._maintenance.catch_up(built.index, built.revision)
        with self.writing:  # the last changes: writers wait, readers do not
            self._maintenance.catch_up(built.index, revision)
            with self._in_step.exclusive():
                self.now = built.index
        self._note(0)  # a bulk load may have outgrown it already
