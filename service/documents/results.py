"""What a search gives of the documents that it finds, and what it reads of the store for that. Knows no index."""

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

CHUNK_ROWS = 4096  # whose vectors are read at a time: of equal texts there may be very many

T = TypeVar("T")


@dataclass(frozen=True)
class Match:
    """A document found by a search; score is the cosine with the query."""

    score: float
    document: StoredDocument


@dataclass(frozen=True)
class Shown:
    """What is wanted of the `top_k` nearest; nothing else of them is read.

    offset: so many of the best are passed over.  min_score: those with a lower cosine are left out.  text, metadata:
    whether documents come with them.  max_chars: of all that is read for one request; None: any number.  filter_s: how
    long all look-ups of a request's filter may take; None: as long as they do.
    """

    offset: int = 0
    min_score: float | None = None
    text: bool = True
    metadata: bool = True
    max_chars: int | None = None
    filter_s: float | None = None

    def cut(self, best: Sequence[tuple[float, T]]) -> list[tuple[float, T]]:
        """What is left of scores and what has them, best first."""
        return [hit for hit in best[self.offset :] if self.min_score is None or hit[0] >= self.min_score]

    def check(self, chars: int) -> None:
        """Raises: InvalidInput: more characters than wanted."""
        if self.max_chars is not None and chars > self.max_chars:
            raise InvalidInput(
                f"the documents found have more than {self.max_chars} characters together; send fewer queries, a "
                "smaller top_k, or leave text out of include and ask for it by id"
            )


EVERYTHING = Shown()


class FilterTime:
    """How long all look-ups of a request's filter may take, from now on; None: as long as they do."""

    def __init__(self, filter_s: float | None) -> None:
        self._filter_s = filter_s
        self._until = math.inf if filter_s is None else time.monotonic() + filter_s

    def matching(self, store: DocumentStore, condition: Condition) -> Rows:
        """The rows that a filter selects, in ascending order.

        Raises: InvalidInput: that takes too long.
        """
        try:
            return store.matching(condition, until=self._until)
        except TimeoutError as exc:
            raise InvalidInput(
                f"the filter takes longer than {self._filter_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): send fewer or "
                "narrower ranges, or 'in' with their values"
            ) from exc


def scored(store: DocumentStore, rows: Sequence[int], vector_D: Vectors) -> tuple[list[int], Vectors]:
    """The rows that there are, with the inner products of their own vectors."""
    known: list[int] = []
    scores: list[Vectors] = [np.empty(0, np.float32)]
    for start in range(0, len(rows), CHUNK_ROWS):
        found, vectors_ND = store.vectors_of(rows[start : start + CHUNK_ROWS])
        known += found
        scores.append(np.einsum("nd,d->n", vectors_ND, vector_D))  # `@`: a row's bits depend on the others
    return known, np.concatenate(scores)


class DocumentReader:
    """What the searches of one request read of the store: each thing once, as long as nothing changes."""

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
        """The rows that the filter selects, if there is one. revision: of the snapshot that this thread has open.

        Raises: InvalidInput: that takes too long.
        """
        if self._revision != revision:
            self._revision, self._documents = revision, {}
            self._selected = None if self._condition is None else self._time.matching(self._store, self._condition)
        return self._selected

    def matches(self, best: Sequence[tuple[float, int]]) -> list[Match]:
        """What is wanted of scores and rows, with their documents, in the snapshot of `selected`.

        A row that the store does not have is left out: an index that could not follow a change may find it.

        Raises: InvalidInput: they have too many characters.
        """
        wanted = self._shown.cut(best)
        missing = [row for _, row in wanted if row not in self._documents]
        with closing(self._store.fetch(missing, text=self._shown.text, metadata=self._shown.metadata)) as found:
            for document, chars in found:
                self._chars += chars
                self._shown.check(self._chars)
                self._documents[document.row] = document
        return [Match(score, self._documents[row]) for score, row in wanted if row in self._documents]
