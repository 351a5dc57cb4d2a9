"""The open file of a document store: connections, changes, the log, and what SQLite's errors mean."""

import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from io import FileIO
from pathlib import Path
from queue import Empty, LifoQueue

from service.documents.document import named
from service.documents.filters import caseless
from service.documents.store.locking import check_lone, lock_for_this_process, lock_path, open_private, write_url
from service.errors import Damaged, InvalidInput, NotReady, StorageFull
from service.process.files import create, resolved

FOLD_EVERY_CHANGES = 2000  # of rows; the log then has some 10 MB
MOST_LOG_BYTES = 80_000_000  # at so many SQLite folds it within a commit
CACHED_STATEMENTS = 16  # per connection; each filter is a statement of its own, and a large one takes a megabyte
PUT_BACK = "put the same file back (CROSSLET_DATA), or start the service anew"

REPAIR = "`crosslet index verify` lists damage, `crosslet index repair` recomputes vectors"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)  # disk, quota, shared memory
UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
REVISION_SUFFIX = ".revision"  # suffix of the file beside the store
REVISION_BYTES = 40  # twenty digits, their CRC-32, padding; written in one call

FileId = tuple[int, int]  # device and inode

logger = logging.getLogger(__name__)


class StoreConnections:
    """One SQLite file in WAL mode. One thread writes at a time; any thread may read."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Open nothing yet. read_only: the file exists, and another process may be writing it."""
        self.path = resolved(path)  # its log and lock are where the file is, not a link to it
        self.read_only = read_only
        self.writer: sqlite3.Connection
        self._mode = "rw"  # never `rwc`: a file that is gone is not created again
        self._file_ids: dict[str, FileId] = {}
        self._idle: LifoQueue[sqlite3.Connection] = LifoQueue()
        self._connections: list[sqlite3.Connection] = []
        self._lock: FileIO | None = None
        self._revision_file: RevisionFile | None = None
        self._writing = threading.Lock()

    def open(self) -> None:
        """Lock and open the file, or create it. After an error, call `close`.

        Raises: StoreError: another process has it, or it has a second name.
                sqlite3.Error, OSError: it cannot be used.
        """
        if self.read_only:
            check_lone(self.path)
            self._mode = read_mode(self.path)
            self.writer = self._connect()
            self._idle.put(self.writer)
            return
        revision_path = self.path.with_suffix(REVISION_SUFFIX)
        self._lock = lock_for_this_process(self.path)
        self._revision_file = RevisionFile(revision_path)
        if not self.path.exists():
            create(self.path)  # SQLite would let others read it, and its log
        check_lone(self.path)
        self._file_ids = {
            str(self.path): id_of(self.path),
            str(lock_path(self.path)): id_of(self._lock.fileno()),
            str(revision_path): id_of(self._revision_file.fileno()),
        }
        self.writer = self._connect()
        self.writer.execute("PRAGMA journal_mode = WAL")
        self.writer.execute("PRAGMA synchronous = FULL")  # an acknowledged change is on disk
        (page_bytes,) = self.writer.execute("PRAGMA page_size").fetchone()
        self.writer.execute(f"PRAGMA wal_autocheckpoint = {MOST_LOG_BYTES // page_bytes}")

    def check_files(self) -> None:
        """Compare the files that are open with those that have their names. Takes microseconds.

        Raises: NotReady: one was moved, deleted or replaced; what is written now would be lost.
        """
        for name, opened in self._file_ids.items():
            try:
                is_same = id_of(name) == opened
            except OSError as exc:
                raise NotReady(f"{name} cannot be reached ({exc.strerror}); {PUT_BACK}") from exc
            if not is_same:
                raise NotReady(f"{name} is another file than the one this service has open; {PUT_BACK}")

    def disconnect(self) -> None:
        """Close every connection; the last one merges the log into the file. The lock is kept."""
        self._file_ids.clear()
        for connection in self._connections:
            connection.close()

    def close(self) -> None:
        """Disconnect, and release the lock."""
        self.disconnect()
        for file in (self._lock, self._revision_file):
            if file is not None:
                file.close()

    def announce(self, url: str) -> None:
        """Tell commands that find the store in use where this process answers."""
        if self._lock is not None:
            write_url(self._lock, url)

    @property
    def revision(self) -> int:
        """The number of committed changes, of all collections."""
        return int(self.writer.execute("SELECT value FROM store WHERE key = 'revision'").fetchone()[0])

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that no other thread uses. In WAL mode readers do not wait for the writer.

        A store that is only read has one connection, whose snapshot all threads see: they wait for each other.

        Raises: NotReady: all others are lent, and the file is no longer there.
        """
        try:
            connection = self._idle.get(block=self.read_only)
        except Empty:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._idle.put(connection)

    @contextmanager
    def change(self) -> Iterator[int]:
        """Open a write transaction, and yield the revision it would have; without a commit it is rolled back.

        Raises: StorageFull: the disk is full; the transaction was rolled back.  Damaged.
                NotReady: the store's files were moved, before the change or during it.
        """
        with self._writing, sqlite_errors(self.path):
            self.check_files()
            folds_due = self.writer.total_changes // FOLD_EVERY_CHANGES
            try:
                self.writer.execute("BEGIN IMMEDIATE")
                yield self.revision + 1
                if not self.writer.in_transaction and self._revision_file is not None:
                    self.check_files()  # or it went into a file that nobody will open again
                    self._revision_file.record(self.revision)
                    if self.writer.total_changes // FOLD_EVERY_CHANGES > folds_due:
                        self.fold_log(self.writer)  # not during a commit, which would delay readers of the index
            finally:
                if self.writer.in_transaction:
                    self.writer.execute("ROLLBACK")

    def note(self, key: str, value: str) -> None:
        """Record a fact about the store. The revision does not change.

        Raises: StorageFull, NotReady, Damaged.
        """
        with closing(self._opened()) as connection, sqlite_errors(self.path):
            connection.execute("BEGIN IMMEDIATE")  # not on the writer's connection, which may be in use
            connection.execute("INSERT OR REPLACE INTO store VALUES (?, ?)", (key, value))
            connection.execute("COMMIT")

    def fold_log(self, connection: sqlite3.Connection | None = None) -> None:
        """Checkpoint: copy the log into the file, up to the oldest state that is being read. Nobody waits."""
        try:
            with nullcontext(connection) if connection else self.reader() as lent:
                lent.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, NotReady) as exc:  # nothing is lost: the log has it
            logger.warning("log not merged into the document store", extra={"reason": str(exc)})

    def _connect(self) -> sqlite3.Connection:
        """Open a connection that `disconnect` closes."""
        connection = self._opened()
        self._connections.append(connection)
        return connection

    def _opened(self) -> sqlite3.Connection:
        self.check_files()
        try:
            connection = connect(self.path, self._mode)
        except sqlite3.OperationalError as exc:
            if not self._connections:
                raise
            raise NotReady(f"document store {self.path} cannot be opened again ({exc}); {PUT_BACK}") from exc
        try:
            self.check_files()  # the name led there before and after
        except NotReady:
            connection.close()
            raise
        return connection


def beside(store: Path, suffix: str) -> Path:
    """Return a file that SQLite keeps beside a store, such as -wal, its log."""
    return store.with_name(f"{store.name}{suffix}")


def id_of(file: Path | str | int) -> FileId:
    """Return the device and the inode of a file. file: its name, or a descriptor."""
    status = os.stat(file)  # noqa: PTH116 - before each write: a Path takes longer
    return status.st_dev, status.st_ino


def read_mode(path: Path) -> str:
    """Return the mode for reading a store that a service may be using, or start to use meanwhile.

    A reader with other rights than the store's owner must not create the log: the owner could not open it. It then
    reads an unused store as immutable, which assumes that nobody writes meanwhile.
    """
    path = resolved(path)  # a log is beside the file, not beside a link
    if beside(path, "-wal").exists():  # a service is using it, or has crashed
        return "ro"
    try:
        can_owner_use_our_files = os.geteuid() in {0, path.stat().st_uid}  # SQLite gives root's files to the owner
        return "ro" if can_owner_use_our_files and os.access(path.parent, os.W_OK) else "ro&immutable=1"
    except OSError:
        return "ro&immutable=1"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a store, usable from any thread. mode: of SQLite's URI."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.create_function("caseless", 1, caseless, deterministic=True)  # of filters
    return connection


def commit(connection: sqlite3.Connection, revision: int) -> None:
    """Write a change to disk, under its revision."""
    connection.execute("UPDATE store SET value = ? WHERE key = 'revision'", (str(revision),))
    connection.execute("COMMIT")


def checksum(*parts: str | bytes) -> int:
    """Return the CRC-32 of the parts and their lengths. SQLite does not detect flipped bits in texts and vectors."""
    value = 0
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        value = zlib.crc32(data, zlib.crc32(len(data).to_bytes(8, "little"), value))
    return value


def damaged_document(id_: str, what: str) -> Damaged:
    """Return the error for a document whose checksum differs. what: the damaged part."""
    return Damaged(f"the {what} of {named(id_)} is damaged on the disk: put it again or delete it ({REPAIR})")


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors about the disk.

    Raises: StorageFull: the disk is full.  Damaged.  NotReady: the disk cannot be reached, or the store is closed.
            InvalidInput: an id or a value has half a surrogate pair.
    """
    try:
        yield
    except UnicodeEncodeError as exc:
        raise InvalidInput("an id or the filter is not valid Unicode: it has half a surrogate pair") from exc
    except sqlite3.DatabaseError as exc:
        if str(exc).startswith("Could not decode"):  # the message quotes a user's text: keep it out of logs
            raise Damaged(f"document store {path} is damaged on the disk (not UTF-8); {REPAIR}") from None
        if str(exc).startswith("Cannot operate on a closed"):
            raise NotReady(f"document store {path} is closed; open it again") from exc
        code = getattr(exc, "sqlite_errorcode", 0)
        if code in FULL:
            raise StorageFull("the disk of the document store is full (CROSSLET_DATA); nothing was changed") from exc
        if code & 0xFF in UNREACHABLE:
            raise NotReady(
                f"document store {path} cannot be reached ({exc}): look at its disk and its permissions (CROSSLET_DATA)"
            ) from exc
        if code & 0xFF in DAMAGED:
            raise Damaged(f"document store {path} is damaged on the disk ({exc}); {REPAIR}") from exc
        raise


