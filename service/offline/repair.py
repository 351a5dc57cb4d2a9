"""Summarises, exports, verifies, compacts and repairs an existing store."""

import base64
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from service.documents.document import Document, Span
from service.documents.ingest import Batch
from service.documents.keywords.index import KeywordIndex
from service.documents.names import DEFAULT_NAME
from service.documents.store.catalog import listed
from service.documents.store.connections import connect
from service.documents.store.store import DocumentStore
from service.errors import StoreError
from service.offline.embedding import Engine
from service.offline.loading import embedded_batches
from service.offline.store_file import StoreFile, open_store_file

BATCH_DOCUMENTS = 64  # in one transaction

Key = tuple[str, str]  # a document's collection and id


@dataclass(frozen=True)
class Stats:
    """A summary of a store.

    documents, passages, truncated, languages: of one collection; a passage is a vector, truncated are the documents
    whose text was cut, as far as that is known, languages are the `lang` of metadata.
    collections: every one with its documents.
    """

    documents: int
    passages: int
    truncated: int
    collections: dict[str, int]
    size_bytes: int
    fingerprint: str
    dim: int
    revision: int
    schema_version: int
    languages: dict[str, int]


def stats(path: Path, collection: str = DEFAULT_NAME) -> Stats:
    """Summarise a store and one of its collections; a service may be using it.

    Raises: StartError: there is no such store, or no such collection.
    """
    with open_store_file(path) as whole:
        file = whole.named(collection)
        return Stats(
            documents=file.count(),
            passages=file.passages(),
            truncated=file.count(truncated=True),
            collections={one.name: one.documents for one in file.collections()},
            size_bytes=file.size_bytes(),
            fingerprint=file.fingerprint,
            dim=file.dim,
            revision=file.revision,
            schema_version=file.schema_version,
            languages=file.languages(),
        )


def export_lines(file: StoreFile, *, vectors: bool, truncated: bool = False) -> Iterator[bytes]:
    """Yield every document as a line of JSON that `index build` takes.

    vectors: with them, in base64 of little-endian float32.  truncated: only documents whose text was cut.
    """
    for document in file.documents(with_vectors=vectors, truncated=truncated):
        line = {"id": document.id, "text": document.text.decode(), "metadata": orjson.Fragment(document.metadata)}
        if document.spans:
            line["passages"] = [
                {"start": one.start, "end": one.stop, "vector": base64.b64encode(one.vector).decode()}
                for one in document.passages
            ]
        elif vectors:
            line["vector"] = base64.b64encode(document.passages[0].vector).decode()
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


@dataclass
class Repaired:
    """The outcome of a repair. vectors: how many were recomputed.

    lost: documents whose text or metadata are damaged beyond repair.
    failed: document -> reason, of damaged documents that the model failed on.
    """

    vectors: int = 0
    keywords: bool = False  # made anew
    lost: list[Key] = field(default_factory=list)
    failed: dict[Key, str] = field(default_factory=dict)


def repair(
    path: Path,
    engine: Engine,
    *,
    split: Callable[[str], tuple[Span, ...]] = lambda text: (),
    fingerprint: str,
    dim: int,
    advance: Callable[[int], object] = lambda documents: None,
) -> Repaired:
    """Embed each document that has a damaged vector, or passages that leave out some of its text.

    Args: split: gives the passages of a text.  advance: called with the number of documents checked.
    Raises: StoreError: another process has the store, or it is another model's.
    """
    done = Repaired()
    store = DocumentStore(path, fingerprint=fingerprint, dim=dim)  # locks out other writers
    try:
        with open_store_file(path) as file:
            for one in file.collections():
                _repair_collection(file.of(one), store.of(one.number), engine, done, advance, split)
    finally:
        store.close()
    return done


def _repair_collection(
    file: StoreFile,
    store: DocumentStore,
    engine: Engine,
    done: Repaired,
    advance: Callable[[int], object],
    split: Callable[[str], tuple[Span, ...]],
) -> None:
    lost = len(done.lost)
    for batch, documents, vectors_PD, failed in embedded_batches(_batches(file, done, advance, split), engine):
        done.failed |= {(file.name, batch.documents[position].id): error for position, error in failed.items()}
        if documents:
            with store.transaction() as transaction:
                transaction.upsert(documents, vectors_PD)
                transaction.commit()
        done.vectors += len(documents)
    if lost == len(done.lost) and file.keywords_fault() is not None:
        with store.transaction() as transaction:
            transaction.remake_keywords()
            transaction.commit()
        done.keywords = True


def _batches(
    file: StoreFile,
    done: Repaired,
    advance: Callable[[int], object],
    split: Callable[[str], tuple[Span, ...]],
) -> Iterator[Batch]:
    """Yield batches of documents with an intact text and a damaged vector; record those with a damaged text."""
    batch = Batch()
    for row in file.rows():
        advance(1)
        if not row.is_text_sound:
            done.lost.append((file.name, row.id))
        elif not (row.are_vectors_sound and row.is_covered):
            text = row.text.decode()
            passages = row.spans if row.is_covered else split(text)
            batch.documents.append(Document(row.id, text, orjson.loads(row.metadata), passages))
            if len(batch.documents) == BATCH_DOCUMENTS:
                yield batch
                batch = Batch()
    if batch.documents:
        yield batch


def verify(file: StoreFile, *, advance: Callable[[int], object]) -> list[str]:
    """Return one sentence for each kind of fault; an empty list: the store is intact."""
    sentences = []
    for checked, sentence in file.faults():
        advance(checked)
        if sentence is not None:
            sentences.append(sentence)
    return sentences


@dataclass(frozen=True)
class Compacted:
    """A store's size on disk before and after."""

    before_bytes: int
    after_bytes: int


def compact(path: Path) -> Compacted:
    """Free the disk space of deleted and replaced documents. Meanwhile it needs twice the final size: a copy and a log.

    Raises: StoreError: a service has the store, or the disk is too full.
    """
    before_bytes = stats(path).size_bytes
    with _open_alone(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for one in listed(connection):
            KeywordIndex(connection, one.number).optimize()
        # Copy beside the store: a container's /tmp may be in memory. SQLITE_TMPDIR is read only when SQLite starts.
        folder = str(path.parent.absolute()).replace("'", "''")
        connection.execute(f"PRAGMA temp_store_directory = '{folder}'")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Compacted(before_bytes, stats(path).size_bytes)


@contextmanager
def _open_alone(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the only connection to a store that no other process uses.

    Raises: StartError: there is none.  StoreError: it is in use, or not a store.
    """
    with open_store_file(path) as file:
        fingerprint, dim = file.fingerprint, file.dim
    store = DocumentStore(path, fingerprint=fingerprint, dim=dim)  # for its lock
    try:
        with closing(connect(path, "rw")) as connection:
            yield connection
    except sqlite3.Error as exc:
        raise StoreError(
            f"document store {path} cannot be compacted ({exc}); nothing was lost: "
            f"{path.parent} needs free space of twice its size meanwhile"
        ) from exc
    finally:
        store.close()
