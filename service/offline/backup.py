"""Backs up a document store beside a running service, and restores backups."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from service.documents.store.backup import back_up
from service.documents.store.connections import REVISION_SUFFIX, RevisionFile, beside
from service.documents.store.locking import lock_for_this_process
from service.documents.store.schema_check import LARGEST_RESTORED, check_numbers
from service.errors import StartError, StoreError
from service.offline.output import is_replaceable
from service.offline.repair import Advance, verify
from service.offline.store_file import OWN_FILES, check_there, open_store_file
from service.process.files import create_beside, flush, resolved

COPY = "documents.restored.sqlite3"  # in the data folder, until it takes the store's place
READER_WAIT_S = 1.0  # for another process that reads the replaced store


@dataclass(frozen=True)
class StoreSummary:
    """The contents of a backup or a restored store."""

    documents: int
    revision: int
    size_bytes: int
    fingerprint: str

    @classmethod
    def read(cls, path: Path) -> "StoreSummary":
        """Read the summary of a store."""
        with open_store_file(path) as file:
            return cls(file.total(), file.revision, path.stat().st_size, file.fingerprint)


def write_backup(
    store: Path, target: Path, *, advance: Callable[[int, int], object] = lambda done_bytes, all_bytes: None
) -> StoreSummary:
    """Copy the store to a file, which is whole or not there. A service may be writing the store.

    Args:   advance: called with the bytes copied and of all.
    Raises: StartError: there is no store, or the file cannot be created.  StoreError: the store cannot be read.
            StorageFull: the file does not fit.
    """
    check_there(store)
    try:
        file = _checked(target, store)
        partial = create_beside(file)
        try:
            back_up(store, partial, advance=advance)
            flush(partial)
            summary = StoreSummary.read(partial)
            partial.replace(file)
            flush(file.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as exc:
        raise StartError(f"{target} cannot be written ({exc.strerror})") from exc
    return summary


def _checked(target: Path, store: Path) -> Path:
    """Return the resolved target. Raises: StartError: no backup can be written there."""
    if target.exists() and not target.is_file():  # before a pipe's name is resolved to none
        raise StartError(f"{target} is not a file; SQLite cannot write a backup to it. POST /backup streams one")
    target = resolved(target)
    if target.parent == resolved(store).parent and any(fnmatch(target.name, pattern) for pattern in OWN_FILES):
        raise StartError(f"{target} is a file of the document store itself; write the backup to another place")
    if target.exists() and not is_replaceable(target):
        raise StartError(f"{target} cannot be replaced, as a mount point; name a file in a folder that can be written")
    if not target.parent.is_dir():
        raise StartError(f"there is no folder {target.parent}; make it first")
    return target


def restore(
    backup: Path, store: Path, *, force: bool = False, advance: Advance = lambda documents: None
) -> StoreSummary:
    """Copy a backup into the data folder, verify the copy, then replace the store by it.

    The restored store gets a higher revision than any acknowledged in its folder. So revisions never fall, and changes
    lost after a restore are still noticed.

    Args:   force: replace the store that is there.
            advance: called with the number of documents verified.
    Raises: StartError: there is no such backup, or a store is there and `force` is false.
            StoreError: the backup is damaged, or no store of a version that is read; or a process has the store open.
            StorageFull: the copy does not fit in the data folder.
    """
    _check_backup(backup, store)
    store = resolved(store)  # the file of a link is replaced, not the link
    lock = lock_for_this_process(store)
    copy = store.with_name(COPY)
    try:
        if store.exists() and not force:
            raise StartError(f"there is a document store {store} already; replace it with --force")
        # Without a log, open it as immutable: otherwise SQLite would leave an empty log beside it.
        back_up(backup, copy, mode="ro" if beside(resolved(backup), "-wal").exists() else "ro&immutable=1")
        with open_store_file(copy, named=backup) as file:
            check_numbers(backup, file.connection, largest=LARGEST_RESTORED)
            faults = verify(file, advance=advance)
        if faults:
            raise StoreError(
                f"{backup} is damaged, and nothing was restored: {faults[0]} (faults of {len(faults)} kinds); use "
                "another backup, or copy it to documents.sqlite3 in an empty CROSSLET_DATA and run `crosslet index "
                "repair`"
            )
        with closing(RevisionFile(store.with_suffix(REVISION_SUFFIX))) as acknowledged:
            _raise_revision(copy, max(acknowledged.revision(), _revision_of(store)) + 1)
            flush(copy)
            _remove_log(store)
            copy.replace(store)
            flush(store.parent)
            summary = StoreSummary.read(store)
            acknowledged.record(summary.revision)
        return summary
    except (OSError, sqlite3.Error) as exc:
        raise StoreError(f"document store {store} cannot be restored ({exc})") from exc
    finally:
        copy.unlink(missing_ok=True)
        lock.close()


def _check_backup(backup: Path, store: Path) -> None:
    try:
        if not backup.is_file():
            raise StartError(f"there is no backup {backup}")
        if store.exists() and backup.samefile(store):
            raise StartError(f"{backup} is the document store itself")
    except OSError as exc:
        raise StartError(f"{backup} cannot be read ({exc.strerror})") from exc


def _revision_of(store: Path) -> int:
    """Return the last revision of the store to replace; 0: there is none, or it is damaged: the reason to do so."""
    if not store.exists():
        return 0
    try:
        with open_store_file(store) as file:
            return file.revision
    except StoreError:
        return 0


def _raise_revision(copy: Path, least: int) -> None:
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        raised = connection.execute(
            "UPDATE store SET value = ? WHERE key = 'revision' AND CAST(value AS INTEGER) < ?", (str(least), least)
        )
        if raised.rowcount:
            connection.execute("UPDATE collections SET revision = ?", (least,))


def _remove_log(store: Path) -> None:
    """Merge the old store's log into it, or remove it with a damaged store: SQLite would apply it to the new one.

    Raises: StoreError: another process reads the old store.
    """
    if store.exists():
        try:
            with closing(sqlite3.connect(store, isolation_level=None, timeout=READER_WAIT_S)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as exc:
            if exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreError(f"another process reads document store {store}; run this again once it ends") from exc
    for suffix in ("-wal", "-shm", "-journal"):
        beside(store, suffix).unlink(missing_ok=True)
