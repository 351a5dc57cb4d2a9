"""The open file of a document store: connections, write transactions, the log, and what SQLite says of damage."""

import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from service.documents.document import named
from service.documents.store.locking import check_lone, lock_for_this_process, lock_path, write_url
from service.errors import Damaged, NotReady, StorageFull
from service.process.files import PRIVATE, create, resolved

FOLD_AFTER_CHANGES = 2000  # of rows; the log then has some 10 MB
MOST_LOG_BYTES = 80_000_000  # at so many SQLite folds it within a commit
CACHED_STATEMENTS = 16  # per connection; each filter is a statement of its own, and a large one takes a megabyte
PUT_BACK = "put the same file back (CROSSLET_DATA), or start the service anew"

REPAIR = "`crosslet index verify` lists damage, `crosslet index repair` recomputes vectors"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = {  # SQLite's codes for a full disk, quota and shared memory
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}
UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
REVISION_SUFFIX = ".revision"  # suffix of the file beside the store
LENGTH = 40  # bytes: twenty digits, their CRC-32, padding; written in one call

FileId = tuple[int, int]  # device and inode

logger = logging.getLogger(__name__)


class StoreConnections:
    """One SQLite file in WAL mode. One thread writes at a time; any thread may read."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """read_only: the file exists, and another process may be writing it.

        Raises: StoreError: another process has it, or it has a second name.
                sqlite3.Error, OSError: it cannot be used.
        """
        self.path = path = resolved(path)  # its log and lock are where the file is, not a link to it
        self.read_only = read_only
        self._mode = read_mode(path) if read_only else "rw"  # never `rwc`: what is gone is not made anew
        self._known: dict[str, FileId] = {}
        self._readers = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._folded_at = 0
        self._revision_file: RevisionFile | None = None
        self._writing = threading.Lock()
        self._lock = None if read_only else lock_for_this_process(path)
        try:
            if not read_only:
                self._revision_file = RevisionFile(path.with_suffix(REVISION_SUFFIX))
                if not path.exists():
                    create(path)  # SQLite would let others read it, and its log
            check_lone(path)
            if not read_only:
                self._known[str(path)] = _id_of(path)
            self.writer = self._connect()
            if not read_only:
                self.writer.execute("PRAGMA journal_mode = WAL")
                self.writer.execute("PRAGMA synchronous = FULL")  # an acknowledged change is on disk
                (page_bytes,) = self.writer.execute("PRAGMA page_size").fetchone()
                self.writer.execute(f"PRAGMA wal_autocheckpoint = {MOST_LOG_BYTES // page_bytes}")
        except BaseException:
            self.close()
            raise

    def watch(self) -> None:
        """Have `check_files` look at the other files, too. Something was read, so that there is a log."""
        assert self._lock is not None  # noqa: S101 - only who writes asks
        assert self._revision_file is not None  # noqa: S101
        self._known |= {f"{self.path}{suffix}": _id_of(f"{self.path}{suffix}") for suffix in ("-wal", "-shm")}
        self._known[str(lock_path(self.path))] = _id_of(self._lock.fileno())
        self._known[str(self.path.with_suffix(REVISION_SUFFIX))] = _id_of(self._revision_file.fileno())

    def check_files(self) -> None:
        """Compare the files that are open with those that have their names. Takes microseconds.

        Raises: NotReady: one was moved, deleted or replaced; what is written now would be lost.
        """
        for name, known in self._known.items():
            try:
                is_there = _id_of(name) == known
            except OSError as exc:
                raise NotReady(f"{name} cannot be reached ({exc.strerror}); {PUT_BACK}") from exc
            if not is_there:
                raise NotReady(f"{name} is another file than the one this service has open; {PUT_BACK}")

    def disconnect(self) -> None:
        """Close every connection; the last one merges the log into the file. The lock is kept."""
        for connection in self._all:
            connection.close()

    def close(self) -> None:
        """Disconnect, and release the lock."""
        self.disconnect()
        if self._lock is not None:
            self._lock.close()
        if self._revision_file is not None:
            self._revision_file.close()
            self._revision_file = None

    def announce(self, url: str) -> None:
        """Tell commands that find the store in use where this process answers."""
        if self._lock is not None:
            write_url(self._lock, url)

    @property
    def acknowledged(self) -> int:
        """The last revision that was answered for; 0 where the file is only read."""
        return 0 if self._revision_file is None else self._revision_file.revision()

    @property
    def revision(self) -> int:
        """The number of committed changes, of all collections."""
        return int(self.writer.execute("SELECT value FROM store WHERE key = 'revision'").fetchone()[0])

    def reader(self) -> sqlite3.Connection:
        """This thread's connection. In WAL mode readers do not wait for the writer.

        Raises: NotReady: it is the thread's first, and the file is no longer there.
        """
        if not hasattr(self._readers, "connection"):
            self._readers.connection = self._connect()
        connection: sqlite3.Connection = self._readers.connection
        return connection

    @contextmanager
    def change(self) -> Iterator[int]:
        """Open a write transaction, and yield the revision it would have; without a commit it is rolled back.

        Raises: StorageFull: the disk is full; the transaction was rolled back.  Damaged.
                NotReady: the store's files were moved, before the change or during it.
        """
        with self._writing:
            self.check_files()
            try:
                with unless_full(), undamaged(self.path):
                    self.writer.execute("BEGIN IMMEDIATE")
                    yield self.revision + 1
                if not self.writer.in_transaction and self._revision_file is not None:
                    self.check_files()  # or it went into a file that nobody will open again
                    self._revision_file.write(self.revision)
                    self._fold_log()
            finally:
                if self.writer.in_transaction:
                    self.writer.execute("ROLLBACK")

    def note(self, key: str, value: str) -> None:
        """Record a fact about the store. The revision does not change.

        Raises: StorageFull, NotReady.
        """
        with closing(self._opened()) as connection, unless_full():
            connection.execute("BEGIN IMMEDIATE")  # not on the writer's connection, which may be in use
            connection.execute("INSERT OR REPLACE INTO store VALUES (?, ?)", (key, value))
            connection.execute("COMMIT")

    def fold_log(self, connection: sqlite3.Connection | None = None) -> None:
        """Checkpoint: the file gets what is in the log, up to the oldest state that is being read. Nobody waits."""
        try:
            (connection or self.reader()).execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, NotReady) as exc:  # nothing is lost: the log has it
            logger.warning("log not merged into the document store", extra={"reason": str(exc)})

    def _fold_log(self) -> None:
        """Fold the log now and then. Not during a commit, which would delay readers of the index."""
        if self.writer.total_changes - self._folded_at >= FOLD_AFTER_CHANGES:
            self._folded_at = self.writer.total_changes
            self.fold_log(self.writer)

    def _connect(self) -> sqlite3.Connection:
        connection = self._opened()
        self._all.append(connection)
        return connection

    def _opened(self) -> sqlite3.Connection:
        self.check_files()
        try:
            connection = connect(self.path, self._mode)
        except sqlite3.OperationalError as exc:
            if not self._all:
                raise
            raise NotReady(f"document store {self.path} cannot be opened again ({exc}); {PUT_BACK}") from exc
        try:
            self.check_files()  # the name led there before and after
        except NotReady:
            connection.close()
            raise
        return connection


def _id_of(file: Path | str | int) -> FileId:
    """file: its name, or a descriptor."""
    found = os.stat(file)  # noqa: PTH116 - before each write: a Path takes longer
    return found.st_dev, found.st_ino


def read_mode(path: Path) -> str:
    """Return the mode for reading a store that a service may be using, or start to use meanwhile.

    A reader with other rights than the store's owner must not create the log: the owner could not open it. It then
    reads an unused store as immutable, which assumes that nobody writes meanwhile.
    """
    is_open = path.with_name(f"{path.name}-wal").exists()  # a service is using it, or has crashed
    return "ro" if is_open or _is_ours(path) else "ro&immutable=1"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a connection to a store, usable from any thread. mode: of SQLite's URI."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
        cached_statements=CACHED_STATEMENTS,
    )


def _is_ours(path: Path) -> bool:
    """Return whether the store's owner can use files that this process creates; SQLite gives root's to the owner."""
    try:
        return os.geteuid() in {0, path.stat().st_uid} and os.access(path.parent, os.W_OK)
    except OSError:
        return False


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
def undamaged(path: Path) -> Iterator[None]:
    """Convert SQLite's errors about damage, and about a disk that went away.

    Raises: Damaged, NotReady.
    """
    try:
        yield
    except sqlite3.DatabaseError as exc:
        if str(exc).startswith("Could not decode"):  # the message quotes a user's text: keep it out of logs
            raise Damaged(f"document store {path} is damaged on the disk (not UTF-8); {REPAIR}") from None
        code = getattr(exc, "sqlite_errorcode", 0)
        if code & 0xFF in UNREACHABLE and code not in FULL:
            raise NotReady(
                f"document store {path} cannot be reached ({exc}): look at its disk and its permissions (CROSSLET_DATA)"
            ) from exc
        if code & 0xFF not in DAMAGED:
            raise
        raise Damaged(f"document store {path} is damaged on the disk ({exc}); {REPAIR}") from exc


@contextmanager
def unless_full() -> Iterator[None]:
    """Convert SQLite's errors about a full disk.

    Raises: StorageFull: the change was rolled back.
    """
    try:
        yield
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode not in FULL:
            raise
        raise StorageFull("the disk of the document store is full (CROSSLET_DATA); nothing was changed") from exc


class RevisionFile:
    """The last acknowledged revision, in a file beside the store, open for writing.

    SQLite reads a truncated log or an empty file as a valid older store. This file reveals the loss. It is written
    after each change is on disk, so it is never ahead of an intact store.
    """

    def __init__(self, path: Path) -> None:
        """Raises: OSError: the file cannot be created."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        if os.fstat(self._file).st_size < LENGTH:
            with suppress(OSError):  # a full disk must not prevent reading the store
                os.pwrite(self._file, b" " * LENGTH, 0)  # reserves the space for all later writes

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._file

    def revision(self) -> int:
        """Return the last acknowledged revision; 0 if there is none or the file is damaged."""
        digits, _, checksum = os.pread(self._file, LENGTH, 0).decode(errors="replace").strip().partition(" ")
        is_whole = digits.isdecimal() and checksum == _checksum(digits)
        return int(digits) if is_whole else 0

    def write(self, revision: int) -> None:
        """Record a revision that is on disk. If this fails, the change is still safe."""
        digits = f"{revision:020d}"
        with suppress(OSError):
            os.pwrite(self._file, f"{digits} {_checksum(digits)}".ljust(LENGTH - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _checksum(digits: str) -> str:
    return f"{zlib.crc32(digits.encode()):08x}"
