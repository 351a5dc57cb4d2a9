"""One change of the document store: inserts, replaces and deletes documents, then commits."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.documents.keywords.index import KeywordIndex
from service.documents.protocol import Vectors
from service.documents.store.fields import fields_of
from service.documents.store.schema import DEFAULT, checksum

# Two statements: SQLite's upsert uses up a row number even when it replaces, and indexes grow with the largest number.
UPDATE = """
UPDATE documents SET text = ?, metadata = ?, revision = ?, text_checksum = ?, is_truncated = NULL WHERE row = ?
"""
INSERT = """
INSERT INTO documents (text, metadata, revision, text_checksum, id, collection) VALUES (?, ?, ?, ?, ?, ?) RETURNING row
"""
INSERT_PASSAGE = """
INSERT INTO passages (passage, row, collection, start, stop, vector, vector_checksum) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
STORED = "SELECT row, CAST(id AS BLOB), CAST(text AS BLOB), CAST(metadata AS BLOB), text_checksum FROM documents"
Stored = tuple[int, bytes, bytes, bytes, int]


@dataclass(frozen=True)
class Document:
    """A document as a client sends it. metadata: any JSON object."""

    id: str
    text: str
    metadata: Mapping[str, Any]


class Transaction:
    """The writes of one change; valid only inside `DocumentStore.transaction`."""

    def __init__(self, connection: sqlite3.Connection, revision: int) -> None:
        self._connection = connection
        self._keywords = KeywordIndex(connection, DEFAULT)
        self._new = 0  # documents more than there were
        self._is_refilling = False  # the keywords, for what a text was is not known
        self.revision = revision

    def upsert(self, documents: Sequence[Document], vectors_ND: Vectors) -> list[int]:
        """Insert or replace documents. Return their rows, in order; a replaced document keeps its row."""
        return [
            self._upsert_one(document, vector_D.astype("<f4").tobytes())
            for document, vector_D in zip(documents, vectors_ND, strict=True)
        ]

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """The rows of the ids that exist."""
        return rows_of(self._connection, ids)

    def delete(self, rows: Sequence[int]) -> None:
        """Remove documents by row."""
        for row in rows:
            stored = self._connection.execute(f"{STORED} WHERE row = ?", (row,)).fetchone()
            if stored is None:
                continue
            self._forget(stored)
            for table in ("fields", "passages", "documents"):
                self._connection.execute(f"DELETE FROM {table} WHERE row = ?", (row,))  # noqa: S608 - constants
            self._new -= 1

    def remake_keywords(self) -> None:
        """Make the keywords anew from the texts."""
        self._keywords.remake()

    def commit(self) -> None:
        """Write the change to disk, under its revision."""
        self._connection.execute(
            "UPDATE collections SET revision = ?, documents = documents + ? WHERE collection = ?",
            (self.revision, self._new, DEFAULT),
        )
        if self._is_refilling:
            self._keywords.fill()
        self._connection.execute("UPDATE store SET value = ? WHERE key = 'revision'", (str(self.revision),))
        self._connection.execute("COMMIT")

    def _upsert_one(self, document: Document, vector: bytes) -> int:
        metadata = orjson.dumps(document.metadata).decode()
        values = (document.text, metadata, self.revision, checksum(document.id, document.text, metadata))
        query = f"{STORED} WHERE collection = ? AND id = ?"
        stored = self._connection.execute(query, (DEFAULT, document.id)).fetchone()
        if stored is None:
            (row,) = self._connection.execute(INSERT, (*values, document.id, DEFAULT)).fetchone()
            self._new += 1
        else:
            row = stored[0]
            self._connection.execute(UPDATE, (*values, row))
            self._connection.execute("DELETE FROM fields WHERE row = ?", (row,))
            self._connection.execute("DELETE FROM passages WHERE row = ?", (row,))
        if stored is None:
            self._keywords.add(row, document.text)
        elif stored[2] != document.text.encode() or _is_damaged(stored):
            self._forget(stored)
            self._keywords.add(row, document.text)
        passage = (row, row, DEFAULT, 0, len(document.text), vector, checksum(vector))
        self._connection.execute(INSERT_PASSAGE, passage)
        self._connection.executemany(
            "INSERT INTO fields (collection, key, kind, value, row) VALUES (?, ?, ?, ?, ?)",
            ((DEFAULT, path, *kind, row) for path, kinds in fields_of(document.metadata).items() for kind in kinds),
        )
        return int(row)

    def _forget(self, stored: Stored) -> None:
        """Take a document as it was out of the keywords; of a damaged text nobody knows which it had."""
        row, _, text, _, _ = stored
        if _is_damaged(stored):
            self._is_refilling = True
        elif not self._is_refilling:
            self._keywords.remove(row, text.decode())


def _is_damaged(stored: Stored) -> bool:
    _, id_, text, metadata, expected = stored
    return checksum(id_, text, metadata) != expected


def rows_of(connection: sqlite3.Connection, ids: Sequence[str]) -> list[int]:
    """The rows of the ids that exist."""
    query = "SELECT row FROM documents WHERE collection = ? AND id = ?"
    found = (connection.execute(query, (DEFAULT, id_)).fetchone() for id_ in dict.fromkeys(ids))
    return [row[0] for row in found if row is not None]
