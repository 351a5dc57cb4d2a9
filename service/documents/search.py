"""Searches: filter, nearest vectors, keywords, fusion, documents, best passages; and counts of facets.

A document's score is its best passage's. Scores are fused, not ranks: shared words move a cosine part of the way to 1
(`hybrid_score`). A document without a word of the query keeps its cosine, so thresholds for cosines still hold.
Reciprocal rank fusion (Cormack et al. 2009) ranks a document that shares only "the" with the query as high as the best
answer; docs/results/quality.md compares both.

D dims, N documents, P passages
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from service.blending import hybrid_score
from service.documents.document import Rows, Span, StoredDocument, Vectors, means_by_row
from service.documents.filters import Facet, to_condition
from service.documents.interface import Match, Passage, Query, ResultOptions
from service.documents.keywords.index import KeywordHits
from service.documents.keywords.terms import occurring, query_terms
from service.documents.live_index import LiveIndex
from service.documents.store.store import Deadline, DocumentStore, Snapshot
from service.documents.vectors.index import Hits, VectorIndex, candidates
from service.errors import InvalidInput, NotReady

DEPTH = 100  # minimum number of results of each kind that are fused
MORE_PASSAGES = 4  # factor by which to ask for more, until the passages are of enough documents
CHUNK_ROWS = 1024  # documents whose vectors are read at a time: equal texts may tie in very many rows
CHUNK_SPLIT_ROWS = 64  # the same where documents have several vectors
RETRY_S = 0.0005  # until a reader checks again whether the index has the last change
TRIES = 5  # while writers go on; then they wait
LONGEST_CHANGE_S = 10.0  # from the disk to the index; the largest change takes some tenths of a second
CHARS_A_NUMBER = 12  # of a float32 in JSON

Ranked = Sequence[tuple[float, int]]  # scores and rows, best first
T = TypeVar("T")


@dataclass(frozen=True)
class Hit:
    """A document's row and score. Ranks from 1, by vectors and by keywords; None: not among the fused results."""

    score: float
    row: int
    dense_rank: int | None = None
    keywords_rank: int | None = None


