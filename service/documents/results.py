"""A search's results: which documents and fields are wanted, and reading them from the store."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from service.documents.best_passage import Passage, best_passage
from service.documents.filters import Condition
from service.documents.keywords.fusion import Hit
from service.documents.keywords.index import KeywordHits
from service.documents.protocol import Rows, Vectors
from service.documents.query import Query
from service.documents.store.facets import Facet
from service.documents.store.rows import means_by_row
from service.documents.store.store import DocumentStore, StoredDocument
from service.errors import InvalidInput

CHARS_A_NUMBER = 12  # of a float32 in JSON
CHUNK_ROWS = 1024  # documents whose vectors are read at a time: equal texts may tie in very many rows
CHUNK_SPLIT_ROWS = 64  # the same where documents have several vectors

T = TypeVar("T")


@dataclass(frozen=True)
class Match:
    """A document found by a search.

    score: the cosine with the query; with keywords as well, `fusion` says what; by keywords alone, `KeywordHits` does.
    dense_rank, keywords_rank: its places in the two orders, from 1; None: not among those looked at.
    passage: of a document in several, the one that answers best; None: it is in one piece, or that was not asked for.
    vector_D: of norm 1, if wanted.
    """

    score: float
    document: StoredDocument
    dense_rank: int | None = None
    keywords_rank: int | None = None
    passage: Passage | None = None
    vector_D: Vectors | None = None


@dataclass(frozen=True)
class Shown:
    """What to return of the `top_k` nearest documents; nothing else is read.

    offset: number of best documents to skip.  min_score: documents with a lower cosine are left out.
    text, metadata, vector: whether to include them.  passage: whether to find the best one, which needs the text.
    max_chars: limit on all texts, metadata and vectors of a request; None: no limit.  way_out: for whoever exceeds it.
    filter_s: time limit for evaluating a request's filter, over all tries; None: no limit.
    """

    offset: int = 0
    min_score: float | None = None
    text: bool = True
    metadata: bool = True
    passage: bool = True
    vector: bool = False
    max_chars: int | None = None
    way_out: str = (
        "send fewer queries, a smaller top_k, or leave text and vector out of include and ask for documents by id"
    )
    filter_s: float | None = None

    def cut(self, best: Sequence[T], score: Callable[[T], float]) -> list[T]:
        """What is left of what was found, best first."""
        return [hit for hit in best[self.offset :] if self.min_score is None or score(hit) >= self.min_score]

    def check(self, chars: int) -> None:
        """Raises: InvalidInput: there are more than `max_chars` characters."""
        if self.max_chars is not None and chars > self.max_chars:
            raise InvalidInput(
                f"the documents found have more than {self.max_chars} characters together; {self.way_out}"
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
        with self._bounded("the filter takes", "send fewer or narrower ranges, or 'in' with their values"):
            return store.matching(condition, until=self._until)

    def with_keywords(self, store: DocumentStore, query: str, condition: Condition | None) -> KeywordHits:
        """The documents with a term of a query, which a filter selects.

        Raises: InvalidInput: that takes too long.
        """
        with self._bounded("the keywords and their filter take", "send fewer words, or a narrower filter"):
            return store.with_keywords(query, condition, until=self._until)

    def check_passages(self) -> None:
        """Raises: InvalidInput: the time is up, before the best passage of each document is known."""
        with self._bounded("finding the passages takes", "send fewer queries, a smaller top_k, or leave text out"):
            if time.monotonic() > self._until:
                raise TimeoutError

    def facet(self, store: DocumentStore, field: str, *, most_values: int, condition: Condition | None) -> Facet:
        """Count the documents that a filter selects by a field's values.

        Raises: InvalidInput: that takes too long.
        """
        with self._bounded("the facets and their filter take", "send fewer facets, or a narrower filter"):
            return store.facet(field, most_values=most_values, condition=condition, until=self._until)

    @contextmanager
    def _bounded(self, what: str, way_out: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise InvalidInput(
                f"{what} longer than {self._filter_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): {way_out}"
            ) from exc


def scored(store: DocumentStore, rows: Iterable[int], vector_D: Vectors) -> tuple[Rows, Vectors]:
    """Return the rows that exist, in ascending order, with the exact inner product of each one's best passage."""
    known: list[Rows] = [np.empty(0, np.int64)]
    scores: list[Vectors] = [np.empty(0, np.float32)]
    ascending = sorted(rows)
    step = CHUNK_SPLIT_ROWS if store.passages.has_own_numbers else CHUNK_ROWS
    for start in range(0, len(ascending), step):
        row_P, vectors_PD = store.passages.vectors_of_documents(ascending[start : start + step])
        if not len(row_P):
            continue
        found, first_N = np.unique(row_P, return_index=True)
        known.append(found)
        products_P = np.einsum("pd,d->p", vectors_PD, vector_D)  # not `@`: a score must not depend on the other rows
        scores.append(np.maximum.reduceat(products_P, first_N))
    return np.concatenate(known), np.concatenate(scores)


