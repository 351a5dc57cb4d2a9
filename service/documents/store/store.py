"""The document store in SQLite, the source of truth for accepted documents."""

import json
import logging
import math
import sqlite3
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.index import KeywordHits, KeywordIndex
from service.documents.keywords.terms import RULES
from service.documents.protocol import Rows
from service.documents.store.compatibility import usable_version
from service.documents.store.document import Document
from service.documents.store.facets import Facet, facet
from service.documents.store.integrity import undamaged, unless_full
from service.documents.store.locking import connect, given_up_at, lock_for_this_process, read_mode
from service.documents.store.older_stores import view_as_todays
from service.documents.store.passages import OF_DEFAULT, PassageReader
from service.documents.store.revision_file import REVISION_SUFFIX, RevisionFile
from service.documents.store.rows import Page, StoredDocument, columns, to_document
from service.documents.store.schema import DEFAULT, bring_up_to_date, facts
from service.documents.store.transaction import Transaction, rows_of
from service.errors import StoreError

__all__ = ["Document", "DocumentStore", "Page", "StoredDocument"]
FOLD_AFTER_CHANGES = 2000  # of rows; the log then has some 10 MB
MOST_LOG_PAGES = 20_000  # 80 MB: at so many SQLite folds it within a commit

logger = logging.getLogger(__name__)


class DocumentStore:
    """One SQLite file in WAL mode. One thread writes at a time; any thread may read."""

    def __init__(self, path: Path, *, fingerprint: str, dim: int, read_only: bool = False, chunks: bool = True) -> None:
        """Open the file, or create it.

        Args: read_only: it exists, and another process may be writing it: this thread reads one snapshot.
              chunks: what `chunks` says of a store that is created.

        Raises: StoreError: it is not a store, is in use, or belongs to another model or schema.
        """
        self._path = path
        self._dim = dim
        self._readers = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self.passages = PassageReader(path, self._reader, dim=dim)
        self._mode = read_mode(path) if read_only else "rwc"
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
                bring_up_to_date(self._writer, fingerprint=fingerprint, dim=self._dim, chunks=chunks)
            version = self._check(fingerprint)
            self._has_keywords = facts(self._writer).get("keywords") == RULES
            if read_only:
                self._reader().execute("BEGIN")
                _revision_of(self._reader())  # the first read fixes the snapshot
                view_as_todays(self._reader(), version, with_paths=True)
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
        """Fold the log now and then. Not during a commit, which would delay readers of the index."""
        if self._writer.total_changes - self._folded_at >= FOLD_AFTER_CHANGES:
            self._folded_at = self._writer.total_changes
            self.fold_log(self._writer)

    def fold_log(self, connection: sqlite3.Connection | None = None) -> None:
        """Checkpoint: the file gets what is in the log, up to the oldest state that is being read. Nobody waits."""
        try:
            (connection or self._reader()).execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as exc:  # nothing is lost: the log has it
            logger.warning("log not merged into the document store", extra={"reason": str(exc)})

    def count(self) -> int:
        """Return the number of documents."""
        return int(self._all(f"SELECT documents FROM collections WHERE {OF_DEFAULT}")[0][0])  # noqa: S608

    def rows(self) -> Rows:
        """Every document's row, in ascending order."""
        query = f"SELECT row FROM documents WHERE {OF_DEFAULT} ORDER BY row"  # noqa: S608
        return np.array([row for (row,) in self._all(query)], np.int64)

    @property
    def chunks(self) -> bool:
        """Whether documents are split into passages where nothing else is said; not in stores of before passages."""
        query = f"SELECT json_extract(settings, '$.chunk') FROM collections WHERE {OF_DEFAULT}"  # noqa: S608
        return bool(self._all(query)[0][0])

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """The rows of the ids that exist."""
        with undamaged(self._path):
            return rows_of(self._reader(), ids)

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id, with the places of its passages.

        Raises, as every method that reads documents: Damaged: a checksum differs.
        """
        found = self._all(f"SELECT {columns()} FROM documents WHERE {OF_DEFAULT} AND id = ?", (id_,))  # noqa: S608
        if not found:
            return None
        document = to_document(found[0])
        spans = self.passages.spans_of([document.row]).get(document.row, [])
        return replace(document, passages=tuple(spans)) if len(spans) > 1 else document

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
        selected = columns(text=text, metadata=metadata)
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
        query = f"SELECT {columns()} FROM documents WHERE {OF_DEFAULT} AND {which} ORDER BY row LIMIT ?"  # noqa: S608
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
        # `+`: rows come from the filter's own look-ups, not from all of the collection's.
        which = f"+{OF_DEFAULT} AND {condition.sql}"
        query = f"{FILTERABLE} SELECT row FROM documents WHERE {which} ORDER BY row"  # noqa: S608 - built from constants
        with undamaged(self._path), given_up_at(self._reader(), until):
            found = self._reader().execute(query, (DEFAULT, *condition.values))
            return np.fromiter((row for (row,) in found), np.int64)

    def facet(
        self, field: str, *, most_values: int, condition: Condition | None = None, until: float = math.inf
    ) -> Facet:
        """Count the documents that a filter selects by a field's values, as `facets.facet` says.

        Raises: TimeoutError: as `matching`.
        """
        with undamaged(self._path), given_up_at(self._reader(), until):
            return facet(self._reader(), field, collection=DEFAULT, most_values=most_values, condition=condition)

    def with_keywords(self, query: str, condition: Condition | None = None, *, until: float = math.inf) -> KeywordHits:
        """The documents that have a term of a query and that the filter selects, as `KeywordIndex.search` says.

        Raises: TimeoutError: as `matching`.
        """
        keywords = KeywordIndex(self._reader(), DEFAULT)
        if not self._has_keywords:  # only read, and its own are none, or of other rules
            keywords.create(schema="temp")
            keywords.fill()
            self._has_keywords = True
        with undamaged(self._path), given_up_at(self._reader(), until):
            return keywords.search(query, condition=condition)

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

    def _check(self, fingerprint: str) -> int:
        return usable_version(
            self._path,
            facts(self._writer),
            fingerprint=fingerprint,
            answered=0 if self._revision_file is None else self._revision_file.revision(),
            migrated=self._lock is not None,
        )


def _revision_of(reader: sqlite3.Connection) -> int:
    """Return the revision that a connection sees."""
    return int(reader.execute("SELECT value FROM store WHERE key = 'revision'").fetchone()[0])