class Search:
    """The searches of one request. What several queries need of one state of the store is read once."""

    def __init__(
        self,
        store: DocumentStore,
        live: LiveIndex,
        *,
        top_k: int,
        filter_: Mapping[str, object] | None,
        options: ResultOptions,
    ) -> None:
        """Raises: InvalidInput: the filter is malformed."""
        self._store = store
        self._live = live
        self._top_k = top_k
        self._condition = to_condition(filter_) if filter_ else None  # {} matches everything
        self._options = options
        self._deadline = Deadline.after(options.timeout_s)
        self._revision = -1
        self._selected: Rows | None = None
        self._documents: dict[int, StoredDocument] = {}
        self._vectors: dict[int, Vectors] = {}
        self._chars = 0

    def run(self, queries: Sequence[Query]) -> list[list[Match]]:
        """Make one search a query, each over one revision: writers need not wait for all of them.

        A change reaches the disk before the index. A reader that sees different revisions there tries again. If its
        filter takes longer than the time between writes, it gives up after some tries: it then blocks writers, looks
        the filter up once more, and makes the remaining searches over that revision.
        """
        results: list[list[Match]] = []
        for query in queries:
            matches = self._beside_writers(query)
            if matches is None:
                return results + self._before_writers(queries[len(results) :])
            results.append(matches)
        return results

    def _beside_writers(self, query: Query) -> list[Match] | None:
        """Make one search, locking the index only while it is searched. None: the tries are used up."""
        for _ in range(TRIES):
            with self._store.snapshot(self._deadline) as snapshot:
                if query.vector_D is None:
                    return self._matches(snapshot, query, None)
                selected = self._filter(snapshot)
                with self._live.held() as held:
                    is_in_step = held.is_at(snapshot.revision)
                    dense = self._nearest(snapshot, held.index, query, selected) if is_in_step else None
                if is_in_step:
                    return self._matches(snapshot, query, dense)
            time.sleep(RETRY_S)
        return None

    def _before_writers(self, queries: Sequence[Query]) -> list[list[Match]]:
        """Make the searches while no change can reach the index."""
        until = time.monotonic() + LONGEST_CHANGE_S
        while time.monotonic() < until:
            with self._live.held() as held, self._store.snapshot(self._deadline) as snapshot:
                if held.is_at(snapshot.revision):
                    selected = self._filter(snapshot)
                    return [
                        self._matches(snapshot, query, self._nearest(snapshot, held.index, query, selected))
                        for query in queries
                    ]
            time.sleep(RETRY_S)
        raise NotReady(
            f"the index lacks the store's last change after {LONGEST_CHANGE_S:g} s: another process changes the store; "
            "stop that process, then start the service anew"
        )

    def _filter(self, snapshot: Snapshot) -> Rows | None:
        """Return the passages of the documents that match the filter; None without one."""
        self._forget_other_state(snapshot)
        if self._selected is None and self._condition is not None:
            rows = snapshot.matching(self._condition)
            self._selected = snapshot.passages_of(rows.tolist()) if snapshot.has_own_numbers else rows
        return self._selected

    def _nearest(self, snapshot: Snapshot, index: VectorIndex, query: Query, selected: Rows | None) -> Ranked | None:
        """Return the nearest documents, but for the query's own. None: the query has no vector."""
        if query.vector_D is None:
            return None
        wanted = self._top_k if query.words is None else max(self._top_k, DEPTH)
        if query.without is None:
            return nearest(snapshot, index, query.vector_D, top_k=wanted, among=selected)
        own = snapshot.rows_of([query.without])
        hits = nearest(snapshot, index, query.vector_D, top_k=wanted + 1, among=selected)
        return [hit for hit in hits if hit[1] not in own][:wanted]

    def _matches(self, snapshot: Snapshot, query: Query, dense: Ranked | None) -> list[Match]:
        """Add what the keywords find, fuse both, and read what is wanted of the best."""
        self._forget_other_state(snapshot)
        if query.words is None:
            ranked = enumerate((dense or [])[: self._top_k], 1)
            hits = [Hit(score, row, dense_rank=rank) for rank, (score, row) in ranked]
        else:
            by_words = snapshot.with_keywords(query.words, self._condition)
            hits = _fuse(snapshot, dense, by_words, query.vector_D, self._top_k)
        return self._read(snapshot, page_of(hits, self._options, score=lambda hit: hit.score), query)

    def _read(self, snapshot: Snapshot, hits: Sequence[Hit], query: Query) -> list[Match]:
        """Read the documents of hits. Rows that the store lacks, after a failed change of the index, are left out.

        Raises: InvalidInput: the documents have too many characters.
        """
        options = self._options
        missing = [hit.row for hit in hits if hit.row not in self._documents]
        with closing(snapshot.fetch(missing, text=options.text, metadata=options.metadata)) as documents:
            for document, chars in documents:
                self._chars += chars
                check_chars(self._chars, options)
                self._documents[document.row] = document
        if options.vector:
            for row, vector_D in means_by_row(*snapshot.vectors_of_documents(missing)).items():
                self._chars += CHARS_A_NUMBER * len(vector_D)
                check_chars(self._chars, options)
                self._vectors[row] = vector_D
        known = [hit for hit in hits if hit.row in self._documents]
        passages = self._passages(snapshot, known, query) if options.text and options.passage else {}
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

    def _passages(self, snapshot: Snapshot, hits: Sequence[Hit], query: Query) -> dict[int, Passage]:
        """Return the best passage of each document that has several. Raises: InvalidInput: the time is up."""
        if not hits or not snapshot.has_own_numbers:
            return {}
        passages: dict[int, Passage] = {}
        for hit in hits:
            if self._deadline.is_over:
                raise self._deadline.exceeded(
                    "finding the passages takes", "send fewer queries, a smaller top_k, or leave text out"
                )
            spans = snapshot.spans_of([hit.row]).get(hit.row, [])
            if len(spans) > 1:
                _, vectors_PD = snapshot.vectors_of_documents([hit.row])
                has_words = query.vector_D is None or hit.keywords_rank is not None
                asked = query if has_words else replace(query, words=None)
                passages[hit.row] = best_passage(self._documents[hit.row].text, spans, vectors_PD, asked)
        return passages

    def _forget_other_state(self, snapshot: Snapshot) -> None:
        """What was read at another revision may be outdated."""
        if self._revision != snapshot.revision:
            self._revision, self._selected, self._documents, self._vectors = snapshot.revision, None, {}, {}


