"""The document store in SQLite, the source of truth for accepted documents: opens it, changes it, and reads one state.

P passages, D dims
"""

import json
import math
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from service.documents.document import Page, Rows, Span, StoredDocument, Vectors
from service.documents.filters import FILTERABLE, Condition, Facet, Scalar, comparable, count_values
from service.documents.keywords.index import KeywordHits, KeywordIndex
from service.documents.keywords.terms import RULES
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.documents.store.catalog import Catalog, snapshots_key
from service.documents.store.connections import StoreConnections, checksum, damaged_document, id_of, sqlite_errors
from service.documents.store.schema import DEFAULT, create_or_renew, facts, is_blank, own_fields_of, recalibration_of
from service.documents.store.schema_check import check_facts, check_numbers, check_schema
from service.documents.store.transaction import Transaction, rows_of
from service.errors import Damaged, InvalidInput, NotFound, StoreError

STEPS_A_LOOK = 100_000  # of SQLite's machine, some milliseconds, until a look-up looks at the clock
LAST = int(np.iinfo(np.int64).max)  # the order key of a document without a value
MOST_LISTED = 2000  # of so many documents, fields are looked up one by one; of more, all of a field are read
NARROWER = "send a narrower filter"
IS_VALUE = "kind NOT IN ('null', 'other')"
LISTED = "IN (SELECT value FROM json_each(?))"  # SQLite limits how many question marks a query has
VECTORS = "SELECT passage, vector, vector_checksum FROM passages"


@dataclass(frozen=True)
class Deadline:
    """When a request's filters, keywords and passages must be found.

    at: of `time.monotonic`.  limit_s: what it was `after`, for messages.
    """

    at: float = math.inf
    limit_s: float = math.inf

    @classmethod
    def after(cls, limit_s: float | None) -> Self:
        """Start the time now. None: there is no limit."""
        return cls() if limit_s is None else cls(time.monotonic() + limit_s, limit_s)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.at

    def exceeded(self, what: str, way_out: str) -> InvalidInput:
        """Return the error of a request whose time is up."""
        return InvalidInput(f"{what} longer than {self.limit_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): {way_out}")


NO_DEADLINE = Deadline()