class RevisionFile(FileIO):
    """The last acknowledged revision, in a file beside the store, open for writing.

    SQLite reads a truncated log or an empty file as a valid older store. This file reveals the loss. It is written
    after each change is on disk, so it is never ahead of an intact store.
    """

    def __init__(self, path: Path) -> None:
        """Raises: OSError: the file cannot be created."""
        super().__init__(open_private(path), "r+")
        if os.fstat(self.fileno()).st_size < REVISION_BYTES:
            with suppress(OSError):  # a full disk must not prevent reading the store
                os.pwrite(self.fileno(), b" " * REVISION_BYTES, 0)  # reserves the space for all later writes

    def revision(self) -> int:
        """Return the last acknowledged revision; 0 if there is none or the file is damaged."""
        return acknowledged_in(os.pread(self.fileno(), REVISION_BYTES, 0))

    def record(self, revision: int) -> None:
        """Record a revision that is on disk. If this fails, the change is still safe."""
        digits = f"{revision:020d}"
        with suppress(OSError):
            os.pwrite(self.fileno(), f"{digits} {_crc(digits)}".ljust(REVISION_BYTES - 1).encode() + b"\n", 0)


def acknowledged_in(content: bytes) -> int:
    """Return the revision that a `RevisionFile` has; 0 if it has none or is damaged."""
    digits, _, expected = content.decode(errors="replace").strip().partition(" ")
    return int(digits) if digits.isdecimal() and expected == _crc(digits) else 0


def _crc(digits: str) -> str:
    return f"{zlib.crc32(digits.encode()):08x}"