def page_of(best: Sequence[T], options: ResultOptions, *, score: Callable[[T], float]) -> list[T]:
    """Return the hits that are asked for: from the offset on, without those below the lowest score."""
    least = options.min_score
    return [hit for hit in best[options.offset :] if least is None or score(hit) >= least]


def check_chars(chars: int, options: ResultOptions) -> None:
    """Raises: InvalidInput: the documents of a request have more characters than may be answered."""
    if options.max_chars is not None and chars > options.max_chars:
        raise InvalidInput(
            f"the documents found have more than {options.max_chars} characters together; {options.way_out}"
        )


def count_facets(
    snapshot: Snapshot, fields: Sequence[str], *, most_values: int, filter_: Mapping[str, object] | None
) -> tuple[int, dict[str, Facet]]:
    """Count the documents that match a filter, also by each field's values.

    Raises: InvalidInput: the filter is malformed, or counting takes too long.
    """
    condition = to_condition(filter_) if filter_ else None
    count = snapshot.count() if condition is None else len(snapshot.matching(condition))
    return count, {field: snapshot.facet(field, most_values=most_values, condition=condition) for field in fields}


def nearest(
    snapshot: Snapshot, index: VectorIndex, vector_D: Vectors, *, top_k: int, among: Rows | None = None
) -> Ranked:
    """Return cosines and rows of the nearest documents, best first, ties by id; `index` may not change meanwhile.

    among: the passages to search; None: all.
    """
    wanted = top_k if index.is_exact else candidates(top_k)
    hits = index.search(vector_D, top_k=wanted, among=among)
    rows_P = hits.rows
    if snapshot.has_own_numbers:
        hits, rows_P = _of_enough_documents(snapshot, index, vector_D, hits, wanted=wanted, among=among)
    if index.is_exact:
        rows_N, first_N = np.unique(rows_P, return_index=True)  # the first of a document's passages is its best
        cosines_N = hits.scores[first_N]
    else:
        rows_N, cosines_N = exact_cosines(snapshot, dict.fromkeys(rows_P.tolist()), vector_D)
    return _best(snapshot, rows_N, np.clip(cosines_N, -1, 1), top_k)  # rounding may leave a cosine just above 1


def _of_enough_documents(
    snapshot: Snapshot, index: VectorIndex, vector_D: Vectors, hits: Hits, *, wanted: int, among: Rows | None
) -> tuple[Hits, Rows]:
    """Return the nearest passages of `wanted` documents, if there are as many, and the documents' rows."""
    available = len(index) if among is None else len(among)
    asked = wanted
    while True:
        row_of = snapshot.rows_of_passages(hits.rows.tolist())
        rows_P = np.fromiter((row_of.get(number, 0) for number in hits.rows.tolist()), np.int64, len(hits.rows))
        known = rows_P > 0  # an index that failed to apply a change may find others
        if len(set(row_of.values())) >= wanted or asked >= available:
            return Hits(hits.rows[known], hits.scores[known]), rows_P[known]
        asked = min(MORE_PASSAGES * asked, available)
        hits = index.search(vector_D, top_k=asked, among=among)


