"""Reads a document store from disk, whatever model made it, without trusting its contents.

A service may be writing meanwhile: all reads see one snapshot.
"""

import base64
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from service.documents.document import Span, named
from service.documents.names import DEFAULT_NAME, where
from service.documents.store.catalog import CollectionRow, listed, unknown
from service.documents.store.connections import REPAIR, checksum, connect, read_mode
from service.documents.store.locking import check_lone
from service.documents.store.schema import DEFAULT
from service.documents.store.schema import facts as facts_of
from service.documents.store.schema_check import check_numbers, check_schema
from service.documents.store.store import CollectionSettings, DocumentStore
from service.errors import StartError, StoreError
from service.json_parsing import is_utf8
from service.model.tokenizer import WHITE_SPACE
from service.process.files import resolved

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
        places = [(0, 0), *((part.start, part.stop) for part in self.passages), (len(text), len(text))]
        return all(
            start <= next_start and stop <= next_stop <= len(text) and not text[stop:next_start].strip(WHITE_SPACE)
            for (start, stop), (next_start, next_stop) in pairwise(places)
        )


class StoreFile(CollectionSettings):
    """The tables of one store, read-only, and the documents of one collection. Their contents are not trusted."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.number, self.name = DEFAULT, DEFAULT_NAME
        check_schema(path, connection)
        facts = self.facts = facts_of(connection)
        try:
            self.fingerprint, self.dim, self.revision = facts["fingerprint"], int(facts["dim"]), int(facts["revision"])
            self.schema_version = int(facts["schema_version"])
        except (KeyError, ValueError) as exc:
            raise StoreError(f"document store {path} does not say what it holds ({exc})") from exc
        check_numbers(path, connection)

    def collections(self) -> list[CollectionRow]:
        """Return every collection, by age: the default one first."""
        return listed(self.connection)

    def view(self, row: CollectionRow) -> "StoreFile":
        """Return a view of another collection."""
        view = copy(self)
        view.number, view.name = row.number, row.name
        return view

    def named(self, name: str) -> "StoreFile":
        """Return a view of the collection of a name. Raises: StartError: there is none."""
        rows = {row.name: row for row in self.collections()}
        if name not in rows:
            raise unknown(name, rows, self.path)
        return self.view(rows[name])

    def count(self, *, truncated: bool = False) -> int:
        """Return the number of documents. truncated: of those whose text was cut, as far as that is known."""
        return int(self._one(f"SELECT count(*) FROM documents WHERE {self._selected(truncated)}"))  # noqa: S608

    def total(self) -> int:
        """Return the number of documents of all collections."""
        return int(self._one("SELECT count(*) FROM documents"))

    def passages(self) -> int:
        """Return the number of vectors."""
        return int(self._one(f"SELECT count(*) FROM passages WHERE {self._ours}"))  # noqa: S608

    def is_split(self, row: int) -> bool:
        """Return whether a document is in several passages."""
        return bool(self._one("SELECT count(*) FROM (SELECT 1 FROM passages WHERE row = ? LIMIT 2)", row) == 2)

    def languages(self) -> dict[str, int]:
        """Count documents by the `lang` of their metadata, most frequent first."""
        query = (
            f"SELECT value, count(*) FROM fields WHERE {self._ours} AND key = 'lang' AND kind = 'string' "  # noqa: S608
            "GROUP BY value ORDER BY count(*) DESC, value"
        )
        return dict(self.connection.execute(query).fetchall())

    def field_names(self) -> list[str]:
        """Return the names of metadata fields, sorted."""
        least = f"SELECT min(key) FROM fields WHERE {self._ours}"  # noqa: S608
        query = (  # one index look-up a name, however many documents have it
            f"WITH RECURSIVE names(name) AS (SELECT ({least}) UNION ALL SELECT ({least} AND key > name) FROM names "  # noqa: S608
            f"WHERE name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL"
        )
        return [name for (name,) in self.connection.execute(query)]

    def documents(self, *, with_vectors: bool, truncated: bool = False) -> Iterator[StoredRow]:
        """Yield every document, in the order of first insertion.

        Args: with_vectors: whether vectors are needed, and so must be intact too.  truncated: as in `count`.
        Raises: StoreError: a document is damaged; those before it were yielded.
        """
        for row in self.rows(with_passages=with_vectors, truncated=truncated):
            if not row.is_text_sound or (with_vectors and not row.are_vectors_sound):
                name = where(self.name) + named(row.id)
                raise StoreError(f"{name} of {self.path} is damaged on the disk ({REPAIR})")
            yield row

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that no document has."""
        query = f"SELECT 1 FROM documents WHERE {self._ours} AND id = ?"  # noqa: S608
        return [id_ for id_ in ids if self.connection.execute(query, (id_,)).fetchone() is None]

    def rows(self, *, with_passages: bool = True, truncated: bool = False) -> Iterator[StoredRow]:
        """Yield every document, in the order of first insertion. truncated: as in `count`."""
        which = self._selected(truncated)
        as_bytes = ", ".join(f"CAST({column} AS BLOB)" for column in ("id", "text", "metadata"))
        query = f"SELECT row, {as_bytes}, revision, text_checksum FROM documents WHERE {which} ORDER BY row"  # noqa: S608
        for row, id_, text, metadata, revision, text_checksum in self.connection.execute(query):
            yield StoredRow(
                id=id_.decode(errors="replace"),
                text=text,
                metadata=metadata,
                revision=revision,
                row=row,
                is_text_sound=text_checksum == checksum(id_, text, metadata) and is_utf8(id_) and is_utf8(text),
                passages=self._passages_of(row) if with_passages else (),
            )

    def _passages_of(self, row: int) -> tuple[StoredPassage, ...]:
        query = "SELECT start, stop, vector, vector_checksum FROM passages WHERE row = ? ORDER BY passage"
        rows = self.connection.execute(query, (row,)).fetchall()
        return tuple(
            StoredPassage(start, stop, vector, expected == checksum(vector)) for start, stop, vector, expected in rows
        )

    @property
    def _ours(self) -> str:
        """The SQL condition of the collection's rows; it holds no user input."""
        return f"collection = {self.number}"

    def _selected(self, truncated: bool) -> str:
        return f"{self._ours} AND is_truncated = 1" if truncated else self._ours

    def _setting(self, column: str) -> Any:
        return self._one(f"SELECT {column} FROM collections WHERE {self._ours}")  # noqa: S608

    def _one(self, query: str, *values: int) -> Any:
        return self.connection.execute(query, values).fetchone()[0]


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


