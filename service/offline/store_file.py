"""Reads a document store from disk, whatever model made it, without trusting its contents.

A service may be writing meanwhile: all reads see one snapshot.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.documents.document import Span
from service.documents.filters import FIELD_RULES, fields_of
from service.documents.keywords.terms import RULES
from service.documents.names import DEFAULT_NAME, where
from service.documents.store.catalog import CollectionRow, listed, unknown
from service.documents.store.connections import REPAIR, checksum, connect, read_mode
from service.documents.store.locking import check_lone
from service.documents.store.schema import DEFAULT, has_other_spellings, loaded
from service.documents.store.schema import facts as facts_of
from service.documents.store.schema_check import (
    LARGEST_NUMBER,
    check_numbers,
    check_schema,
    keywords_fault,
    orphans_faults,
    rows_faults,
)
from service.errors import StartError, StoreError
from service.process.files import resolved

NORM_TOLERANCE = 1e-3
BATCH_ROWS = 1024
OWN_FILES = ("documents.*", "index*")  # in the folder of documents.sqlite3


@dataclass(frozen=True)
class StoredPassage:
    """A passage, unchecked. start, stop: in characters.  vector: little-endian float32."""

    start: int
    stop: int
    vector: bytes
    is_sound: bool  # the checksum matches


@dataclass(frozen=True)
class StoredRow:
    """A document's row, unchecked. metadata: JSON.  passages: none where they are not read."""

    id: str
    text: bytes
    metadata: bytes
    revision: int
    row: int
    is_text_sound: bool  # the checksum matches
    passages: tuple[StoredPassage, ...] = ()

    @property
    def are_vectors_sound(self) -> bool:
        """Whether there are passages, all with sound vectors."""
        return bool(self.passages) and all(passage.is_sound for passage in self.passages)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of its passages, in order, if there are several."""
        spans = tuple((passage.start, passage.stop) for passage in self.passages)
        return spans if len(spans) > 1 else ()

    @property
    def is_covered(self) -> bool:
        """Whether its passages follow each other through the text, and leave out nothing but spaces."""
        text = self.text.decode()
        places = [(0, 0), *((one.start, one.stop) for one in self.passages), (len(text), len(text))]
        return all(
            start <= next_start and stop <= next_stop <= len(text) and not text[stop:next_start].strip()
            for (start, stop), (next_start, next_stop) in pairwise(places)
        )


class StoreFile:
    """The tables of one store, read-only, and the documents of one collection. Their contents are not trusted."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._number, self.name = DEFAULT, DEFAULT_NAME
        check_schema(path, connection)
        facts = self.facts = facts_of(connection)
        try:
            self.fingerprint, self.dim, self.revision = facts["fingerprint"], int(facts["dim"]), int(facts["revision"])
            self.schema_version = int(facts["schema_version"])
        except (KeyError, ValueError) as exc:
            raise StoreError(f"document store {path} does not say what it holds ({exc})") from exc
        self._keyword_rules, self._field_rules = facts.get("keywords"), facts.get("fields")
        self.check_numbers()

    def check_numbers(self, *, largest: int = LARGEST_NUMBER) -> None:
        """Raises: StoreError: there is a number that crosslet never writes, or a larger one."""
        check_numbers(self._path, self._connection, largest=largest)

    def collections(self) -> list[CollectionRow]:
        """Return every collection, by age: the default one first."""
        return listed(self._connection)

    def of(self, one: CollectionRow) -> "StoreFile":
        """Return a view of another collection."""
        other = copy(self)
        other._number, other.name = one.number, one.name
        return other

    def named(self, name: str) -> "StoreFile":
        """Return a view of the collection of a name. Raises: StartError: there is none."""
        there = {one.name: one for one in self.collections()}
        if name not in there:
            raise unknown(name, there, self._path)
        return self.of(there[name])

    def count(self, *, truncated: bool = False) -> int:
        """Return the number of documents. truncated: of those whose text was cut, as far as that is known."""
        return int(self._one(f"SELECT count(*) FROM documents WHERE {self._selected(truncated)}"))  # noqa: S608

    def total(self) -> int:
        """Return the number of documents of all collections."""
        return sum(self.of(one).count() for one in self.collections())

    def passages(self) -> int:
        """Return the number of vectors."""
        return int(self._one(f"SELECT count(*) FROM passages WHERE {self._ours}"))  # noqa: S608

    @property
    def chunks(self) -> bool:
        """Whether documents are split into passages where nothing else is said."""
        return bool(self._one(f"SELECT json_extract(settings, '$.chunk') FROM collections WHERE {self._ours}"))  # noqa: S608

    def is_split(self, row: int) -> bool:
        """Return whether a document is in several passages."""
        query = "SELECT count(*) FROM (SELECT 1 FROM passages WHERE row = ? LIMIT 2)"
        return bool(self._connection.execute(query, (row,)).fetchone()[0] == 2)

    def languages(self) -> dict[str, int]:
        """Count documents by the `lang` of their metadata, most frequent first."""
        query = (
            f"SELECT value, count(*) FROM fields WHERE {self._ours} AND key = 'lang' AND kind = 'string' "  # noqa: S608
            "GROUP BY value ORDER BY count(*) DESC, value"
        )
        return dict(self._connection.execute(query).fetchall())

    def field_names(self) -> list[str]:
        """Return the names of metadata fields, sorted."""
        least = f"SELECT min(key) FROM fields WHERE {self._ours}"  # noqa: S608
        query = (  # one index look-up a name, however many documents have it
            f"WITH RECURSIVE names(name) AS (SELECT ({least}) UNION ALL SELECT ({least} AND key > name) FROM names "  # noqa: S608
            f"WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
        )
        return [name for (name,) in self._connection.execute(query)]

    def size_bytes(self) -> int:
        """Return the store's size on disk, with its log and its index snapshots."""
        files = [file for pattern in OWN_FILES for file in self._path.parent.glob(pattern)]
        return sum(map(_size_bytes, files))

    def documents(self, *, with_vectors: bool, truncated: bool = False) -> Iterator[StoredRow]:
        """Yield every document, in the order of first insertion.

        Args: with_vectors: whether vectors are needed, and so must be intact too.  truncated: as in `count`.
        Raises: StoreError: a document is damaged; those before it were yielded.
        """
        for row in self.rows(with_passages=with_vectors, truncated=truncated):
            if not row.is_text_sound or (with_vectors and not row.are_vectors_sound):
                name = orjson.dumps(row.id).decode()
                raise StoreError(f"{where(self.name)}document {name} of {self._path} is damaged on the disk ({REPAIR})")
            yield row

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that no document has."""
        query = f"SELECT 1 FROM documents WHERE {self._ours} AND id = ?"  # noqa: S608
        return [id_ for id_ in ids if self._connection.execute(query, (id_,)).fetchone() is None]

    def faults(self) -> Iterator[tuple[int, str | None]]:
        """Check everything. Yield (further documents checked, fault or None), each kind of fault once."""
        seen: set[str] = set()
        for checked, kind, sentence in self._faults():
            if kind is None or kind not in seen:
                yield checked, sentence
            seen |= {kind} if kind is not None else set()

    def _faults(self) -> Iterator[tuple[int, str | None, str | None]]:
        answer = str(self._one("PRAGMA integrity_check(1)"))
        if answer != "ok":
            yield 0, "integrity", f"SQLite finds the file damaged ({' '.join(answer.split())})"
        misplaced = [*rows_faults(self._connection)]
        yield from ((0, sentence, sentence) for sentence in misplaced)
        if misplaced:  # no row can be looked at
            return
        yield from ((0, sentence, sentence) for sentence in orphans_faults(self._connection))
        for one in self.collections():
            yield from self.of(one)._faults_of_collection(one.documents)

    def _faults_of_collection(self, said: int) -> Iterator[tuple[int, str | None, str | None]]:
        count, prefix = self.count(), where(self.name)
        if said != count:
            yield 0, "count", f"{prefix}there are {count} documents, the table of collections says {said}"
        are_texts_sound = True
        for rows in _batched(self.rows(), BATCH_ROWS):
            for row in rows:
                are_texts_sound = are_texts_sound and row.is_text_sound
                for kind, what in self._faults_of(row):
                    yield 0, kind, f"{prefix}document {orjson.dumps(row.id).decode()} {what}"
            yield len(rows), None, None
        if are_texts_sound and (fault := self.keywords_fault()) is not None:
            yield 0, "keywords", prefix + fault

    def keywords_fault(self) -> str | None:
        """Return a sentence if the keywords are not those of the texts, which are undamaged."""
        if self._keyword_rules != RULES:  # made anew at the next start
            return None
        try:
            return keywords_fault(self._connection, self._number)
        except sqlite3.DatabaseError as exc:
            return f"SQLite finds the keywords damaged ({exc}); `crosslet index repair` makes them anew"

    def rows(self, *, with_passages: bool = True, truncated: bool = False) -> Iterator[StoredRow]:
        """Yield every document, in the order of first insertion. truncated: as in `count`."""
        which = self._selected(truncated)
        as_bytes = ", ".join(f"CAST({column} AS BLOB)" for column in ("id", "text", "metadata"))
        query = f"SELECT row, {as_bytes}, revision, text_checksum FROM documents WHERE {which} ORDER BY row"  # noqa: S608
        for row, id_, text, metadata, revision, of_text in self._connection.execute(query):
            yield StoredRow(
                id=id_.decode(errors="replace"),
                text=text,
                metadata=metadata,
                revision=revision,
                row=row,
                is_text_sound=of_text == checksum(id_, text, metadata) and _are_utf8(id_, text),
                passages=self._passages_of(row) if with_passages else (),
            )

    def _passages_of(self, row: int) -> tuple[StoredPassage, ...]:
        query = "SELECT start, stop, vector, vector_checksum FROM passages WHERE row = ? ORDER BY passage"
        found = self._connection.execute(query, (row,)).fetchall()
        return tuple(
            StoredPassage(start, stop, vector, of_vector == checksum(vector))
            for start, stop, vector, of_vector in found
        )

    def _faults_of(self, row: StoredRow) -> Iterator[tuple[str, str]]:
        if not 0 <= row.revision <= self.revision:
            yield "revision", f"has revision {row.revision}, beyond the store's revision {self.revision}"
        if not row.passages:
            yield "length", f"has a vector of 0 bytes, not the {4 * self.dim} of {self.dim} dims"
        for passage in row.passages:
            if (fault := self._fault_of(passage)) is not None:
                yield fault
        if row.passages and row.is_text_sound and not row.is_covered:
            yield "passages", "has passages that leave out some of its text (`crosslet index repair` makes them anew)"
        metadata = loaded(row.metadata)
        if metadata is None:
            yield "metadata", "has metadata that are not a JSON object"
            return
        if not row.is_text_sound:
            yield "text", "has a damaged text or metadata: their checksum differs"
        if self._field_rules != FIELD_RULES and has_other_spellings(row.metadata):
            return  # its fields are made anew at the next start
        found = fields_of(metadata)
        expected = {(path, *kind) for path, kinds in found.items() for kind in kinds}
        query = f"SELECT key, kind, value FROM fields WHERE {self._ours} AND row = ?"  # noqa: S608
        if set(self._connection.execute(query, (row.row,)).fetchall()) != expected:
            yield "fields", f"has {len(expected)} filterable values, but its rows in the table of fields differ"

    def _fault_of(self, passage: StoredPassage) -> tuple[str, str] | None:
        if len(passage.vector) != 4 * self.dim:
            return "length", f"has a vector of {len(passage.vector)} bytes, not the {4 * self.dim} of {self.dim} dims"
        fault = _fault_of_vector(np.frombuffer(passage.vector, "<f4"))
        if fault is None and not passage.is_sound:
            fault = "vector", "has a damaged vector: its checksum differs"
        return fault

    @property
    def _ours(self) -> str:
        """The SQL condition of the collection's rows; it holds no user input."""
        return f"collection = {self._number}"

    def _selected(self, truncated: bool) -> str:
        return f"{self._ours} AND is_truncated = 1" if truncated else self._ours

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]


