"""What `crosslet index` does with an existing store, without a model: export, stats, verify, compact."""

import base64
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from service.bulk.store_file import StoreFile, open_store_file
from service.documents.keywords.index import KeywordIndex
from service.documents.store.catalog import listed
from service.documents.store.collection_name import DEFAULT_NAME
from service.documents.store.locking import connect
from service.documents.store.store import DocumentStore
from service.errors import StoreError


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
    store = DocumentStore(path, fingerprint=fingerprint, dim=dim)  # for its lock, and its migrations
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