def exact_cosines(snapshot: Snapshot, rows: Iterable[int], vector_D: Vectors) -> tuple[Rows, Vectors]:
    """Return the rows that exist, in ascending order, with the exact inner product of each one's best passage."""
    known: list[Rows] = [np.empty(0, np.int64)]
    cosines: list[Vectors] = [np.empty(0, np.float32)]
    ascending = sorted(rows)
    step = CHUNK_SPLIT_ROWS if snapshot.has_own_numbers else CHUNK_ROWS
    for start in range(0, len(ascending), step):
        row_P, vectors_PD = snapshot.vectors_of_documents(ascending[start : start + step])
        if not len(row_P):
            continue
        rows_N, first_N = np.unique(row_P, return_index=True)
        products_P = np.einsum("pd,d->p", vectors_PD, vector_D)  # not `@`: a score must not depend on the other rows
        known.append(rows_N)
        cosines.append(np.maximum.reduceat(products_P, first_N))
    return np.concatenate(known), np.concatenate(cosines)


def _fuse(
    snapshot: Snapshot, dense: Ranked | None, by_words: KeywordHits, vector_D: Vectors | None, top_k: int
) -> list[Hit]:
    """Return the `top_k` best of what vectors and keywords found, best first, ties by id. dense: None: no vector."""
    keywords = _best(snapshot, by_words.rows, by_words.scores, top_k if dense is None else max(top_k, DEPTH))
    if dense is None or vector_D is None:
        return [Hit(score, row, keywords_rank=rank) for rank, (score, row) in enumerate(keywords, 1)]
    near = {row for _, row in dense}
    rows, cosines_N = exact_cosines(snapshot, [row for _, row in keywords if row not in near], vector_D)
    cosine_of = dict(zip(rows.tolist(), np.clip(cosines_N, -1, 1).tolist(), strict=True))
    cosine_of |= {row: cosine for cosine, row in dense}
    looked_at = np.isin(by_words.rows, [row for _, row in (*dense, *keywords)])
    words_of = dict(zip(by_words.rows[looked_at].tolist(), by_words.scores[looked_at].tolist(), strict=True))
    dense_rank = {row: rank for rank, (_, row) in enumerate(dense, 1)}
    keywords_rank = {row: rank for rank, (_, row) in enumerate(keywords, 1)}
    hits = {
        row: Hit(hybrid_score(cosine, words_of.get(row, 0.0)), row, dense_rank.get(row), keywords_rank.get(row))
        for row, cosine in cosine_of.items()
    }
    order = _best(snapshot, list(hits), np.array([hit.score for hit in hits.values()]), top_k)
    return [hits[row] for _, row in order]


def _best(snapshot: Snapshot, rows: Rows | Sequence[int], scores_N: npt.NDArray[np.floating], top_k: int) -> Ranked:
    """Return the first `top_k` by score, ties by id. Reads no text."""
    rows_N = np.asarray(rows, np.int64)
    if len(rows_N) > top_k:
        kept = scores_N >= np.partition(scores_N, -top_k)[-top_k]
        rows_N, scores_N = rows_N[kept], scores_N[kept]
    order = sorted(zip(scores_N.tolist(), rows_N.tolist(), strict=True), reverse=True)
    if len({score for score, _ in order}) < len(order):
        ids = snapshot.ids_of(rows_N.tolist())
        order.sort(key=lambda hit: (-hit[0], ids[hit[1]]))
    return order[:top_k]


def best_passage(text: str, spans: Sequence[Span], vectors_PD: Vectors, query: Query) -> Passage:
    """Return the passage nearest to the query's vector, with most of its words, or both; of equal ones the first."""
    score_P = np.zeros(len(spans))
    if query.vector_D is not None:
        score_P = np.einsum("pd,d->p", vectors_PD, query.vector_D).astype(np.float64)
    if query.words is not None:
        score_P = hybrid_score(score_P, _word_shares([text[start:stop] for start, stop in spans], query.words))
    start, stop = spans[int(score_P.argmax())]
    return Passage(text[start:stop], start, stop)


def _word_shares(passages: Sequence[str], words: str) -> npt.NDArray[np.float64]:
    """(P,) In [0, 1]: how many of the query's terms that occur a passage has; the rarer among them count more."""
    wanted = query_terms(words)
    terms_P = [occurring(wanted, passage) for passage in passages]
    count = Counter(term for terms in terms_P for term in terms)
    total = sum(1 / times for times in count.values())
    return np.array([sum(1 / count[term] for term in terms) / total if terms else 0.0 for terms in terms_P])
