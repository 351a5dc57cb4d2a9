"""Reads a document store as it is on the disk, whatever model made it. Knows its tables; knows no search.

A service may be writing meanwhile: everything is read of one moment.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.errors import StartError, StoreError
from service.index.documents import DocumentStore, read_mode
from service.index.filters import stored_kinds

NORM_TOLERANCE = 1e-3
BATCH_ROWS = 1024
OWN_FILES = ("documents.*", "index*")  # in the folder of documents.sqlite3


@dataclass(frozen=True)
class Exported:
    """A document as `export` writes it.  metadata: JSON.  vector: little-endian float32."""

    id: str
    text: str
    metadata: bytes
    vector: bytes


class StoreFile:
    """The tables of one store, read-only. Nothing is believed of what they hold."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        facts = dict(connection.execute("SELECT key, value FROM store").fetchall())
        try:
            self.fingerprint, self.dim, self.revision = facts["fingerprint"], int(facts["dim"]), int(facts["revision"])
            self.schema_version = int(facts["schema_version"])
        except (KeyError, ValueError) as exc:
            raise StoreError(f"document store {path} does not say what it holds ({exc})") from exc

    def count(self) -> int:
        """How many documents there are."""
        return int(self._one("SELECT count(*) FROM documents"))

    def languages(self) -> dict[str, int]:
        """Documents by the `lang` of their metadata, most first."""
        query = (
            "SELECT value, count(*) FROM fields WHERE key = 'lang' AND kind = 'string' "
            "GROUP BY value ORDER BY count(*) DESC, value"
        )
        return dict(self._connection.execute(query).fetchall())

    def size_bytes(self) -> int:
        """What the store takes on the disk, with its log and the snapshots derived from it."""
        files = [file for pattern in OWN_FILES for file in self._path.parent.glob(pattern)]
        return sum(file.stat().st_size for file in files)

    def documents(self) -> Iterator[Exported]:
        """Every document, in the order of first arrival."""
        query = "SELECT id, text, CAST(metadata AS BLOB), vector FROM documents ORDER BY row"
        for found in self._connection.execute(query):
            yield Exported(*found)

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of the ids that no document has."""
        query = "SELECT 1 FROM documents WHERE id = ?"
        return [id_ for id_ in ids if self._connection.execute(query, (id_,)).fetchone() is None]

    def faults(self) -> Iterator[tuple[int, str | None]]:
        """Checks everything: how many more documents were, or a sentence about one of them, once a kind of fault."""
        seen: set[str] = set()
        for checked, kind, sentence in self._faults():
            if kind is None or kind not in seen:
                yield checked, sentence
            seen |= {kind} if kind is not None else set()

    def _faults(self) -> Iterator[tuple[int, str | None, str | None]]:
        answer = str(self._one("PRAGMA integrity_check(1)"))
        if answer != "ok":
            yield 0, "integrity", f"SQLite finds the file damaged ({' '.join(answer.split())})"
        orphans = int(self._one("SELECT count(*) FROM fields WHERE row NOT IN (SELECT row FROM documents)"))
        if orphans:
            yield 0, "orphans", f"{orphans} rows of the table of fields belong to no document"
        cursor = self._connection.execute("SELECT row, id, metadata, vector, revision FROM documents ORDER BY row")
        while found := cursor.fetchmany(BATCH_ROWS):
            for row, id_, metadata, vector, revision in found:
                for kind, what in self._faults_of(row, metadata, vector, revision):
                    yield 0, kind, f"document {orjson.dumps(id_).decode()} {what}"
            yield len(found), None, None

    def _faults_of(self, row: int, metadata: str, vector: bytes, revision: int) -> Iterator[tuple[str, str]]:
        if revision > self.revision:
            yield "revision", f"is of revision {revision}, the store of {self.revision}"
        if len(vector) != 4 * self.dim:
            yield "length", f"has a vector of {len(vector)} bytes, not the {4 * self.dim} of {self.dim} dims"
        else:
            yield from _faults_of_vector(np.frombuffer(vector, "<f4"))
        try:
            expected = {(key, *kind) for key, value in orjson.loads(metadata).items() for kind in stored_kinds(value)}
        except (orjson.JSONDecodeError, AttributeError):
            yield "metadata", "has metadata that are no JSON object"
            return
        fields = set(self._connection.execute("SELECT key, kind, value FROM fields WHERE row = ?", (row,)).fetchall())
        if fields != expected:
            yield "fields", f"has {len(expected)} filterable values, its rows in the table of fields say others"

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]


def _faults_of_vector(vector_D: npt.NDArray[np.float32]) -> Iterator[tuple[str, str]]:
    if not np.isfinite(vector_D).all():
        yield "finite", "has a vector that is not all finite numbers"
        return
    norm = float(np.linalg.norm(vector_D.astype(np.float64)))
    if abs(norm - 1) > NORM_TOLERANCE:
        yield "norm", f"has a vector of norm {norm:.4f}; it must be 1, give or take {NORM_TOLERANCE}"


@contextmanager
def open_store_file(path: Path) -> Iterator[StoreFile]:
    """Open a store for reading, beside whoever has it.

    Raises: StartError: there is none.  StoreError: it is no store, or damaged where it is read.
    """
    if not path.is_file():
        raise StartError(f"there is no document store {path} (CROSSLET_DATA)")
    try:
        with closing(_connect(path)) as connection:
            connection.execute("BEGIN")  # one moment, until the end
            yield StoreFile(path, connection)
    except sqlite3.Error as exc:
        raise StoreError(f"document store {path} cannot be read ({exc}); CROSSLET_DATA names its folder") from exc


@contextmanager
def open_for_upkeep(path: Path) -> Iterator[sqlite3.Connection]:
    """The only connection to a store that nobody else has.

    Raises: StartError: there is none.  StoreError: it is in use, or no store.
    """
    with open_store_file(path) as file:
        fingerprint, dim = file.fingerprint, file.dim
    store = DocumentStore(path, fingerprint=fingerprint, dim=dim)  # for its lock, and its migrations
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
            yield connection
    except sqlite3.Error as exc:
        raise StoreError(f"document store {path} cannot be compacted ({exc}); nothing was lost") from exc
    finally:
        store.close()


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={read_mode(path)}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)