class DocumentReader:
    """Reads documents and filter results for the searches of one request, each only once per revision."""

    def __init__(self, store: DocumentStore, condition: Condition | None, shown: Shown) -> None:
        self._store = store
        self._condition = condition
        self._shown = shown
        self._revision: int | None = None
        self._selected: Rows | None = None
        self._documents: dict[int, StoredDocument] = {}
        self._vectors: dict[int, Vectors] = {}
        self._chars = 0
        self._time = FilterTime(shown.filter_s)

    def selected(self, revision: int) -> Rows | None:
        """Return the passages of the documents that match the filter; None without one.

        revision: of this thread's open snapshot.

        Raises: InvalidInput: it takes too long.
        """
        self._look_at(revision)
        if self._selected is None and self._condition is not None:
            rows = self._time.matching(self._store, self._condition)
            passages = self._store.passages
            self._selected = passages.numbers_of(rows.tolist()) if passages.has_own_numbers else rows
        return self._selected

    def with_keywords(self, revision: int, query: str) -> KeywordHits:
        """The documents with a term of the query, which the filter selects; as `selected`."""
        self._look_at(revision)
        return self._time.with_keywords(self._store, query, self._condition)

    def _look_at(self, revision: int) -> None:
        if self._revision != revision:
            self._revision, self._selected, self._documents, self._vectors = revision, None, {}, {}

    def matches(self, best: Sequence[Hit], query: Query) -> list[Match]:
        """What is wanted of what was found for a query, with the documents, in the snapshot of `selected`.

        Rows missing in the store are left out: an index that failed to apply a change may find them.

        Raises: InvalidInput: the documents have too many characters.
        """
        wanted = self._shown.cut(best, lambda hit: hit.score)
        missing = [hit.row for hit in wanted if hit.row not in self._documents]
        with closing(self._store.fetch(missing, text=self._shown.text, metadata=self._shown.metadata)) as found:
            for document, chars in found:
                self._chars += chars
                self._shown.check(self._chars)
                self._documents[document.row] = document
        if self._shown.vector:
            self._read_vectors(missing)
        known = [hit for hit in wanted if hit.row in self._documents]
        passages = self._passages(known, query)
        return [
            Match(
                hit.score,
                self._documents[hit.row],
                hit.dense_rank,
                hit.keywords_rank,
                passages.get(hit.row),
                self._vectors.get(hit.row),
            )
            for hit in known
        ]

    def _passages(self, found: Sequence[Hit], query: Query) -> dict[int, Passage]:
        """The best passage of each document that has several."""
        reader = self._store.passages
        if not (found and self._shown.text and self._shown.passage and reader.has_own_numbers):
            return {}
        passages: dict[int, Passage] = {}
        for hit in found:
            self._time.check_passages()
            spans, vectors_PD = reader.of_document(hit.row)
            if len(spans) > 1:
                has_words = query.vector_D is None or hit.keywords_rank is not None
                asked = query if has_words else replace(query, words=None)
                passages[hit.row] = best_passage(self._documents[hit.row].text, spans, vectors_PD, asked)
        return passages

    def _read_vectors(self, rows: Sequence[int]) -> None:
        for row, vector_D in means_by_row(*self._store.passages.vectors_of_documents(rows)).items():
            self._chars += CHARS_A_NUMBER * len(vector_D)
            self._shown.check(self._chars)
            self._vectors[row] = vector_D
