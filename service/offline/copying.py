"""Copies all collections: to the other engine with their vectors, or within Milvus with another model's.

Repeating a copy continues it.
"""

from collections.abc import Callable, Iterator, Set
from dataclasses import replace

import numpy as np

from service.documents.collections import Collections, Versions
from service.documents.document import Document, Span, StoredDocument
from service.documents.ingest import Report, has_content_of
from service.documents.interface import DocumentIndex, PageRequest
from service.documents.names import DEFAULT_NAME, where
from service.documents.readers.records import Record
from service.errors import Conflict, StoreError
from service.offline.embedding import Engine
from service.offline.loading import Load, refuse

DOCUMENTS_AT_ONCE = 200
CHARS_AT_ONCE = 4_000_000


def copy(source: Collections, target: Collections, *, advance: Callable[[int], object]) -> int:
    """Copy every document, in the order of first insertion. Return how many the target lacked.

    Documents that only the target has stay. advance: is told how many more were looked at.

    Raises: Conflict: a collection of the target has documents with other fields.
            StoreError: a document was changed meanwhile.
    """
    new = 0
    for name, index in source.named().items():
        try:
            target.configure(name, index.own_fields)
        except Conflict as exc:
            raise exc.at(f"collection {name}:") from exc
        if index.recalibration is not None:
            target.of(name).recalibrate(index.recalibration)
        truncated = {document.id for page in _pages(index, truncated=True) for document in page}
        for documents in _pages(index):
            ids = [document.id for document in documents]
            there, vectors, missing = target.documents_of(name, ids), index.passage_vectors(ids), []
            for document in documents:
                known, parts = there.get(document.id), len(vectors.get(document.id, ()))
                if known is None or len(known.spans) != parts or not has_content_of(document, known):
                    whole = index.get(document.id) if parts > 1 and not document.passages else document
                    if whole is None or len(whole.spans) != parts:
                        raise StoreError(f"{where(name)}a document changed meanwhile: stop the service, and copy again")
                    missing.append(replace(whole, is_truncated=document.id in truncated))
            if missing:
                stacked = np.concatenate([vectors[document.id] for document in missing])
                target.put(name, missing, stacked, Versions(index.own_fields))
            new += len(missing)
            advance(len(documents))
    return new


def reembed(
    source: Collections,
    target: Collections,
    engine: Engine,
    *,
    split: Callable[[str], tuple[Span, ...]],
    on_failed: Callable[[str], object],
    advance: Callable[[int, Report], object],
) -> Report:
    """Embed every document that the target lacks, and delete there what the source lacks. Return the counts.

    Args: split: gives the passages of a text, by the new model's tokens; texts that were cut stay whole.
          on_failed: called for each document that the model fails on.  advance: as `Load.advance`.
    """
    for name in [name for name in target.named() if name not in source.named() and name != DEFAULT_NAME]:
        target.drop(name)
    report, before = Report(), 0
    for name, index in source.named().items():
        target.configure(name, index.own_fields)
        copied = target.of(name)
        if index.recalibration is not None:
            copied.recalibrate(index.recalibration)
        truncated = {document.id for page in _pages(index, truncated=True) for document in page}

        def read(record: Record, truncated: Set[str] = truncated) -> Document:
            document: StoredDocument = record.fields["document"]
            is_whole = document.id in truncated and not document.passages
            return Document(document.id, document.text, document.metadata, () if is_whole else split(document.text))

        documents = (document for page in _pages(index) for document in page)
        records = (Record(place, place, {"document": one}) for place, one in enumerate(documents, before + 1))
        Load(read, refuse, on_failed, advance, report).run(records, copied, engine)
        for page in _pages(copied):
            there = index.documents_of([document.id for document in page])
            copied.delete([document.id for document in page if document.id not in there])
        before += len(index)
    return report


def _pages(index: DocumentIndex, *, truncated: bool = False) -> Iterator[list[StoredDocument]]:
    after: int | None = 0
    while after is not None:
        page = index.page(
            PageRequest(after_row=after, limit=DOCUMENTS_AT_ONCE, max_chars=CHARS_AT_ONCE, truncated=truncated)
        )
        if page.documents:
            yield list(page.documents)
        after = page.next_row