def size_on_disk(path: Path) -> int:
    """Return a store's size in bytes, with its log and its index snapshots."""
    size = 0
    for file in (file for pattern in OWN_FILES for file in resolved(path).parent.glob(pattern)):
        with suppress(FileNotFoundError):  # a service has just replaced it
            size += file.stat().st_size
    return size


@contextmanager
def open_store_file(path: Path, *, named: Path | None = None) -> Iterator[StoreFile]:
    """Open a store for reading; another process may be using it. named: what errors call it.

    Raises: StartError: there is none.  StoreError: it is not a store, or a page that is read is damaged.
    """
    check_there(path)
    path = resolved(path)
    named = named or path
    try:
        with closing(connect(path, read_mode(path))) as connection:
            connection.execute("BEGIN")  # one snapshot until the end
            yield StoreFile(named, connection)
    except sqlite3.Error as exc:
        raise StoreError(f"document store {named} cannot be read ({exc}); CROSSLET_DATA names its folder") from exc


@contextmanager
def open_alone(path: Path) -> Iterator[DocumentStore]:
    """Open a store for writing, whatever model made it, while no other process has it.

    Raises: StartError: there is none.  StoreError: it is in use, or not a store.
    """
    with open_store_file(path) as file:
        fingerprint, dim = file.fingerprint, file.dim
    with closing(DocumentStore(path, fingerprint=fingerprint, dim=dim)) as store:
        yield store


def export_lines(file: StoreFile, *, vectors: bool, truncated: bool = False) -> Iterator[bytes]:
    """Yield every document as a line of JSON that `index build` takes.

    vectors: with them, in base64 of little-endian float32.  truncated: only documents whose text was cut.
    """
    has_own_fields = file.own_fields is not None
    for document in file.documents(with_vectors=vectors, truncated=truncated):
        line: dict[str, object] = {"id": document.id}
        if has_own_fields:
            line |= orjson.loads(document.metadata)
        else:
            line |= {"text": document.text.decode(), "metadata": orjson.Fragment(document.metadata)}
        if document.spans:
            line["passages"] = [
                {"start": part.start, "end": part.stop, "vector": base64.b64encode(part.vector).decode()}
                for part in document.passages
            ]
        elif vectors:
            line["vector"] = base64.b64encode(document.passages[0].vector).decode()
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
