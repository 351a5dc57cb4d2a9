"""One change of the document store: inserts, replaces and deletes documents, then commits."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.documents.protocol import Vectors
from service.documents.store.fields import fields_of
from service.documents.store.schema import checksum

COLUMNS = ("id", "text", "metadata", "vector", "revision", "text_checksum", "vector_checksum")
# Two statements: SQLite's upsert uses up a row number even when it replaces, and indexes grow with the largest number.
UPDATE = f"UPDATE documents SET {', '.join(f'{name} = ?' for name in COLUMNS[1:])} WHERE id = ? RETURNING row"  # noqa: S608 - constants
INSERT = f"INSERT INTO documents ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) RETURNING row"  # noqa: S608


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
        self._connection.executemany("DELETE FROM fields WHERE row = ?", ((row,) for row in rows))
        self._connection.executemany("DELETE FROM documents WHERE row = ?", ((row,) for row in rows))

    def commit(self) -> None:
        """Write the change to disk, under its revision."""
        self._connection.execute("UPDATE store SET value = ? WHERE key = 'revision'", (str(self.revision),))
        self._connection.execute("COMMIT")

    def _upsert_one(self, document: Document, vector: bytes) -> int:
        metadata = orjson.dumps(document.metadata).decode()
        checksums = checksum(document.id, document.text, metadata), checksum(vector)
        values = (document.text, metadata, vector, self.revision, *checksums)
        found = self._connection.execute(UPDATE, (*values, document.id)).fetchone()
        (row,) = found or self._connection.execute(INSERT, (document.id, *values)).fetchone()
        self._connection.execute("DELETE FROM fields WHERE row = ?", (row,))
        self._connection.executemany(
            "INSERT INTO fields (key, kind, value, row) VALUES (?, ?, ?, ?)",
            ((path, *kind, row) for path, kinds in fields_of(document.metadata).items() for kind in kinds),
        )
        return int(row)


def rows_of(connection: sqlite3.Connection, ids: Sequence[str]) -> list[int]:
    """The rows of the ids that exist."""
    query = "SELECT row FROM documents WHERE id = ?"
    found = (connection.execute(query, (id_,)).fetchone() for id_ in dict.fromkeys(ids))
    return [row[0] for row in found if row is not None]