def _are_utf8(*texts: bytes) -> bool:
    try:
        return all(text.decode() is not None for text in texts)
    except UnicodeDecodeError:
        return False


def _fault_of_vector(vector_D: npt.NDArray[np.float32]) -> tuple[str, str] | None:
    if not np.isfinite(vector_D).all():
        return "finite", "has a vector with numbers that are not finite"
    norm = float(np.linalg.norm(vector_D.astype(np.float64)))
    if abs(norm - 1) > NORM_TOLERANCE:
        return "norm", f"has a vector of norm {norm:.4f}; it must be 1 +/- {NORM_TOLERANCE}"
    return None


def _size_bytes(file: Path) -> int:
    """Return a file's size; 0 if a service has just replaced it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _batched(rows: Iterator[StoredRow], size: int) -> Iterator[list[StoredRow]]:
    while batch := list(islice(rows, size)):
        yield batch


def check_there(path: Path) -> None:
    """Raises: StartError: there is no store, it may not be read, or it has a second name."""
    try:
        is_there = path.is_file()
    except OSError as exc:
        raise StartError(f"document store {path} cannot be read ({exc.strerror}); set CROSSLET_DATA") from exc
    if not is_there:
        raise StartError(
            f"there is no document store {path}: `crosslet index build FILE` makes one; --data or CROSSLET_DATA names "
            "another folder"
        )
    check_lone(path)


@contextmanager
def open_store_file(path: Path, *, named: Path | None = None) -> Iterator[StoreFile]:
    """Open a store for reading; another process may be using it. named: what errors call it.

    Raises: StartError: there is none.  StoreError: it is not a store, or a page that is read is damaged.
    """
    check_there(path)
    path = resolved(path)
    try:
        with closing(connect(path, read_mode(path))) as connection:
            connection.execute("BEGIN")  # one snapshot until the end
            yield StoreFile(named or path, connection)
    except sqlite3.Error as exc:
        raise StoreError(
            f"document store {named or path} cannot be read ({exc}); CROSSLET_DATA names its folder"
        ) from exc
