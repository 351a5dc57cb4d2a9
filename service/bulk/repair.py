"""Recomputes vectors that are damaged on disk."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from service.bulk.engine import Engine
from service.bulk.store_file import StoreFile, open_store_file
from service.documents.store.document import Document, Span, parts_of, whole
from service.documents.store.store import DocumentStore

BATCH_DOCUMENTS = 64  # in one transaction

Key = tuple[str, str]  # a document's collection and id


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
    pending: list[list[Document]] = []
    lost = len(done.lost)

    def texts() -> Iterator[list[str]]:
        for batch in _batches(file, done, advance, split):
            pending.append(batch)
            yield parts_of(batch)

    with closing(engine(texts())) as vectors:
        for embedded in vectors:
            batch = pending.pop(0)
            documents, vectors_PD, failed = whole(
                batch, embedded.vectors_ND, failed=embedded.failed, truncated=embedded.truncated
            )
            done.failed |= {(file.name, batch[position].id): error for position, error in failed.items()}
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
) -> Iterator[list[Document]]:
    """Yield batches of documents with an intact text and a damaged vector; record those with a damaged text."""
    batch: list[Document] = []
    for row in file.rows():
        advance(1)
        if not row.is_text_sound:
            done.lost.append((file.name, row.id))
        elif not (row.are_vectors_sound and row.is_covered):
            text = row.text.decode()
            passages = row.spans if row.is_covered else split(text)
            batch.append(Document(row.id, text, orjson.loads(row.metadata), passages))
            if len(batch) == BATCH_DOCUMENTS:
                yield batch
                batch = []
    if batch:
        yield batch
