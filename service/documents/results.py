"""A search's results: which documents and fields are wanted, and reading them from the store."""

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from service.documents.filters import Condition
from service.documents.protocol import Rows, Vectors
from service.documents.store.store import DocumentStore, StoredDocument
from service.errors import InvalidInput

CHUNK_ROWS = 4096  # vectors read at a time: equal texts may tie in very many rows

T = TypeVar("T")


@dataclass(frozen=True)
class Match:
    """A document found by a search. score: its cosine with the query."""

    score: float
    document: StoredDocument


@dataclass(frozen=True)
class Shown:
    """What to return of the `top_k` nearest documents; nothing else is read.

    offset: number of best documents to skip.  min_score: documents with a lower cosine are left out.
    text, metadata: whether to include them.  max_chars: limit on all texts and metadata of a request; None: no limit.
    filter_s: time limit for evaluating a request's filter, over all tries; None: no limit.
    """

    offset: int = 0
    min_score: float | None = None
    text: bool = True
    metadata: bool = True
    max_chars: int | None = None
    filter_s: float | None = None

    def cut(self, best: Sequence[tuple[float, T]]) -> list[tuple[float, T]]:
        """Apply `offset` and `min_score` to (score, item) pairs, best first."""
        return [hit for hit in best[self.offset :] if self.min_score is None or hit[0] >= self.min_score]

    def check(self, chars: int) -> None:
        """Raises: InvalidInput: there are more than `max_chars` characters."""
        if self.max_chars is not None and chars > self.max_chars:
            raise InvalidInput(
                f"the documents found have more than {self.max_chars} characters together; send fewer queries, a "
                "smaller top_k, or leave text out of include and ask for it by id"
            )


EVERYTHING = Shown()


class FilterTime:
    """Time limit for evaluating a request's filter, over all tries, starting now; None: no limit."""

    def __init__(self, filter_s: float | None) -> None:
        self._filter_s = filter_s
        self._until = math.inf if filter_s is None else time.monotonic() + filter_s

    def matching(self, store: DocumentStore, condition: Condition) -> Rows:
        """Return the rows that match a filter, in ascending order.

        Raises: InvalidInput: it takes too long.
        """
        try:
            return store.matching(condition, until=self._until)
        except TimeoutError as exc:
            raise InvalidInput(
                f"the filter takes longer than {self._filter_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): send fewer or "
                "narrower ranges, or list their values with 'in'"
            ) from exc


def scored(store: DocumentStore, rows: Sequence[int], vector_D: Vectors) -> tuple[list[int], Vectors]:
    """Return the rows that exist, with exact inner products from their stored vectors."""
    known: list[int] = []
    scores: list[Vectors] = [np.empty(0, np.float32)]
    for start in range(0, len(rows), CHUNK_ROWS):
        found, vectors_ND = store.vectors_of(rows[start : start + CHUNK_ROWS])
        known += found
        scores.append(np.einsum("nd,d->n", vectors_ND, vector_D))  # not `@`: a score must not depend on the other rows
    return known, np.concatenate(scores)


class DocumentReader:
    """Reads documents and filter results for the searches of one request, each only once per revision."""

    def __init__(self, store: DocumentStore, condition: Condition | None, shown: Shown) -> None:
        self._store = store
        self._condition = condition
        self._shown = shown
        self._revision: int | None = None
        self._selected: Rows | None = None
        self._documents: dict[int, StoredDocument] = {}
        self._chars = 0
        self._time = FilterTime(shown.filter_s)

    def selected(self, revision: int) -> Rows | None:
        """Return the rows that match the filter; None without one. revision: of this thread's open snapshot.

        Raises: InvalidInput: it takes too long.
        """
        if self._revision != revision:
            self._revision, self._documents = revision, {}
            self._selected = None if self._condition is None else self._time.matching(self._store, self._condition)
        return self._selected

    def matches(self, best: Sequence[tuple[float, int]]) -> list[Match]:
        """Return the wanted matches of (score, row) pairs, read in the snapshot of `selected`.

        Rows missing in the store are left out: an index that failed to apply a change may find them.

        Raises: InvalidInput: the documents have too many characters.
        """
        wanted = self._shown.cut(best)
        missing = [row for _, row in wanted if row not in self._documents]
        with closing(self._store.fetch(missing, text=self._shown.text, metadata=self._shown.metadata)) as found:
            for document, chars in found:
                self._chars += chars
                self._shown.check(self._chars)
                self._documents[document.row] = document
        return [Match(score, self._documents[row]) for score, row in wanted if row in self._documents]
