"""Copies all collections from one engine to the other, with vectors and settings. Repeating a copy continues it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from service.documents.collections import Collections
from service.documents.document import StoredDocument
from service.documents.interface import DocumentIndex, PageRequest
from service.documents.names import where
from service.errors import Conflict, StoreError

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
                known = there.get(document.id)
                if known is None or (known.text, known.metadata) != (document.text, document.metadata):
                    parts = len(vectors.get(document.id, ()))
                    whole = index.get(document.id) if parts > 1 and not document.passages else document
                    if whole is None or len(whole.spans) != parts:
                        raise StoreError(f"{where(name)}a document changed meanwhile: stop the service, and copy again")
                    missing.append(replace(whole, is_truncated=document.id in truncated))
            if missing:
                stacked = np.concatenate([vectors[document.id] for document in missing])
                target.put(name, missing, stacked, own_fields=index.own_fields)
            new += len(missing)
            advance(len(documents))
    return new


def _pages(index: DocumentIndex, *, truncated: bool = False) -> Iterator[list[StoredDocument]]:
    after: int | None = 0
    while after is not None:
        page = index.page(
            PageRequest(after_row=after, limit=DOCUMENTS_AT_ONCE, max_chars=CHARS_AT_ONCE, truncated=truncated)
        )
        if page.documents:
            yield list(page.documents)
        after = page.next_row
