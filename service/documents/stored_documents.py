"""Reads documents from the store alone: by id, by page, by filter. Knows no vector index.

D dims
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce

import numpy as np

from service.documents.backend import DocumentIndex
from service.documents.filters import to_condition
from service.documents.protocol import Vectors
from service.documents.results import FilterTime
from service.documents.store.facets import Facet
from service.documents.store.rows import means_by_row
from service.documents.store.store import DocumentStore, Page, StoredDocument
from service.errors import Damaged


class StoredDocuments(DocumentIndex):
    """What a document index answers from its store."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id."""
        return self._store.get(id_)

    def page(
        self,
        *,
        after_row: int,
        limit: int,
        max_chars: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
        truncated: bool = False,
    ) -> Page:
        """Return the next documents that match the filter, as in `DocumentIndex`; {} matches everything."""
        if not (filter_ or truncated):
            with self._store.read_transaction():
                page = self._store.page(after_row=after_row, limit=limit, max_chars=max_chars)
                return replace(page, total=self._store.count())
        condition = to_condition(filter_) if filter_ else None
        with self._store.read_transaction():
            selected = [self._store.truncated()] if truncated else []
            if condition is not None:
                selected.append(FilterTime(filter_s).matching(self._store, condition))
            rows = reduce(np.intersect1d, selected)
            page = self._store.page(after_row=after_row, limit=limit, max_chars=max_chars, among=rows)
        return replace(page, total=len(rows))

    def count(self, filter_: Mapping[str, object] | None = None, *, filter_s: float | None = None) -> int:
        """Count the documents that match a filter; same limits and errors as `page`."""
        if not filter_:
            return len(self)
        return len(FilterTime(filter_s).matching(self._store, to_condition(filter_)))

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return the documents of the ids, as in `DocumentIndex`."""
        found: dict[str, StoredDocument] = {}
        for id_ in ids:
            with suppress(Damaged):
                document = self.get(id_)
                found |= {} if document is None else {id_: document}
        return found

    def vector(self, id_: str) -> Vectors | None:
        """Return a document's vector, as in `DocumentIndex`."""
        rows = self._store.rows_of([id_])
        return next(iter(means_by_row(*self._store.passages.vectors_of_documents(rows)).values()), None)

    def counts(
        self,
        fields: Sequence[str],
        *,
        most_values: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
    ) -> tuple[int, dict[str, Facet]]:
        """Count documents, also by each field's values, as in `DocumentIndex`; same limits and errors as `count`."""
        condition = to_condition(filter_) if filter_ else None
        time = FilterTime(filter_s)
        with self._store.read_transaction():
            count = self._store.count() if condition is None else len(time.matching(self._store, condition))
            return count, {
                field: time.facet(self._store, field, most_values=most_values, condition=condition) for field in fields
            }
