"""The document store in SQLite, the source of truth for accepted documents."""

import json
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from service.documents.filters import Condition
from service.documents.protocol import Rows, Vectors
from service.documents.store.compatibility import usable_version
from service.documents.store.integrity import damaged_document, undamaged, unless_full
from service.documents.store.locking import connect, lock_for_this_process, read_mode
from service.documents.store.revision_file import REVISION_SUFFIX, RevisionFile
from service.documents.store.rows import Page, StoredDocument, columns, to_document
from service.documents.store.schema import (
    CHECKSUMS_SINCE,
    PATHS_SINCE,
    bring_up_to_date,
    checksum,
    facts,
    shadow_fields,
)
from service.documents.store.transaction import Document, Transaction, rows_of
from service.errors import StoreError

__all__ = ["Document", "DocumentStore", "Page", "StoredDocument"]
VECTOR_COLUMNS = "row, id, vector"
STEPS_A_LOOK = 100_000  # SQLite instructions, a few milliseconds, between two looks at the clock
FOLD_AFTER_CHANGES = 2000  # changed rows between checkpoints of the log, which then has some 10 MB
MOST_LOG_PAGES = 20_000  # 80 MB: beyond this SQLite checkpoints during a commit

logger = logging.getLogger(__name__)


class DocumentStore:
    """One SQLite file in WAL mode. One thread writes at a time; any thread may read."""

    def __init__(self, path: Path, *, fingerprint: str, dim: int, read_only: bool = False) -> None:
        """Open the file, or create it.

        read_only: it exists, and another process may be writing it: this thread reads one snapshot.

        Raises: StoreError: it is not a store, is in use, or belongs to another model or schema.
        """
        self._path = path
        self._dim = dim
        self._readers = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._mode = read_mode(path) if read_only else "rwc"
        self._has_checksums = self._has_paths = True
        self._folded_at = 0
        self._lock = None if read_only else lock_for_this_process(path)
        self._revision_file: RevisionFile | None = None
        try:
            if not read_only:
                self._revision_file = RevisionFile(path.with_suffix(REVISION_SUFFIX))
            self._writer = self._connect()
            if not read_only:
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.execute("PRAGMA synchronous = FULL")  # an acknowledged change is on disk
                self._writer.execute(f"PRAGMA wal_autocheckpoint = {MOST_LOG_PAGES}")
                bring_up_to_date(self._writer, fingerprint=fingerprint, dim=self._dim)
            self._check(fingerprint)
            if read_only:
                self._reader().execute("BEGIN")
                _revision_of(self._reader())  # the first read fixes the snapshot
                if not self._has_paths:
                    shadow_fields(self._reader())
        except (sqlite3.Error, OSError) as exc:
            self.close()
            raise StoreError(f"document store {path} cannot be used ({exc}); CROSSLET_DATA names its folder") from exc
        except StoreError:
            self.close()
            raise

    def disconnect(self) -> None:
        """Close every connection; the last one merges the log into the file. The lock is kept."""
        for connection in self._connections:
            connection.close()

    def close(self) -> None:
        """Disconnect, and release the lock."""
        self.disconnect()
        if self._lock is not None:
            self._lock.close()
        if self._revision_file is not None:
            self._revision_file.close()
            self._revision_file = None

    @property
    def _columns(self) -> str:
        return columns(has_checksums=self._has_checksums)

    @property
    def _vector_columns(self) -> str:
        return f"{VECTOR_COLUMNS}, vector_checksum" if self._has_checksums else f"{VECTOR_COLUMNS}, NULL"

    @property
    def revision(self) -> int:
        """The number of committed changes."""
        return _revision_of(self._writer)

    @property
    def snapshot_ids(self) -> list[str]:
        """The ids of the last two index snapshots made from this store, the newest first."""
        return facts(self._reader()).get("snapshots", "").split()

    def remember_snapshot(self, id_: str) -> None:
        """Record an index snapshot before it is written. The revision does not change.

        Raises: StorageFull.
        """
        with closing(connect(self._path, self._mode)) as connection, unless_full():
            connection.execute("BEGIN IMMEDIATE")  # not on the writer's connection, which may be in use
            kept = " ".join([id_, *self.snapshot_ids[:1]])
            connection.execute("INSERT OR REPLACE INTO store VALUES ('snapshots', ?)", (kept,))
            connection.execute("COMMIT")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a write transaction, in one thread; without a commit it is rolled back.

        Raises: StorageFull: the disk is full; the transaction was rolled back.  Damaged.
        """
        try:
            with unless_full(), undamaged(self._path):
                self._writer.execute("BEGIN IMMEDIATE")
                transaction = Transaction(self._writer, self.revision + 1)
                yield transaction
            if not self._writer.in_transaction and self._revision_file is not None:
                self._revision_file.write(transaction.revision)
                self._fold_log()
        finally:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _fold_log(self) -> None:
        """Checkpoint the log now and then. Not during a commit, which would delay readers of the index."""
        if self._writer.total_changes - self._folded_at >= FOLD_AFTER_CHANGES:
            self._folded_at = self._writer.total_changes
            try:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
            except sqlite3.Error as exc:  # nothing is lost: the log has it
                logger.warning("log not merged into the document store", extra={"reason": str(exc)})

    def count(self) -> int:
        """Return the number of documents."""
        return int(self._all("SELECT count(*) FROM documents")[0][0])

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """The rows of the ids that exist."""
        with undamaged(self._path):
            return rows_of(self._reader(), ids)

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id.

        Raises, as every method that reads documents: Damaged: a checksum differs.
        """
        found = self._all(f"SELECT {self._columns} FROM documents WHERE id = ?", (id_,))  # noqa: S608
        return to_document(found[0]) if found else None

    def ids_of(self, rows: Sequence[int]) -> dict[int, str]:
        """Ids by row number, without reading texts; unknown rows are left out."""
        query = "SELECT row, id FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        return dict(self._all(query, (json.dumps(list(rows)),)))

    def fetch(
        self, rows: Sequence[int], *, text: bool = True, metadata: bool = True
    ) -> Generator[tuple[StoredDocument, int]]:
        """Yield documents by row number, each with the number of characters read; unknown rows are left out.

        Text and metadata that are not wanted are empty, and the checksum is not verified.
        """
        selected = columns(text=text, metadata=metadata, has_checksums=self._has_checksums)
        query = f"SELECT {selected} FROM documents WHERE row IN (SELECT value FROM json_each(?))"  # noqa: S608
        with undamaged(self._path):
            for found in self._reader().execute(query, (json.dumps(list(rows)),)):
                yield to_document(found), len(found[2]) + len(found[3])

    def page(self, *, after_row: int, limit: int, max_chars: int, among: Rows | None = None) -> Page:
        """Return the next documents: at most `limit` and `max_chars` characters, but at least one if any is left.

        among: rows in ascending order; None: all.
        """
        which: str = "row > ?"
        value: int | str = after_row
        if among is not None:
            start = int(among.searchsorted(after_row, side="right"))
            next_rows = among[start : start + limit + 1].tolist()
            which, value = "row IN (SELECT value FROM json_each(?))", json.dumps(next_rows)
        query = f"SELECT {self._columns} FROM documents WHERE {which} ORDER BY row LIMIT ?"  # noqa: S608
        documents: list[StoredDocument] = []
        chars = 0
        with undamaged(self._path):
            for found in self._reader().execute(query, (value, limit + 1)):  # one more: shows if there are others
                _, _, text, metadata, _, _ = found
                chars += len(text) + len(metadata)
                if len(documents) == limit or (documents and chars > max_chars):
                    return Page(documents, next_row=documents[-1].row)
                documents.append(to_document(found))
        return Page(documents, next_row=None)

    def matching(self, condition: Condition, *, until: float = math.inf) -> Rows:
        """Return the rows that match a filter, in ascending order.

        Raises: TimeoutError: it takes longer than `until`, a time of `time.monotonic`.
        """
        query = f"SELECT row FROM documents WHERE {condition.sql} ORDER BY row"  # noqa: S608 - built from constants
        self._reader().set_progress_handler(lambda: time.monotonic() > until, STEPS_A_LOOK)
        try:
            with undamaged(self._path):
                found = self._reader().execute(query, condition.values)
                return np.fromiter((row for (row,) in found), np.int64)
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            raise TimeoutError from exc
        finally:
            self._reader().set_progress_handler(None, 0)

    def vectors(self, *, changed_after: int = 0, batch: int = 4096) -> Iterator[tuple[list[int], Vectors]]:
        """Yield every row with its vector, in batches; or only rows changed after a revision."""
        which = f"WHERE revision > {int(changed_after)}" if changed_after else "ORDER BY row"
        with undamaged(self._path):
            cursor = self._reader().execute(f"SELECT {self._vector_columns} FROM documents {which}")  # noqa: S608
            while found := cursor.fetchmany(batch):
                yield self._stacked(found)

    def vectors_of(self, rows: Sequence[int]) -> tuple[list[int], Vectors]:
        """Return rows and vectors, in ascending order of rows; unknown rows are left out."""
        which = "WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row"
        query = f"SELECT {self._vector_columns} FROM documents {which}"  # noqa: S608
        return self._stacked(self._all(query, (json.dumps(list(rows)),)))

    def rows(self) -> Rows:
        """Every row number, in ascending order."""
        with undamaged(self._path):
            found = self._reader().execute("SELECT row FROM documents")
            return np.sort(np.fromiter((row for (row,) in found), np.int64))

    @contextmanager
    def read_transaction(self) -> Iterator[int]:
        """Let this thread read one state of the store; yields its revision."""
        reader = self._reader()
        with undamaged(self._path):
            if self._lock is None:  # read-only: one snapshot anyway
                yield _revision_of(reader)
                return
            reader.execute("BEGIN")
            try:
                yield _revision_of(reader)
            finally:
                if reader.in_transaction:
                    reader.execute("ROLLBACK")

    def _all(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with undamaged(self._path):
            return self._reader().execute(query, values).fetchall()

    def _stacked(self, found: Sequence[tuple[int, str, bytes, int | None]]) -> tuple[list[int], Vectors]:
        for _, id_, vector, expected in found:
            if expected is not None and checksum(vector) != expected:
                raise damaged_document(id_, "vector")
        vectors_ND = np.frombuffer(b"".join(vector for _, _, vector, _ in found), "<f4").reshape(-1, self._dim)
        return [row for row, _, _, _ in found], vectors_ND

    def _reader(self) -> sqlite3.Connection:
        """Return this thread's connection. In WAL mode readers do not wait for the writer."""
        if not hasattr(self._readers, "connection"):
            self._readers.connection = self._connect()
        connection: sqlite3.Connection = self._readers.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self._path, self._mode)
        self._connections.append(connection)
        return connection

    def _check(self, fingerprint: str) -> None:
        version = usable_version(
            self._path,
            facts(self._writer),
            fingerprint=fingerprint,
            answered=0 if self._revision_file is None else self._revision_file.revision(),
            migrated=self._lock is not None,
        )
        self._has_checksums = version >= CHECKSUMS_SINCE  # False for an older store that is only read
        self._has_paths = version >= PATHS_SINCE


def _revision_of(reader: sqlite3.Connection) -> int:
    """Return the revision that a connection sees."""
    return int(reader.execute("SELECT value FROM store WHERE key = 'revision'").fetchone()[0])
