"""One change of the document store: inserts, replaces and deletes documents, then commits."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import orjson

from service.documents.document import Document, Vectors
from service.documents.filters import field_rows, replace_fields
from service.documents.keywords.index import KeywordIndex
from service.documents.store.connections import checksum, commit, damaged_document

# Two statements: SQLite's upsert uses up a row number even when it replaces, and indexes grow with the largest number.
UPDATE = """
UPDATE documents SET text = ?, metadata = ?, revision = ?, text_checksum = ?, is_truncated = ? WHERE row = ?
"""
INSERT = """
INSERT INTO documents (text, metadata, revision, text_checksum, is_truncated, id, collection)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING row
"""
INSERT_PASSAGE = """
INSERT INTO passages (passage, row, collection, start, stop, vector, vector_checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
RETURNING passage
"""
UPDATE_COLLECTION = """
UPDATE collections SET revision = ?, documents = documents + ?,
settings = CASE WHEN ? THEN json_set(settings, '$.has_passages', json('true')) ELSE settings END WHERE collection = ?
"""
STORED = "SELECT row, CAST(id AS BLOB), CAST(text AS BLOB), CAST(metadata AS BLOB), text_checksum FROM documents"
Stored = tuple[int, bytes, bytes, bytes, int]


class Transaction:
    """The writes of one change; valid only inside `DocumentStore.transaction`."""

    def __init__(self, connection: sqlite3.Connection, revision: int, collection: int) -> None:
        self._connection = connection
        self._collection = collection
        self._keywords = KeywordIndex(connection, collection)
        self._has_passages = False  # whether a passage's number is not its document's row
        self._rebuild_keywords = False  # a damaged text cannot be un-indexed
        self.revision = revision
        self.new = 0  # documents added, less those removed
        self.removed: list[int] = []  # numbers of passages

    def upsert(self, documents: Sequence[Document], vectors_PD: Vectors) -> list[int]:
        """Insert or replace documents. Return the numbers of their passages, in order, which have the vectors.

        A replaced document keeps its row, and as many of its passages' numbers as it has passages.
        """
        numbers: list[int] = []
        vectors = [vector_D.astype("<f4").tobytes() for vector_D in vectors_PD]
        count = sum(len(document.spans) for document in documents)
        if count != len(vectors):
            raise ValueError(f"{len(documents)} documents have {count} passages, but there are {len(vectors)} vectors")
        for document in documents:
            start = len(numbers)
            row = self._upsert_text(document)
            numbers += self._replace_passages(row, document, vectors[start : start + len(document.spans)])
        return numbers

    def update_metadata(self, id_: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> bool:
        """Replace a document's metadata by what `change` makes of them. Return whether there is such a document.

        Raises: Damaged: its checksum differs.  What `change` does.
        """
        stored = self._stored(id_)
        if stored is None:
            return False
        _check(stored)
        row, _, text, before, _ = stored
        metadata = change(orjson.loads(before))
        dumped = orjson.dumps(metadata).decode()
        self._connection.execute(
            "UPDATE documents SET metadata = ?, revision = ?, text_checksum = ? WHERE row = ?",
            (dumped, self.revision, checksum(id_, text, dumped), row),
        )
        replace_fields(self._connection, self._collection, row, metadata)
        return True

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the ids that exist."""
        return rows_of(self._connection, self._collection, ids)

    def count_passages(self, ids: Sequence[str]) -> int:
        """Return how many passages the documents of the ids have."""
        documents = "SELECT row FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?))"
        query = f"SELECT count(*) FROM passages WHERE row IN ({documents})"  # noqa: S608 - a constant
        values = (self._collection, orjson.dumps(list(ids)).decode())
        return int(self._connection.execute(query, values).fetchone()[0])

    def check_fields(self, rows: Sequence[int]) -> None:
        """Compare what filters see of documents with their metadata, which have a checksum.

        Raises: Damaged: they differ, or the checksum does.
        """
        for stored in self._all_stored(rows):
            _check(stored)
            row, id_, _, metadata, _ = stored
            query = "SELECT key, kind, value FROM fields WHERE collection = ? AND row = ?"
            there = set(self._connection.execute(query, (self._collection, row)))
            if there != set(field_rows(orjson.loads(metadata))):
                raise damaged_document(id_.decode(errors="replace"), "filterable metadata")

    def delete(self, rows: Sequence[int]) -> None:
        """Remove documents by row."""
        for stored in self._all_stored(rows):
            self._remove_keywords(stored)
            row = stored[0]
            self.removed += self._passages_of(row)
            for table in ("fields", "passages", "documents"):
                self._connection.execute(f"DELETE FROM {table} WHERE row = ?", (row,))  # noqa: S608 - constants
            self.new -= 1

    def remake_keywords(self) -> None:
        """Rebuild the keywords from the texts."""
        self._keywords.remake()

    def commit(self) -> None:
        """Write the change to disk, under its revision."""
        values = (self.revision, self.new, self._has_passages, self._collection)
        self._connection.execute(UPDATE_COLLECTION, values)
        if self._rebuild_keywords:
            self._keywords.fill()
        self._keywords.flush()
        commit(self._connection, self.revision)

    def _upsert_text(self, document: Document) -> int:
        """Insert or replace all but the passages. Return the row."""
        metadata = orjson.dumps(document.metadata).decode()
        text_checksum = checksum(document.id, document.text, metadata)
        values = (document.text, metadata, self.revision, text_checksum, document.is_truncated)
        stored = self._stored(document.id)
        row: int
        if stored is None:
            (row,) = self._connection.execute(INSERT, (*values, document.id, self._collection)).fetchone()
            self.new += 1
            self._keywords.add(row, document.text)
        else:
            row = stored[0]
            self._connection.execute(UPDATE, (*values, row))
            if stored[2] != document.text.encode() or _is_damaged(stored):
                self._remove_keywords(stored)
                self._keywords.add(row, document.text)
        replace_fields(self._connection, self._collection, row, document.metadata)
        return row

    def _replace_passages(self, row: int, document: Document, vectors: Sequence[bytes]) -> list[int]:
        """Store a document's passages. Return their numbers, which rise with the place in the document.

        The numbers that it has are used again: indexes grow with the largest number.
        """
        before = self._passages_of(row)
        self._connection.execute("DELETE FROM passages WHERE row = ?", (row,))
        self.removed += before[len(vectors) :]
        numbers: list[int] = []
        for number, span, vector in zip_longest(before[: len(vectors)], document.spans, vectors):
            values = (number, row, self._collection, *span, vector, checksum(vector))
            numbers += self._connection.execute(INSERT_PASSAGE, values).fetchone()
        self._has_passages = self._has_passages or numbers != [row]
        return numbers

    def _stored(self, id_: str) -> Stored | None:
        query, values = f"{STORED} WHERE collection = ? AND id = ?", (self._collection, id_)
        stored: Stored | None = self._connection.execute(query, values).fetchone()
        return stored

    def _all_stored(self, rows: Sequence[int]) -> Iterator[Stored]:
        """Yield the documents of the rows that exist."""
        for row in rows:
            yield from self._connection.execute(f"{STORED} WHERE row = ?", (row,)).fetchall()

    def _passages_of(self, row: int) -> list[int]:
        query = "SELECT passage FROM passages WHERE row = ? ORDER BY passage"
        return [passage for (passage,) in self._connection.execute(query, (row,))]

    def _remove_keywords(self, stored: Stored) -> None:
        if _is_damaged(stored):
            self._rebuild_keywords = True
        elif not self._rebuild_keywords:
            self._keywords.remove(stored[0], stored[2].decode())


def rows_of(connection: sqlite3.Connection, collection: int, ids: Sequence[str]) -> list[int]:
    """Return the rows of the ids that exist in a collection, without repeats."""
    query = "SELECT row FROM documents WHERE collection = ? AND id = ?"
    return [row for id_ in dict.fromkeys(ids) for (row,) in connection.execute(query, (collection, id_))]


def _is_damaged(stored: Stored) -> bool:
    _, id_, text, metadata, expected = stored
    return checksum(id_, text, metadata) != expected


def _check(stored: Stored) -> None:
    """Raises: Damaged: a document's checksum differs."""
    if _is_damaged(stored):
        raise damaged_document(stored[1].decode(errors="replace"), "text or metadata")
