"""The document store in SQLite, the source of truth for accepted documents."""

import json
import math
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.index import KeywordHits, KeywordIndex
from service.documents.keywords.terms import RULES
from service.documents.protocol import Rows
from service.documents.store.catalog import Catalog, snapshots_key, was_dropped
from service.documents.store.connections import StoreConnections
from service.documents.store.document import Document
from service.documents.store.facets import Facet, facet
from service.documents.store.integrity import undamaged
from service.documents.store.locking import given_up_at
from service.documents.store.passages import PassageReader
from service.documents.store.rows import Page, StoredDocument, columns, to_document
from service.documents.store.schema import DEFAULT, create_or_renew, facts, is_blank
from service.documents.store.schema_check import check_facts, check_numbers, check_schema
from service.documents.store.transaction import Transaction, rows_of
from service.errors import StoreError

__all__ = ["Document", "DocumentStore", "Page", "StoredDocument"]


class DocumentStore:
    """The documents of one collection of a store. One thread writes at a time; any thread may read."""

    def __init__(self, path: Path, *, fingerprint: str, dim: int, read_only: bool = False, chunks: bool = True) -> None:
        """Open the file, or create it; the documents are those of the default collection.

        Args: read_only: it exists, and another process may be writing it: this thread reads one snapshot.
              chunks: what `chunks` says of a store that is created.

        Raises: StoreError: it is not a store, is in use, or belongs to another model or schema.
        """
        self._owns = True
        self._dim = dim
        try:
            self._connections = StoreConnections(path, read_only=read_only)
        except (sqlite3.Error, OSError) as exc:
            raise _unusable(path, exc) from exc
        self._path = self._connections.path
        self.select(DEFAULT)
        try:
            self._open(fingerprint, read_only=read_only, chunks=chunks)
        except (sqlite3.Error, OSError) as exc:
            self.close()
            raise _unusable(path, exc) from exc
        except StoreError:
            self.close()
            raise

    def _open(self, fingerprint: str, *, read_only: bool, chunks: bool) -> None:
        self._writer = self._connections.writer
        looked_at = self._reader() if read_only else self._writer
        if read_only:
            looked_at.execute("BEGIN")  # the first read fixes the snapshot: a service may make collections meanwhile
        if not is_blank(looked_at):
            check_schema(self._path, looked_at)
        if not read_only:
            create_or_renew(self._writer, fingerprint=fingerprint, dim=self._dim, chunks=chunks)
        found, answered = facts(looked_at), self._connections.acknowledged
        check_facts(self._path, found, fingerprint=fingerprint, dim=self._dim, answered=answered)
        self._has_keywords = found.get("keywords") == RULES
        check_numbers(self._path, looked_at)
        if not read_only:
            self._connections.watch()
        self.catalog = Catalog(self._connections)

    def of(self, number: int) -> "DocumentStore":
        """The documents of another collection, over the same connections: they are closed with this store."""
        other = copy(self)
        other.select(number)
        other._owns = False
        return other

    def select(self, number: int) -> None:
        """Have the documents of another collection."""
        self.number = number
        self.passages = PassageReader(self._path, self._reader, dim=self._dim, collection=number)

    def disconnect(self) -> None:
        """Close every connection; the last one merges the log into the file. The lock is kept."""
        self._connections.disconnect()

    def close(self) -> None:
        """Disconnect, and release the lock."""
        if self._owns:
            self._connections.close()

    def check_files(self) -> None:
        """Raises: NotReady: the store's files were moved, deleted or replaced."""
        self._connections.check_files()

    def announce(self, url: str) -> None:
        """Tell commands that find the store in use where this process answers."""
        self._connections.announce(url)

    @property
    def revision(self) -> int:
        """The number of committed changes, of all collections."""
        return self._connections.revision

    @property
    def last_change(self) -> int:
        """The revision of the collection's last change."""
        return self._last_change(self._writer)

    @property
    def snapshot_ids(self) -> list[str]:
        """The ids of the last two index snapshots made from this collection, the newest first."""
        return facts(self._reader()).get(snapshots_key(self.number), "").split()

    def remember_snapshot(self, id_: str) -> None:
        """Record an index snapshot before it is written. The revision does not change.

        Raises: StorageFull.
        """
        self.note(snapshots_key(self.number), " ".join([id_, *self.snapshot_ids[:1]]))

    def note(self, key: str, value: str) -> None:
        """Record a fact about the store. The revision does not change.

        Raises: StorageFull.
        """
        self._connections.note(key, value)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a write transaction, in one thread; without a commit it is rolled back.

        Raises: StorageFull: the disk is full; the transaction was rolled back.  Damaged.
                NotFound: the collection was dropped.
        """
        with self._connections.change() as revision:
            self._last_change(self._writer)  # or it was dropped
            yield Transaction(self._writer, revision, self.number)

    def fold_log(self) -> None:
        """Checkpoint: the file gets what is in the log, up to the oldest state that is being read. Nobody waits."""
        self._connections.fold_log()

    def count(self) -> int:
        """Return the number of documents."""
        return int(self._of_collection("documents"))

    def rows(self) -> Rows:
        """Every document's row, in ascending order."""
        query = f"SELECT row FROM documents WHERE {self._ours} ORDER BY row"  # noqa: S608
        return np.array([row for (row,) in self._all(query)], np.int64)

    def truncated(self) -> Rows:
        """The rows of documents whose text was cut, in ascending order, as far as that is known."""
        rows = self._all(f"SELECT row FROM documents WHERE {self._ours} AND is_truncated = 1 ORDER BY row")  # noqa: S608
        return np.array(rows, np.int64).reshape(-1)

    @property
    def chunks(self) -> bool:
        """Whether documents are split into passages where nothing else is said."""
        return bool(self._of_collection("json_extract(settings, '$.chunk')"))

    def _of_collection(self, column: str) -> Any:
        """Raises: NotFound: it was dropped."""
        found = self._all(f"SELECT {column} FROM collections WHERE {self._ours}")  # noqa: S608
        if not found:
            raise was_dropped()
        return found[0][0]

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """The rows of the ids that exist."""
        with undamaged(self._path):
            return rows_of(self._reader(), self.number, ids)

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id, with the places of its passages.

        Raises, as every method that reads documents: Damaged: a checksum differs.
        """
        found = self._all(f"SELECT {columns()} FROM documents WHERE {self._ours} AND id = ?", (id_,))  # noqa: S608
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
        query = f"SELECT {columns()} FROM documents WHERE {self._ours} AND {which} ORDER BY row LIMIT ?"  # noqa: S608
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
        which = f"+{self._ours} AND {condition.sql}"
        query = f"{FILTERABLE} SELECT row FROM documents WHERE {which} ORDER BY row"  # noqa: S608 - built from constants
        with undamaged(self._path), given_up_at(self._reader(), until):
            found = self._reader().execute(query, (self.number, *condition.values))
            return np.fromiter((row for (row,) in found), np.int64)

    def facet(
        self, field: str, *, most_values: int, condition: Condition | None = None, until: float = math.inf
    ) -> Facet:
        """Count the documents that a filter selects by a field's values, as `facets.facet` says.

        Raises: TimeoutError: as `matching`.
        """
        with undamaged(self._path), given_up_at(self._reader(), until):
            return facet(self._reader(), field, collection=self.number, most_values=most_values, condition=condition)

    def with_keywords(self, query: str, condition: Condition | None = None, *, until: float = math.inf) -> KeywordHits:
        """The documents that have a term of a query and that the filter selects, as `KeywordIndex.search` says.

        Raises: TimeoutError: as `matching`.
        """
        keywords = KeywordIndex(self._reader(), self.number)
        if not self._has_keywords and not keywords.is_temporary:
            keywords.create(schema="temp")  # only read, and its own are none, or of other rules
            keywords.fill()
        with undamaged(self._path), given_up_at(self._reader(), until):
            return keywords.search(query, condition=condition)

    @contextmanager
    def read_transaction(self) -> Iterator[int]:
        """Let this thread read one state of the store; yields the revision of the collection's last change."""
        reader = self._reader()
        with undamaged(self._path):
            if self._connections.read_only:  # read-only: one snapshot anyway
                yield self._last_change(reader)
                return
            reader.execute("BEGIN")
            try:
                yield self._last_change(reader)
            finally:
                if reader.in_transaction:
                    reader.execute("ROLLBACK")

    def _all(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with undamaged(self._path):
            return self._reader().execute(query, values).fetchall()

    def _reader(self) -> sqlite3.Connection:
        return self._connections.reader()

    @property
    def _ours(self) -> str:
        """The condition of the collection's rows, a number of ours."""
        return f"collection = {self.number}"

    def _last_change(self, connection: sqlite3.Connection) -> int:
        found = connection.execute(f"SELECT revision FROM collections WHERE {self._ours}").fetchone()  # noqa: S608
        if found is None:
            raise was_dropped()
        return int(found[0])


def _unusable(path: Path, exc: Exception) -> StoreError:
    return StoreError(f"document store {path} cannot be used ({exc}); CROSSLET_DATA names its folder")
