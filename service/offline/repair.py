"""Verifies a document store that no service may trust, recomputes what is damaged, and frees its disk space."""

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import orjson

from service.documents.document import Document, Span, named
from service.documents.filters import FIELD_RULES, field_rows
from service.documents.ingest import Batch
from service.documents.keywords.index import KeywordIndex, tables
from service.documents.keywords.terms import RULES, SHORTEST_LISTED, document_terms, marked
from service.documents.names import where
from service.documents.store.catalog import listed
from service.documents.store.connections import connect
from service.documents.store.schema import has_other_spellings, loaded
from service.documents.store.store import DocumentStore
from service.errors import StoreError
from service.offline.embedding import Engine
from service.offline.loading import embedded_batches
from service.offline.store_file import (
    StoredPassage,
    StoredRow,
    StoreFile,
    check_there,
    open_alone,
    open_store_file,
    size_on_disk,
)

BATCH_DOCUMENTS = 64  # in one transaction
NORM_TOLERANCE = 1e-3
MODULUS = 1 << 64

Key = tuple[str, str]  # a document's collection and id
Fault = tuple[str, str]  # its kind, and what is wrong
Advance = Callable[[int], object]  # called with the number of further documents


def verify(file: StoreFile, *, advance: Advance = lambda documents: None) -> list[str]:
    """Return one sentence for each kind of fault; an empty list: the store is intact."""
    faults: dict[str, str] = {}
    for kind, sentence in _faults(file, advance):
        faults.setdefault(kind, sentence)
    return list(faults.values())


