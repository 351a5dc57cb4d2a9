"""One change of the document store: inserts, replaces and deletes documents, then commits."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import orjson

from service.documents.document import Document, Vectors
from service.documents.filters import add_fields, fields_of
from service.documents.keywords.index import KeywordIndex
from service.documents.store.connections import checksum, damaged_document

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
COMMIT = """
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
        self._has_passages = False  # whether one's number is not its document's row
        self._rebuild_keywords = False  # a damaged text cannot be un-indexed
        self.revision = revision
        self.new = 0  # documents added, less those removed
        self.removed: list[int] = []  # numbers of passages

    def upsert(self, documents: Sequence[Document], vectors_ND: Vectors) -> list[int]:
        """Insert or replace documents. Return the numbers of their passages, in order, which have the vectors.

        A replaced document keeps its row, and as many of its passages' numbers as it has passages.
        """
        numbers: list[int] = []
        vectors = [vector_D.astype("<f4").tobytes() for vector_D in vectors_ND]
        wanted = sum(len(document.spans) for document in documents)
        if wanted != len(vectors):
            raise ValueError(f"{len(documents)} documents have {wanted} passages, but there are {len(vectors)} vectors")
        for document in documents:
            start = len(numbers)
            numbers += self._upsert_one(document, vectors[start : start + len(document.spans)])
        return numbers

    def update_metadata(self, id_: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> bool:
        """Replace a document's metadata by what `change` makes of them. Return whether there is such a document.

        Raises: Damaged: its checksum differs.  What `change` does.
        """
        query = f"{STORED} WHERE collection = ? AND id = ?"
        stored = self._connection.execute(query, (self._collection, id_)).fetchone()
        if stored is None:
            return False
        if _is_damaged(stored):
            raise damaged_document(id_, "text or metadata")
        row, _, text, before, _ = stored
        metadata = change(orjson.loads(before))
        dumped = orjson.dumps(metadata).decode()
        values = (dumped, self.revision, checksum(id_, text, dumped), row)
        self._connection.execute(
            "UPDATE documents SET metadata = ?, revision = ?, text_checksum = ? WHERE row = ?", values
        )
        self._connection.execute("DELETE FROM fields WHERE row = ?", (row,))
        add_fields(self._connection, self._collection, row, metadata)
        return True

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the ids that exist."""
        query = "SELECT row FROM documents WHERE collection = ? AND id = ?"
        found = (self._connection.execute(query, (self._collection, id_)).fetchone() for id_ in dict.fromkeys(ids))
        return [row[0] for row in found if row is not None]

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
        for row in rows:
            stored = self._connection.execute(f"{STORED} WHERE row = ?", (row,)).fetchone()
            if stored is None:
                continue
            id_ = stored[1].decode(errors="replace")
            if _is_damaged(stored):
                raise damaged_document(id_, "text or metadata")
            metadata = fields_of(orjson.loads(stored[3]))
            wanted = {(path, *kind) for path, kinds in metadata.items() for kind in kinds}
            query = "SELECT key, kind, value FROM fields WHERE collection = ? AND row = ?"
            if wanted != set(self._connection.execute(query, (self._collection, row))):
                raise damaged_document(id_, "filterable metadata")

    def delete(self, rows: Sequence[int]) -> None:
        """Remove documents by row."""
        for row in rows:
            stored = self._connection.execute(f"{STORED} WHERE row = ?", (row,)).fetchone()
            if stored is None:
                continue
            self._forget(stored)
            self.removed += self._passages_of(row)
            for table in ("fields", "passages", "documents"):
                self._connection.execute(f"DELETE FROM {table} WHERE row = ?", (row,))  # noqa: S608 - constants
            self.new -= 1

    def remake_keywords(self) -> None:
        """Rebuild the keywords from the texts."""
        self._keywords.remake()

    def commit(self) -> None:
        """Write the change to disk, under its revision."""
        self._connection.execute(COMMIT, (self.revision, self.new, self._has_passages, self._collection))
        if self._rebuild_keywords:
            self._keywords.fill()
        self._connection.execute("UPDATE store SET value = ? WHERE key = 'revision'", (str(self.revision),))
        self._connection.execute("COMMIT")

    def _upsert_one(self, document: Document, vectors: Sequence[bytes]) -> list[int]:
        metadata = orjson.dumps(document.metadata).decode()
        text_checksum = checksum(document.id, document.text, metadata)
        values = (document.text, metadata, self.revision, text_checksum, document.is_truncated)
        query = f"{STORED} WHERE collection = ? AND id = ?"
        stored = self._connection.execute(query, (self._collection, document.id)).fetchone()
        if stored is None:
            (row,) = self._connection.execute(INSERT, (*values, document.id, self._collection)).fetchone()
            self.new += 1
        else:
            row = stored[0]
            self._connection.execute(UPDATE, (*values, row))
            self._connection.execute("DELETE FROM fields WHERE row = ?", (row,))
        if stored is None:
            self._keywords.add(row, document.text)
        elif stored[2] != document.text.encode() or _is_damaged(stored):
            self._forget(stored)
            self._keywords.add(row, document.text)
        add_fields(self._connection, self._collection, row, document.metadata)
        return self._replace_passages(row, document, vectors)

    def _replace_passages(self, row: int, document: Document, vectors: Sequence[bytes]) -> list[int]:
        """Numbers that rise with the place in the document; those that it has come first: indexes grow with numbers."""
        there = self._passages_of(row)
        self._connection.execute("DELETE FROM passages WHERE row = ?", (row,))
        self.removed += there[len(vectors) :]
        numbers: list[int] = []
        for number, span, vector in zip_longest(there[: len(vectors)], document.spans, vectors):
            values = (number, row, self._collection, *span, vector, checksum(vector))
            numbers += self._connection.execute(INSERT_PASSAGE, values).fetchone()
        self._has_passages = self._has_passages or numbers != [row]
        return numbers

    def _passages_of(self, row: int) -> list[int]:
        query = "SELECT passage FROM passages WHERE row = ? ORDER BY passage"
        return [passage for (passage,) in self._connection.execute(query, (row,))]

    def _forget(self, stored: Stored) -> None:
        """Remove a document as it was from the keywords."""
        row, _, text, _, _ = stored
        if _is_damaged(stored):
            self._rebuild_keywords = True
        elif not self._rebuild_keywords:
            self._keywords.remove(row, text.decode())


def _is_damaged(stored: Stored) -> bool:
    _, id_, text, metadata, expected = stored
    return checksum(id_, text, metadata) != expected