class FieldReader:
    """Reads the fields of one collection over a connection.

    Raises, where it takes longer than the deadline: InvalidInput.
    """

    def __init__(self, connection: sqlite3.Connection, number: int, deadline: Deadline = NO_DEADLINE) -> None:
        """number: of the collection."""
        self._connection = connection
        self.number = number
        self.deadline = deadline

    def ids_of(self, rows: Sequence[int]) -> dict[int, str]:
        """Return ids by row number, without reading texts; unknown rows are left out."""
        query = f"SELECT row, id FROM documents WHERE row {LISTED}"  # noqa: S608 - a constant
        return dict(self._all(query, _listed(rows)))

    def matching(self, condition: Condition) -> Rows:
        """Return the rows that match a filter, in ascending order."""
        # `+`: rows come from the filter's own look-ups, not from all of the collection's.
        which = f"+collection = ? AND {condition.sql}"
        query = f"{FILTERABLE} SELECT row FROM documents WHERE {which} ORDER BY row"  # noqa: S608 - built from constants
        with self._in_time("the filter takes", "send fewer or narrower ranges, or 'in' with their values"):
            return self._numbers(query, self.number, self.number, *condition.values)

    def by_id(self, condition: Condition | None) -> Rows:
        """Return the rows that match a filter, or all, in the order of their ids."""
        sql, values = ("", ()) if condition is None else (f"AND {condition.sql}", condition.values)
        query = f"{FILTERABLE} SELECT row FROM documents WHERE collection = ? {sql} ORDER BY id"  # noqa: S608 - built from constants
        with self._in_time("the filter takes", NARROWER):
            return self._numbers(query, self.number, self.number, *values)

    def order_keys(self, field: str, rows_N: Rows, *, descending: bool = False) -> Rows:
        """Return numbers that order documents by a field, as `arrangement` says; equal values have equal ones."""
        few = len(rows_N) <= MOST_LISTED
        which, value = (f"row {LISTED}", _listed(rows_N.tolist())) if few else ("collection = ?", self.number)
        query = (
            f"SELECT row, dense_rank() OVER (ORDER BY kind, value) FROM fields WHERE {which} AND key = ? AND {IS_VALUE}"  # noqa: S608
        )
        with self._in_time("sorting and grouping take", NARROWER):
            ranks = self._numbers(query, value, comparable(field)).reshape(-1, 2)
        if not len(ranks):
            return np.full(len(rows_N), LAST)
        row_V, key_V = ranks.T * np.array([[1], [-1 if descending else 1]])
        order = np.lexsort((key_V, row_V))
        row_M, first_M = np.unique(row_V[order], return_index=True)
        at_N = np.minimum(np.searchsorted(row_M, rows_N), len(row_M) - 1)
        return np.where(row_M[at_N] == rows_N, key_V[order][first_M][at_N], LAST)

    def first_values(self, field: str, rows: Sequence[int]) -> dict[int, Scalar]:
        """Return each document's first value of a field, in the order of `order_keys`; without one it is left out."""
        query = f"SELECT row, kind, value FROM fields WHERE row {LISTED} AND key = ? AND {IS_VALUE}"  # noqa: S608
        with self._in_time("grouping takes", NARROWER):
            stored = self._all(f"{query} ORDER BY kind DESC, value DESC", _listed(rows), comparable(field))
        return {row: (kind, value) for row, kind, value in stored}

    def count_by_first_value(
        self, field: str, values: Collection[Scalar], condition: Condition | None
    ) -> dict[Scalar, int]:
        """Count the documents with each first value that match a filter, or all."""
        if not values:
            return {}
        sql, tested = ("", ()) if condition is None else (f"AND {condition.sql}", condition.values)
        listed = ", ".join(["(?, ?)"] * len(values))
        # `wanted` first: its values are looked up, the others not read.
        query = f"""
        {FILTERABLE}, wanted (kind, value) AS (VALUES {listed})
        SELECT held.kind, held.value, count(*) FROM wanted CROSS JOIN fields AS held
        ON held.collection = ? AND key = ? AND held.kind = wanted.kind AND held.value = wanted.value
        WHERE NOT EXISTS (
            SELECT 1 FROM fields AS other WHERE other.row = held.row AND other.key = held.key AND other.{IS_VALUE}
            AND (other.kind, other.value) < (held.kind, held.value)
        ) {sql} GROUP BY 1, 2
        """  # noqa: S608 - built from constants
        bound = (self.number, *chain.from_iterable(values), self.number, comparable(field), *tested)
        with self._in_time("counting groups takes", NARROWER):
            return {(kind, value): count for kind, value, count in self._all(query, *bound)}

    def facet(self, field: str, *, most_values: int, condition: Condition | None = None) -> Facet:
        """Count the documents that match a filter by a field's values."""
        with self._in_time("the facets and their filter take", "send fewer facets, or a narrower filter"):
            return count_values(
                self._connection, field, collection=self.number, most_values=most_values, condition=condition
            )

    @contextmanager
    def _in_time(self, what: str, way_out: str) -> Iterator[None]:
        """Give up what the connection reads when the deadline is over. Raises: InvalidInput."""
        self._connection.set_progress_handler(lambda: self.deadline.is_over, STEPS_A_LOOK)
        try:
            yield
        except sqlite3.OperationalError as exc:
            if getattr(exc, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
                raise
            raise self.deadline.exceeded(what, way_out) from exc
        finally:
            self._connection.set_progress_handler(None, 0)

    def _all(self, query: str, *values: object) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def _numbers(self, query: str, *values: object) -> Rows:
        return np.fromiter(chain.from_iterable(self._connection.execute(query, values)), np.int64)


class DocumentStore(StoreConnections):
    """The documents of one collection of a store: `number`, at first the default one."""

    def __init__(self, path: Path, *, fingerprint: str, dim: int, read_only: bool = False, chunks: bool = True) -> None:
        """Open the file, or create it.

        Args: read_only: it exists, and another process may be writing it: all threads read one snapshot.
              chunks: whether a store that is created splits documents where nothing else is said.

        Raises: StoreError: it is not a store, is in use, or belongs to another model or schema.
        """
        super().__init__(path, read_only=read_only)
        self.dim = dim
        self.number = DEFAULT
        self.catalog = Catalog(self)
        self._is_view = False
        try:
            self.open()
            self._open_tables(fingerprint, chunks=chunks)
        except BaseException as exc:
            self.close()
            if isinstance(exc, sqlite3.Error | OSError):
                raise StoreError(
                    f"document store {path} cannot be used ({exc}); CROSSLET_DATA names its folder"
                ) from exc
            raise

    def _open_tables(self, fingerprint: str, *, chunks: bool) -> None:
        if self.read_only:
            self.writer.execute("BEGIN")  # the first read fixes the snapshot: a service may make collections meanwhile
        if not is_blank(self.writer):
            check_schema(self.path, self.writer)
        if not self.read_only:
            create_or_renew(self.writer, fingerprint=fingerprint, dim=self.dim, chunks=chunks)
        stated = facts(self.writer)
        acknowledged = 0 if self._revision_file is None else self._revision_file.revision()
        check_facts(self.path, stated, fingerprint=fingerprint, dim=self.dim, acknowledged=acknowledged)
        self.has_keywords = stated.get("keywords") == RULES
        check_numbers(self.path, self.writer)
        if not self.read_only:  # only now: the first read creates the log
            self._file_ids |= {f"{self.path}{suffix}": id_of(f"{self.path}{suffix}") for suffix in ("-wal", "-shm")}

    def of(self, number: int) -> "DocumentStore":
        """Return the documents of another collection, over the same connections: they are closed with this store."""
        view = copy(self)
        view.number = number
        view._is_view = True
        return view

    def close(self) -> None:
        """Disconnect, and release the lock; nothing for a collection that `of` gave."""
        if not self._is_view:
            super().close()

    @property
    def last_change(self) -> int:
        """The revision of the collection's last change, as the writer sees it."""
        return _last_change(self.writer, self.number)

    @property
    def snapshot_ids(self) -> list[str]:
        """The ids of the last two index snapshots made from this collection, the newest first."""
        with self.reader() as connection:
            return facts(connection).get(snapshots_key(self.number), "").split()

    def remember_snapshot(self, id_: str) -> None:
        """Record an index snapshot before it is written. The revision does not change.

        Raises: StorageFull.
        """
        self.note(snapshots_key(self.number), " ".join([id_, *self.snapshot_ids[:1]]))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a write transaction, in one thread; without a commit it is rolled back.

        Raises: StorageFull: the disk is full; the transaction was rolled back.  Damaged.
                NotFound: the collection was dropped.
        """
        with self.change() as revision:
            _last_change(self.writer, self.number)  # or it was dropped
            yield Transaction(self.writer, revision, self.number)

    @contextmanager
    def snapshot(self, deadline: Deadline = NO_DEADLINE) -> Iterator["Snapshot"]:
        """Open one state of the collection for this thread, which may have no other open.

        Raises: Damaged.  NotReady: the file is not there.  NotFound: the collection was dropped.
        """
        with self.reader() as connection, sqlite_errors(self.path):
            if not self.read_only:  # which has one state anyway
                connection.execute("BEGIN")
            try:
                yield Snapshot(self, connection, _last_change(connection, self.number), deadline)
                if connection.in_transaction and not self.read_only:
                    connection.execute("COMMIT")  # without what keywords made in `temp`, SQLite reads all schemas anew
            finally:
                if connection.in_transaction and not self.read_only:
                    connection.execute("ROLLBACK")


class CollectionSettings(ABC):
    """What the table of collections says of one collection."""

    @property
    def chunks(self) -> bool:
        """Whether documents are split into passages where nothing else is said."""
        return bool(self._setting("json_extract(settings, '$.chunk')"))

    @property
    def own_fields(self) -> OwnFields | None:
        """What the collection takes of documents with their own fields; None: it takes id, text and metadata."""
        return own_fields_of(self._setting("settings"))

    @property
    def recalibration(self) -> Recalibration | None:
        """How the confidence of the collection's searches is changed; None: as the model says."""
        return recalibration_of(self._setting("settings"))

    @abstractmethod
    def _setting(self, column: str) -> Any:
        """Return the value of a column, or of an expression over columns."""


class Snapshot(FieldReader, CollectionSettings):
    """One state of one collection, read over one connection.

    Raises, where it reads documents or vectors: Damaged: a checksum differs.
    Raises, where it takes longer than the deadline: InvalidInput.

    A document in one piece has one passage. Until a collection has the first longer one, each passage has the number of
    its document's row (`has_own_numbers`), and nothing need be looked up.
    """

    def __init__(self, store: DocumentStore, connection: sqlite3.Connection, revision: int, deadline: Deadline) -> None:
        """revision: of the collection's last change."""
        super().__init__(connection, store.number, deadline)
        self.revision = revision
        self._store = store

    def count(self) -> int:
        """Return the number of documents."""
        return int(self._setting("documents"))

    def content_bytes(self) -> int:
        """Return the bytes of all ids, texts and metadata."""
        sizes = " + ".join(f"length(CAST({column} AS BLOB))" for column in ("id", "text", "metadata"))
        query = f"SELECT coalesce(sum({sizes}), 0) FROM documents WHERE collection = ?"  # noqa: S608 - constants
        return int(self._all(query, self.number)[0][0])

    @property
    def has_own_numbers(self) -> bool:
        """Whether a passage may have another number than its document's row."""
        return bool(self._setting("json_extract(settings, '$.has_passages')"))

    def rows(self) -> Rows:
        """Return every document's row, in ascending order."""
        return self._numbers("SELECT row FROM documents WHERE collection = ? ORDER BY row", self.number)

    def truncated(self) -> Rows:
        """Return the rows of documents whose text was cut, in ascending order, as far as that is known."""
        query = "SELECT row FROM documents WHERE collection = ? AND is_truncated = 1 ORDER BY row"
        return self._numbers(query, self.number)

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the ids that exist."""
        return rows_of(self._connection, self.number, ids)

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id, with the places of its passages."""
        stored = self._all(f"{_document()} WHERE collection = ? AND id = ?", self.number, id_)
        if not stored:
            return None
        document = _to_document(stored[0])
        spans = self.spans_of([document.row]).get(document.row, [])
        return replace(document, passages=tuple(spans)) if len(spans) > 1 else document

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return the documents of the ids, but for missing and damaged ones."""
        documents: dict[str, StoredDocument] = {}
        for id_ in ids:
            with suppress(Damaged), sqlite_errors(self._store.path):
                if (document := self.get(id_)) is not None:
                    documents[id_] = document
        return documents

    def fetch(
        self, rows: Sequence[int], *, text: bool = True, metadata: bool = True
    ) -> Generator[tuple[StoredDocument, int]]:
        """Yield documents by row number, each with the number of characters read; unknown rows are left out.

        Text and metadata that are not wanted are empty, and the checksum is not verified.
        """
        query = f"{_document(text=text, metadata=metadata)} WHERE row {LISTED}"
        for stored in self._connection.execute(query, (_listed(rows),)):
            yield _to_document(stored), len(stored[2]) + len(stored[3])

    def page(self, *, after_row: int, limit: int, max_chars: int, among: Rows | None = None) -> Page:
        """Return the next documents: at most `limit` and `max_chars` characters, but at least one if any is left.

        among: rows in ascending order; None: all.
        """
        which: str = "row > ?"
        value: int | str = after_row
        if among is not None:
            start = int(among.searchsorted(after_row, side="right"))
            which, value = f"row {LISTED}", _listed(among[start : start + limit + 1].tolist())
        query = f"{_document()} WHERE collection = ? AND {which} ORDER BY row LIMIT ?"
        documents: list[StoredDocument] = []
        chars = 0
        # One more than asked for shows whether there are others.
        for stored in self._connection.execute(query, (self.number, value, limit + 1)):
            _, _, text, metadata, _, _ = stored
            chars += len(text) + len(metadata)
            if len(documents) == limit or (documents and chars > max_chars):
                return Page(documents, next_row=documents[-1].row)
            documents.append(_to_document(stored))
        return Page(documents, next_row=None)

    def with_keywords(self, query: str, condition: Condition | None = None, *, typing: bool = False) -> KeywordHits:
        """Return the documents that have a term of a query and match the filter, as `KeywordIndex.search` says."""
        keywords = KeywordIndex(self._connection, self.number)
        if not self._store.has_keywords and not keywords.is_temporary:
            keywords.create(schema="temp")  # Read-only and without current keyword tables: build temporary ones.
            keywords.fill()
        with self._in_time("the keywords and their filter take", "send fewer words, or a narrower filter"):
            return keywords.search(query, condition=condition, typing=typing)

    def count_passages(self) -> int:
        """Return the number of passages."""
        return int(self._all("SELECT count(*) FROM passages WHERE collection = ?", self.number)[0][0])

    def passages(self) -> Rows:
        """Return every passage's number, in ascending order."""
        return np.sort(self._numbers("SELECT passage FROM passages WHERE collection = ?", self.number))

    def passages_of(self, rows: Sequence[int]) -> Rows:
        """Return the numbers of the passages of some documents, in ascending order."""
        query = f"SELECT passage FROM passages WHERE row {LISTED}"  # noqa: S608 - a constant
        return np.sort(self._numbers(query, _listed(rows)))

    def rows_of_passages(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the document's row of each passage; unknown ones are left out."""
        query = f"SELECT passage, row FROM passages WHERE passage {LISTED}"  # noqa: S608 - a constant
        return dict(self._all(query, _listed(numbers)))

    def spans_of(self, rows: Sequence[int]) -> dict[int, list[Span]]:
        """Return the places of each document's passages, in order."""
        spans: dict[int, list[Span]] = {}
        query = f"SELECT row, start, stop FROM passages WHERE row {LISTED} ORDER BY row, passage"  # noqa: S608
        for row, start, stop in self._all(query, _listed(rows)):
            spans.setdefault(row, []).append((start, stop))
        return spans

    def vectors(self, *, changed_after: int = 0, batch: int = 4096) -> Iterator[tuple[list[int], Vectors]]:
        """Yield every passage's number and vector, in batches; or only of documents changed after a revision."""
        query, values = f"{VECTORS} WHERE collection = ? ORDER BY passage", [self.number]
        if changed_after:
            query = f"{VECTORS} JOIN documents d USING (row) WHERE d.collection = ? AND d.revision > ?"
            values = [self.number, changed_after]
        cursor = self._connection.execute(query, values)
        while stored := cursor.fetchmany(batch):
            yield self._stacked(stored)

    def vectors_of(self, numbers: Sequence[int]) -> tuple[list[int], Vectors]:
        """Return passages' numbers and vectors, in ascending order; unknown ones are left out."""
        query = f"{VECTORS} WHERE passage {LISTED} ORDER BY passage"
        return self._stacked(self._all(query, _listed(numbers)))

    def vectors_of_documents(self, rows: Sequence[int]) -> tuple[Rows, Vectors]:
        """Return each passage's row and vector, by row, then as in the document; unknown rows are left out."""
        columns = "passage, vector, vector_checksum, row"
        stored = self._all(f"SELECT {columns} FROM passages WHERE row {LISTED} ORDER BY row, passage", _listed(rows))  # noqa: S608
        _, vectors_PD = self._stacked([passage[:3] for passage in stored])
        return np.fromiter((row for *_, row in stored), np.int64, len(stored)), vectors_PD

    def _setting(self, column: str) -> Any:
        return self._all(f"SELECT {column} FROM collections WHERE collection = ?", self.number)[0][0]  # noqa: S608

    def _stacked(self, stored: Sequence[tuple[int, bytes, int]]) -> tuple[list[int], Vectors]:
        for number, vector, expected in stored:
            if checksum(vector) != expected:
                query = "SELECT id FROM documents WHERE row = (SELECT row FROM passages WHERE passage = ?)"
                raise damaged_document(self._all(query, number)[0][0], "vector")
        vectors_PD = np.frombuffer(b"".join(vector for _, vector, _ in stored), "<f4").reshape(-1, self._store.dim)
        return [number for number, _, _ in stored], vectors_PD


def _last_change(connection: sqlite3.Connection, number: int) -> int:
    """Return the revision of a collection's last change. Raises: NotFound: it was dropped."""
    stored = connection.execute("SELECT revision FROM collections WHERE collection = ?", (number,)).fetchone()
    if stored is None:
        raise NotFound("this collection was dropped meanwhile")
    return int(stored[0])


def _document(*, text: bool = True, metadata: bool = True) -> str:
    """Return the query for `_to_document`, without a condition. A checksum covers both text and metadata."""
    columns = ["row", "id", "text" if text else "''", "metadata" if metadata else "'{}'", "revision"]
    return f"SELECT {', '.join(columns)}, {'text_checksum' if text and metadata else 'NULL'} FROM documents"  # noqa: S608


def _to_document(stored: tuple[int, str, str, str, int, int | None]) -> StoredDocument:
    """Return the document of a row of `_document`. Raises: Damaged: its checksum differs."""
    row, id_, text, metadata, revision, expected = stored
    if expected is not None and checksum(id_, text, metadata) != expected:
        raise damaged_document(id_, "text or metadata")
    return StoredDocument(id=id_, text=text, metadata=orjson.loads(metadata), row=row, revision=revision)


def _listed(numbers: Sequence[int]) -> str:
    return json.dumps(list(numbers))
