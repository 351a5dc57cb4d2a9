"""The fields of documents from Milvus in SQLite, in memory: the embedded code filters, orders and counts them."""

import sqlite3
from collections.abc import Mapping

from service.documents.filters import caseless, fields_of
from service.documents.store.schema import DEFAULT, FIELDS
from service.documents.store.store import NO_DEADLINE, Deadline, FieldReader


class FieldsInMemory(FieldReader):
    """Reads documents that are kept elsewhere: those that were added."""

    def __init__(self, deadline: Deadline = NO_DEADLINE) -> None:
        """Make empty tables."""
        super().__init__(sqlite3.connect(":memory:", check_same_thread=False), DEFAULT, deadline)
        self._connection.create_function("caseless", 1, caseless, deterministic=True)  # of filters
        self._connection.executescript(
            f"CREATE TABLE documents (row INTEGER PRIMARY KEY, collection INTEGER NOT NULL, id TEXT NOT NULL);{FIELDS}"
        )

    def add(self, row: int, id_: str, metadata: Mapping[str, object]) -> None:
        """Add a document."""
        self._connection.execute("INSERT INTO documents VALUES (?, ?, ?)", (row, DEFAULT, id_))
        scalars_at = fields_of(metadata).items()
        fields = ((DEFAULT, path, *scalar, row) for path, scalars in scalars_at for scalar in scalars)
        self._connection.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)", fields)

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()