def _faults(file: StoreFile, advance: Advance) -> Iterator[Fault]:
    answer = str(file.connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if answer != "ok":
        yield "integrity", f"SQLite finds the file damaged ({' '.join(answer.split())})"
    misplaced = [*_rows_faults(file.connection)]
    for sentence in misplaced or _orphans_faults(file.connection):
        yield sentence, sentence
    for row in file.collections() if not misplaced else ():  # else no row can be looked at
        yield from _collection_faults(file.view(row), row.documents, advance)


def _collection_faults(file: StoreFile, listed_documents: int, advance: Advance) -> Iterator[Fault]:
    """Check one collection. listed_documents: the number of them by the table of collections."""
    count, prefix = file.count(), where(file.name)
    if listed_documents != count:
        yield "count", f"{prefix}there are {count} documents, the table of collections says {listed_documents}"
    are_texts_sound = True
    for row in file.rows():
        are_texts_sound = are_texts_sound and row.is_text_sound
        for kind, what in _row_faults(file, row):
            yield kind, f"{prefix}{named(row.id)} {what}"
        advance(1)
    if are_texts_sound and (fault := keywords_fault(file)) is not None:
        yield "keywords", prefix + fault


def _row_faults(file: StoreFile, row: StoredRow) -> Iterator[Fault]:
    if not 0 <= row.revision <= file.revision:
        yield "revision", f"has revision {row.revision}, beyond the store's revision {file.revision}"
    if not row.passages:
        yield "length", f"has a vector of 0 bytes, not the {4 * file.dim} of {file.dim} dims"
    for passage in row.passages:
        if (fault := _vector_fault(passage, file.dim)) is not None:
            yield fault
    if row.passages and row.is_text_sound and not row.is_covered:
        yield "passages", "has passages that leave out some of its text (`crosslet index repair` makes them anew)"
    metadata = loaded(row.metadata)
    if metadata is None:
        yield "metadata", "has metadata that are not a JSON object"
        return
    if not row.is_text_sound:
        yield "text", "has a damaged text or metadata: their checksum differs"
    if file.facts.get("fields") != FIELD_RULES and has_other_spellings(row.metadata):
        return  # its fields are made anew at the next start
    expected = set(field_rows(metadata))
    query = "SELECT key, kind, value FROM fields WHERE collection = ? AND row = ?"
    if set(file.connection.execute(query, (file.number, row.row)).fetchall()) != expected:
        yield "fields", f"has {len(expected)} filterable values, but its rows in the table of fields differ"


def _vector_fault(passage: StoredPassage, dim: int) -> Fault | None:
    if len(passage.vector) != 4 * dim:
        return "length", f"has a vector of {len(passage.vector)} bytes, not the {4 * dim} of {dim} dims"
    vector_D = np.frombuffer(passage.vector, "<f4")
    if not np.isfinite(vector_D).all():
        return "finite", "has a vector with numbers that are not finite"
    norm = float(np.linalg.norm(vector_D.astype(np.float64)))
    if abs(norm - 1) > NORM_TOLERANCE:
        return "norm", f"has a vector of norm {norm:.4f}; it must be 1 +/- {NORM_TOLERANCE}"
    return None if passage.is_sound else ("vector", "has a damaged vector: its checksum differs")


def _rows_faults(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what SQLite takes in any row: text for a number, a part of a document elsewhere. Reads every row."""
    for table in ("documents", "passages", "fields"):
        for _, column, type_, is_required, *_ in connection.execute(f"PRAGMA main.table_info({table})").fetchall():
            kinds = f"'{type_.lower()}'" + ("" if is_required else ", 'null'")
            wrong = f"SELECT count(*) FROM {table} WHERE typeof({column}) NOT IN ({kinds})"  # noqa: S608 - names of ours
            if type_ and (count := connection.execute(wrong).fetchone()[0]):
                yield f"{count} rows of the table of {table} have a {column} that is no {type_}"
    for table in ("passages", "fields"):
        parts = f"FROM {table} part JOIN documents d USING (row) WHERE part.collection != d.collection"
        if count := connection.execute(f"SELECT count(*) {parts}").fetchone()[0]:
            yield f"{count} rows of the table of {table} are in another collection than their document"
    denied = "SELECT collection FROM collections WHERE NOT ifnull(json_extract(settings, '$.has_passages'), 0)"
    if connection.execute(f"SELECT 1 FROM passages WHERE passage != row AND collection IN ({denied})").fetchone():  # noqa: S608
        yield "there are passages with numbers of their own, which the settings of their collection deny"


def _orphans_faults(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what belongs to documents and collections that are not there."""
    for table, what in (("fields", "fields"), ("passages", "vectors")):
        query = f"SELECT count(*) FROM {table} WHERE row NOT IN (SELECT row FROM documents)"  # noqa: S608 - constants
        if orphans := connection.execute(query).fetchone()[0]:
            yield f"{orphans} rows of the table of {what} belong to no document"
    numbers = "SELECT collection FROM collections"
    query = f"SELECT count(*) FROM documents WHERE collection NOT IN ({numbers})"  # noqa: S608 - constants
    if homeless := connection.execute(query).fetchone()[0]:
        yield f"{homeless} documents belong to no collection"


def keywords_fault(file: StoreFile) -> str | None:
    """Return a sentence if the keywords of a collection are not those of its texts, which must be undamaged.

    Memory does not grow with either.
    """
    if file.facts.get("keywords") != RULES:  # made anew at the next start
        return None
    try:
        are_those = _digest_of_texts(file.connection, file.number) == _digest_of_index(file.connection, file.number)
        if are_those and _is_vocabulary_true(file.connection, file.number):
            return None
    except sqlite3.DatabaseError as exc:
        return f"SQLite finds the keywords damaged ({exc}); `crosslet index repair` makes them anew"
    return "the keywords are not those of the texts (`crosslet index repair` makes them anew)"


def _digest_of_texts(connection: sqlite3.Connection, collection: int) -> int:
    query = "SELECT row, CAST(text AS BLOB) FROM documents WHERE collection = ?"
    total = 0
    for row, text in connection.execute(query, (collection,)):
        terms = document_terms(text.decode(errors="replace"))
        total += _digest(row, str(len(terms))) + sum(_digest(row, term) for term in terms)
    return total % MODULUS


def _digest_of_index(connection: sqlite3.Connection, collection: int) -> int:
    """Sum over every occurrence in the index and each document's length, in any order."""
    table = tables(collection)[0]
    total = _digest_of(connection, table)
    for row, length in connection.execute(f"SELECT id, sz FROM {table}_docsize"):  # noqa: S608 - a number of ours
        total += _digest(row, str(_varint(length)))
    return total % MODULUS


def _digest_of(connection: sqlite3.Connection, table: str) -> int:
    """Sum over every occurrence of a term in a table of FTS5."""
    occurrences = f"occurrences_of_{table}"
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{occurrences} USING fts5vocab(main, {table}, instance)"
    )
    return sum(_digest(row, term) for row, term in connection.execute(f"SELECT doc, term FROM {occurrences}"))  # noqa: S608


def _is_vocabulary_true(connection: sqlite3.Connection, collection: int) -> bool:
    """Return whether the vocabulary has the terms of the keywords, each with its trigrams."""
    keywords, vocabulary, trigrams = tables(collection)
    distinct = f"terms_of_{keywords}"
    connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{distinct} USING fts5vocab(main, {keywords}, row)")
    used = connection.execute(f"SELECT term FROM {distinct}")  # noqa: S608 - a number of ours
    expected = sum(_digest(0, term) for (term,) in used if len(term) >= SHORTEST_LISTED)
    total = cut = 0
    for number, term in connection.execute(f"SELECT number, term FROM {vocabulary}"):  # noqa: S608
        total += _digest(0, term)
        whole = marked(term, len(term))
        cut += sum(_digest(number, part) for part in {whole[at : at + 3] for at in range(len(whole) - 2)})
    return (total, cut) == (expected, _digest_of(connection, trigrams))


def _varint(data: bytes) -> int:
    """Return a number as SQLite stores it: seven bits a byte, the highest first."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
    return value


def _digest(row: int, term: str) -> int:
    """Return a number of more than 32 bits, so that rows do not cancel out."""
    return zlib.crc32(term.encode(), row & 0xFFFFFFFF) * (2 * row + 1)


@dataclass
class Repair:
    """A repair of a store, and its outcome.

    engine: embeds passages.  split: gives the passages of a text.  advance: called as documents are checked.
    vectors: how many were recomputed.  keywords: whether they were made anew.
    lost: documents whose text or metadata are damaged beyond repair.
    failed: document -> reason, of damaged documents that the model failed on.
    """

    engine: Engine
    split: Callable[[str], tuple[Span, ...]] = lambda text: ()
    advance: Advance = lambda documents: None
    vectors: int = 0
    keywords: bool = False
    lost: list[Key] = field(default_factory=list)
    failed: dict[Key, str] = field(default_factory=dict)

    def run(self, path: Path, *, fingerprint: str, dim: int) -> Self:
        """Embed each document that has a damaged vector, or passages that leave out some of its text.

        Raises: StoreError: another process has the store, or it is another model's.
        """
        store = DocumentStore(path, fingerprint=fingerprint, dim=dim)  # locks out other writers
        with closing(store), open_store_file(path) as file:
            for row in file.collections():
                self._run_collection(file.view(row), store.of(row.number))
        return self

    def _run_collection(self, file: StoreFile, store: DocumentStore) -> None:
        lost = len(self.lost)
        for batch, documents, vectors_PD, failed in embedded_batches(self._batches(file), self.engine):
            self.failed |= {(file.name, batch.documents[place].id): error for place, error in failed.items()}
            if documents:
                with store.transaction() as transaction:
                    transaction.upsert(documents, vectors_PD)
                    transaction.commit()
            self.vectors += len(documents)
        if lost == len(self.lost) and keywords_fault(file) is not None:
            with store.transaction() as transaction:
                transaction.remake_keywords()
                transaction.commit()
            self.keywords = True

    def _batches(self, file: StoreFile) -> Iterator[Batch]:
        """Yield batches of documents with an intact text and a damaged vector; note those with a damaged text."""
        batch = Batch()
        for row in file.rows():
            self.advance(1)
            if not row.is_text_sound:
                self.lost.append((file.name, row.id))
            elif not (row.are_vectors_sound and row.is_covered):
                text = row.text.decode()
                passages = row.spans if row.is_covered else self.split(text)
                batch.documents.append(Document(row.id, text, orjson.loads(row.metadata), passages))
                if len(batch.documents) == BATCH_DOCUMENTS:
                    yield batch
                    batch = Batch()
        if batch.documents:
            yield batch


def compact(path: Path) -> tuple[int, int]:
    """Free the disk space of deleted and replaced documents. Meanwhile it needs twice the final size: a copy and a log.

    Returns: the store's size in bytes, before and after.
    Raises:  StartError: there is no store.  StoreError: a service has the store, or the disk is too full.
    """
    check_there(path)
    before_bytes = size_on_disk(path)
    with open_alone(path):
        try:
            with closing(connect(path, "rw")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                for row in listed(connection):
                    KeywordIndex(connection, row.number).optimize()
                # Copy beside the store: a container's /tmp may be in memory. SQLITE_TMPDIR is read when SQLite starts.
                folder = str(path.parent.absolute()).replace("'", "''")
                connection.execute(f"PRAGMA temp_store_directory = '{folder}'")
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as exc:
            raise StoreError(
                f"document store {path} cannot be compacted ({exc}); nothing was lost: "
                f"{path.parent} needs free space of twice its size meanwhile"
            ) from exc
    return before_bytes, size_on_disk(path)
