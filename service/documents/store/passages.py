"""Reads passages: their vectors, their places in documents, and which document each belongs to.

A document in one piece has one passage. Until a collection has the first longer one, each passage has the number of its
document's row (`has_own_numbers`), and nothing need be looked up.

P passages, D dims
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from service.documents.protocol import Rows, Vectors
from service.documents.store.document import Span
from service.documents.store.integrity import damaged_document, undamaged
from service.documents.store.schema import checksum

NUMBERED = "SELECT passage, vector, vector_checksum FROM passages"
LISTED = "IN (SELECT value FROM json_each(?))"


class PassageReader:
    """The passages of one collection, over the connection of the thread that asks.

    Raises, where it reads vectors: Damaged: a checksum differs.
    """

    def __init__(self, path: Path, reader: Callable[[], sqlite3.Connection], *, dim: int, collection: int) -> None:
        self._path = path
        self._reader = reader
        self._dim = dim
        self._ours = f"collection = {int(collection)}"

    def count(self) -> int:
        """How many there are."""
        return int(self._all(f"SELECT count(*) FROM passages WHERE {self._ours}")[0][0])  # noqa: S608

    def largest(self) -> int:
        """The largest number; 0: there are none."""
        return int(self._all(f"SELECT coalesce(max(passage), 0) FROM passages WHERE {self._ours}")[0][0])  # noqa: S608

    @property
    def has_own_numbers(self) -> bool:
        """Whether a passage may have another number than its document's row."""
        query = f"SELECT json_extract(settings, '$.has_passages') FROM collections WHERE {self._ours}"  # noqa: S608
        found = self._all(query)
        return bool(found and found[0][0])  # none: the collection was dropped

    def numbers(self) -> Rows:
        """Every number, in ascending order."""
        with undamaged(self._path):
            found = self._reader().execute(f"SELECT passage FROM passages WHERE {self._ours}")  # noqa: S608
            return np.sort(np.fromiter((number for (number,) in found), np.int64))

    def numbers_of(self, rows: Sequence[int]) -> Rows:
        """The numbers of the passages of some documents, in ascending order."""
        found = self._all(f"SELECT passage FROM passages WHERE row {LISTED}", rows)  # noqa: S608
        return np.sort(np.fromiter((number for (number,) in found), np.int64))

    def rows_of(self, numbers: Sequence[int]) -> dict[int, int]:
        """The document's row of each passage; unknown ones are left out."""
        return dict(self._all(f"SELECT passage, row FROM passages WHERE passage {LISTED}", numbers))  # noqa: S608

    def of_document(self, row: int) -> tuple[list[Span], Vectors]:
        """The places and the vectors of a document's passages, in order."""
        return self.spans_of([row]).get(row, []), self.vectors_of_documents([row])[1]

    def spans_of(self, rows: Sequence[int]) -> dict[int, list[Span]]:
        """The places of each document's passages, in order."""
        spans: dict[int, list[Span]] = {}
        query = f"SELECT row, start, stop FROM passages WHERE row {LISTED} ORDER BY row, passage"  # noqa: S608
        for row, start, stop in self._all(query, rows):
            spans.setdefault(row, []).append((start, stop))
        return spans

    def vectors(self, *, changed_after: int = 0, batch: int = 4096) -> Iterator[tuple[list[int], Vectors]]:
        """Yield every number with its vector, in batches; or only those of documents changed after a revision."""
        which = f"WHERE {self._ours} ORDER BY passage"
        if changed_after:
            which = f"JOIN documents d USING (row) WHERE d.{self._ours} AND d.revision > {int(changed_after)}"
        with undamaged(self._path):
            cursor = self._reader().execute(f"{NUMBERED} {which}")
            while found := cursor.fetchmany(batch):
                yield self._stacked(found)

    def vectors_of(self, numbers: Sequence[int]) -> tuple[list[int], Vectors]:
        """Return numbers and vectors, in ascending order; unknown ones are left out."""
        return self._stacked(self._all(f"{NUMBERED} WHERE passage {LISTED} ORDER BY passage", numbers))

    def vectors_of_documents(self, rows: Sequence[int]) -> tuple[Rows, Vectors]:
        """Each passage's row and vector, by row, then as in the document; unknown rows are left out."""
        columns = "passage, vector, vector_checksum, row"
        found = self._all(f"SELECT {columns} FROM passages WHERE row {LISTED} ORDER BY row, passage", rows)  # noqa: S608
        _, vectors_PD = self._stacked([one[:3] for one in found])
        return np.fromiter((row for *_, row in found), np.int64, len(found)), vectors_PD

    def _all(self, query: str, listed: Sequence[int] | None = None) -> list[Any]:
        values = () if listed is None else (json.dumps(list(listed)),)
        with undamaged(self._path):
            return self._reader().execute(query, values).fetchall()

    def _stacked(self, found: Sequence[tuple[int, bytes, int]]) -> tuple[list[int], Vectors]:
        for number, vector, expected in found:
            if checksum(vector) != expected:
                query = f"SELECT id FROM documents WHERE row = (SELECT row FROM passages WHERE passage {LISTED})"  # noqa: S608
                raise damaged_document(self._all(query, [number])[0][0], "vector")
        vectors_PD = np.frombuffer(b"".join(vector for _, vector, _ in found), "<f4").reshape(-1, self._dim)
        return [number for number, _, _ in found], vectors_PD
