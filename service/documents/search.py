"""Searches: filter, nearest vectors, keywords, fusion, documents, best passages.

A document's score is its best passage's. Scores are fused, not ranks: shared words move a cosine part of the way to 1
(`hybrid_score`), the further the rarer they are and the more of the query they make up (`KeywordHits.evidence`): codes
and names rise, what a language has everywhere does not. A document without a word of the query keeps its cosine, so
thresholds for cosines still hold.
Reciprocal rank fusion (Cormack et al. 2009) ranks a document that shares only "the" with the query as high as the best
answer; docs/results/quality.md compares both.

D dims, N documents, P passages
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from service.documents.arrangement import Ranked, first_of_groups, groups_of, in_order, of_enough_groups
from service.documents.document import Rows, Span, StoredDocument, Vectors, means_by_row
from service.documents.filters import Condition, both, to_condition
from service.documents.interface import DEFAULTS, Match, Matches, Passage, Preference, Query, ResultOptions
from service.documents.keywords.index import KeywordHits
from service.documents.keywords.terms import occurring
from service.documents.live_index import LiveIndex
from service.documents.store.store import Deadline, DocumentStore, FieldReader, Snapshot
from service.documents.vectors.index import Hits, VectorIndex, candidates
from service.errors import InvalidInput, NotReady
from service.model.confidence import Evidence

DEPTH = 100  # minimum number of results of each kind that are fused
MORE_PASSAGES = 4  # factor by which to ask for more, until the passages are of enough documents
CHUNK_ROWS = 1024  # documents whose vectors are read at a time: equal texts may tie in very many rows
CHUNK_SPLIT_ROWS = 64  # the same where documents have several vectors
RETRY_S = 0.0005  # until a reader checks again whether the index has the last change
TRIES = 5  # while writers go on; then they wait
LONGEST_CHANGE_S = 10.0  # from the disk to the index; the largest change takes some tenths of a second
CHARS_A_NUMBER = 12  # of a float32 in JSON
HALF_EVIDENCE = 0.3  # moves a cosine half of the way to 1; `_fusion_dev` of `crosslet evaluate` compares
WORDS_IN_PASSAGE = 0.8  # share of the way to 1 if a passage has all words that its document has
NO_WORDS = KeywordHits(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0), {}, {})

T = TypeVar("T")
S = TypeVar("S", float, npt.NDArray[np.float64])


@dataclass(frozen=True)
class Hit:
    """A document's row and score. Ranks from 1, by vectors and by keywords; None: not among the fused results.

    cosine: None: without a vector.  share: of the query's words, by rarity.
    """

    score: float
    row: int
    dense_rank: int | None = None
    keywords_rank: int | None = None
    preference: float = 0.0
    cosine: float | None = None
    share: float = 0.0


@dataclass(frozen=True)
class Candidates:
    """The best documents by vectors or by keywords, and the best of those that the query prefers."""

    best: Ranked
    preferred: Ranked = ()

    @property
    def rows(self) -> list[int]:
        """The rows of both, some twice."""
        return [row for _, row in (*self.best, *self.preferred)]


@dataclass(frozen=True)
class Contents:
    """What is shown of documents, by row; those that are gone have nothing."""

    documents: Mapping[int, StoredDocument]
    vectors: Mapping[int, Vectors]
    passages: Mapping[int, Passage]


ReadContents = Callable[[Sequence[Hit], KeywordHits], Contents]


@dataclass(frozen=True)
class Preferred:
    """The documents that a query prefers, ascending, and their passages."""

    rows: Rows
    passages: Rows


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
        self._matching = 0  # documents, with a filter
        self._preferred: dict[Preference, Preferred] = {}
        self._documents: dict[int, StoredDocument] = {}
        self._vectors: dict[int, Vectors] = {}
        self._chars = 0

    def run(self, queries: Sequence[Query]) -> list[Matches]:
        """Make one search a query, each over one revision: writers need not wait for all of them.

        A change reaches the disk before the index. A reader that sees different revisions there tries again. If its
        filter takes longer than the time between writes, it gives up after some tries: it then blocks writers, looks
        the filter up once more, and makes the remaining searches over that revision.
        """
        results: list[Matches] = []
        for query in queries:
            matches = self._beside_writers(query)
            if matches is None:
                return results + self._before_writers(queries[len(results) :])
            results.append(matches)
        return results

    def _beside_writers(self, query: Query) -> Matches | None:
        """Make one search, locking the index only while it is searched. None: the tries are used up."""
        for _ in range(TRIES):
            with self._store.snapshot(self._deadline) as snapshot:
                if query.vector_D is None:
                    return self._matches(snapshot, query, None)
                selected = self._filter(snapshot)
                if query.prefer is not None:
                    self._prefer(snapshot, query.prefer)  # before the index is locked
                with self._live.held() as index:
                    is_in_step = self._live.is_at(snapshot.revision)
                    dense = self._nearest(snapshot, index, query, selected) if is_in_step else None
                if is_in_step:
                    return self._matches(snapshot, query, dense)
            time.sleep(RETRY_S)
        return None

    def _before_writers(self, queries: Sequence[Query]) -> list[Matches]:
        """Make the searches while no change can reach the index."""
        until = time.monotonic() + LONGEST_CHANGE_S
        while time.monotonic() < until:
            with self._live.held() as index, self._store.snapshot(self._deadline) as snapshot:
                if self._live.is_at(snapshot.revision):
                    selected = self._filter(snapshot)
                    return [
                        self._matches(snapshot, query, self._nearest(snapshot, index, query, selected))
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
            self._selected, self._matching = _passages_of(snapshot, rows), len(rows)
        return self._selected

    def _prefer(self, snapshot: Snapshot, prefer: Preference) -> Preferred:
        """Return the documents that match the filter and are preferred."""
        self._forget_other_state(snapshot)
        if prefer not in self._preferred:
            rows = snapshot.matching(both(self._condition, to_condition(prefer.filter_)))
            self._preferred[prefer] = Preferred(rows, _passages_of(snapshot, rows))
        return self._preferred[prefer]

    def _nearest(
        self, snapshot: Snapshot, index: VectorIndex, query: Query, selected: Rows | None
    ) -> Candidates | None:
        """Return the nearest documents, but for the query's own. None: the query has no vector."""
        if query.vector_D is None:
            return None
        vector_D, own = query.vector_D, [] if query.without is None else snapshot.rows_of([query.without])

        def best(depth: int, among: Rows | None) -> Ranked:
            hits = nearest(snapshot, index, vector_D, top_k=depth + len(own), among=among)
            return [hit for hit in hits if hit[1] not in own][:depth]

        among = [selected] if query.prefer is None else [selected, self._prefer(snapshot, query.prefer).passages]
        is_deep = query.words is not None or self._options.compared > 0
        wanted = max(self._top_k, DEPTH) if is_deep else self._top_k
        return candidates_of(snapshot, best, among, self._options, wanted=wanted)

    def _matches(self, snapshot: Snapshot, query: Query, dense: Candidates | None) -> Matches:
        """Add what the keywords find, and read what is wanted of the page."""
        self._forget_other_state(snapshot)

        def text_of(row: int) -> str:
            if row in self._documents and self._options.text:
                return self._documents[row].text
            with closing(snapshot.fetch([row], metadata=False)) as documents:
                return next((document.text for document, _ in documents), "")

        results = Results(
            snapshot, query, self._options, self._top_k, self._condition, partial(self._read, snapshot, query)
        )
        if is_filter_alone(query):
            return results.in_order()
        return results.fused(
            dense,
            None if query.words is None else snapshot.with_keywords(query.words, self._condition, typing=query.typing),
            preferred=np.empty(0, np.int64) if query.prefer is None else self._prefer(snapshot, query.prefer).rows,
            cosines_of=partial(exact_cosines, snapshot),
            searched=lambda: snapshot.count() if self._condition is None else self._matching,
            text_of=text_of,
            vectors_of=snapshot.vectors_of_documents,
        )

    def _read(self, snapshot: Snapshot, query: Query, hits: Sequence[Hit], by_words: KeywordHits) -> Contents:
        """Read the documents of hits. The store may lack rows after a failed change of the index.

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
        with_passage = options.text and options.passage and not is_filter_alone(query)
        passages = self._passages(snapshot, known, query, by_words.terms) if with_passage else {}
        return Contents(self._documents, self._vectors, passages)

    def _passages(
        self, snapshot: Snapshot, hits: Sequence[Hit], query: Query, terms: Mapping[str, bool]
    ) -> dict[int, Passage]:
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
                text, wanted = self._documents[hit.row].text, terms if has_words else {}
                passages[hit.row] = best_passage(text, spans, vectors_PD, query.vector_D, wanted)
        return passages

    def _forget_other_state(self, snapshot: Snapshot) -> None:
        """What was read at another revision may be outdated."""
        if self._revision != snapshot.revision:
            self._revision, self._selected, self._documents, self._vectors = snapshot.revision, None, {}, {}
            self._preferred = {}


@dataclass(frozen=True)
class Results:
    """The results of one query on either engine: fuses what was found, arranges it, and reads what is wanted of a page.

    reader: of the documents' fields.  condition: of the filter; None: `reader` has what matches alone.
    read: gives the contents of hits.
    """

    reader: FieldReader
    query: Query
    options: ResultOptions
    top_k: int
    condition: Condition | None
    read: ReadContents

    def in_order(self) -> Matches:
        """Return the page of all documents that match the filter, in order, ties by id."""
        rows = self.reader.by_id(self.condition)
        rows = rows[in_order(self.reader, self.options.sort, rows)]
        if self.options.group_by is not None:
            rows = rows[first_of_groups(self.reader, self.options.group_by, rows)]
        page = page_of(rows[: self.top_k].tolist(), self.options)
        matches = self._matches([Hit(0.0, row) for row in page], NO_WORDS, None)
        matches.total = len(rows)
        return matches

    def fused(
        self,
        dense: Candidates | None,
        by_words: KeywordHits | None,
        *,
        preferred: Rows,
        cosines_of: Callable[[Collection[int], Vectors], tuple[Rows, Vectors]],
        searched: Callable[[], int],
        text_of: Callable[[int], str],
        vectors_of: Callable[[Sequence[int]], tuple[Rows, Vectors]],
    ) -> Matches:
        """Return the page of what vectors and keywords found.

        Args: dense, by_words: None: the query has no vector, or no words.  preferred: documents that it prefers.
              cosines_of: gives the rows that exist, with the cosine of each one's best passage with a vector.
              searched: counts the documents that match the filter.
              text_of: of a document.  vectors_of: gives the passages of documents, each with its document's row.
        """
        query, options, found = self.query, self.options, None
        if by_words is None:
            ranked = dense or Candidates(())
            hits = [Hit(score, row, dense_rank=rank, cosine=score) for rank, (score, row) in enumerate(ranked.best, 1)]
            hits += [Hit(score, row, cosine=score) for score, row in ranked.preferred]
        else:
            vector_D = query.vector_D if query.vector_D is not None else np.empty(0, np.float32)
            words = self._with_words(
                by_words, preferred, wanted=self.top_k if dense is None else max(self.top_k, DEPTH)
            )
            hits = fuse(dense, words, by_words, lambda rows: cosines_of(rows, vector_D))
            if dense is None:
                found = by_words.of_score(options.min_score)
        arrange = partial(arranged, self.reader, hits, prefer=query.prefer, preferred=preferred)
        page = arrange(options, top_k=self.top_k)
        matches = self._matches(page, by_words or NO_WORDS, found)
        if by_words is not None and found is not None:
            groups = None if options.group_by is None else first_of_groups(self.reader, options.group_by, found)
            matches.total, matches.is_counted = len(found if groups is None else groups), by_words.is_complete
        elif hits and options.compared:
            is_best_first = page and not options.offset and not options.sort
            best = page[0] if is_best_first else arrange(DEFAULTS, top_k=1)[0]  # whatever the options leave out
            matches.evidence = evidence(
                *(query, hits, best),
                compared=options.compared,
                searched=searched(),
                text_of=text_of,
                vectors_of=vectors_of,
            )
        return matches

    def _with_words(self, by_words: KeywordHits, preferred: Rows, *, wanted: int) -> Candidates:
        """Return the best documents by keywords."""

        def best(depth: int, among: npt.NDArray[np.bool_]) -> Ranked:
            return best_of(self.reader, by_words.rows[among], by_words.scores[among], depth)

        among = [np.ones(len(by_words.rows), np.bool_)]
        if self.query.prefer is not None:
            among.append(np.isin(by_words.rows, preferred))
        return candidates_of(self.reader, best, among, self.options, wanted=wanted)

    def _matches(self, page: Sequence[Hit], by_words: KeywordHits, found: Rows | None) -> Matches:
        """Read the documents of hits. found: what groups are counted in; None: all that match."""
        contents, options = self.read(page, by_words), self.options
        known = [hit for hit in page if hit.row in contents.documents]
        groups = {}
        if options.group_by is not None:
            rows = [hit.row for hit in known]
            groups = groups_of(self.reader, options.group_by, rows, condition=self.condition, found=found)
        return Matches(
            Match(
                None if is_filter_alone(self.query) else hit.score,
                contents.documents[hit.row],
                hit.dense_rank,
                hit.keywords_rank,
                contents.passages.get(hit.row),
                contents.vectors.get(hit.row),
                groups.get(hit.row),
                hit.preference,
                by_words.weights if options.words else None,
                hit.row,
            )
            for hit in known
        )


def candidates_of(
    reader: FieldReader, best: Callable[..., Ranked], among: Sequence[T], options: ResultOptions, *, wanted: int
) -> Candidates:
    """Return the best among all, and among those preferred; of as many groups as wanted.

    best: gives the best of so many, `among` some.  among: what it takes for all, and for those preferred.
    """
    field = options.group_by
    if field is None:
        return Candidates(*(best(wanted, which) for which in among))
    return Candidates(*(of_enough_groups(reader, field, partial(best, among=which), wanted=wanted) for which in among))


def arranged(
    reader: FieldReader,
    hits: Sequence[Hit],
    options: ResultOptions,
    *,
    top_k: int,
    prefer: Preference | None,
    preferred: Rows,
) -> list[Hit]:
    """Return the hits of the page: what the query prefers raised, the best of each group, the best in order."""
    least = options.min_score  # of the scores that nothing has raised
    kept = {hit.row: hit for hit in reversed(hits) if least is None or hit.score >= least}
    if prefer is not None:
        rows = np.fromiter(kept, np.int64, len(kept))
        for row in rows[np.isin(rows, preferred)].tolist():
            score = kept[row].score + prefer.weight
            kept[row] = replace(kept[row], score=score, preference=prefer.weight)
    field = options.group_by
    scores_N = np.fromiter((hit.score for hit in kept.values()), np.float64, len(kept))
    order = best_of(reader, list(kept), scores_N, top_k if field is None else len(kept))
    rows = np.fromiter((row for _, row in order), np.int64, len(order))
    if field is not None:
        rows = rows[first_of_groups(reader, field, rows)][:top_k]
    if options.sort:
        rows = rows[in_order(reader, options.sort, rows)]
    return [kept[row] for row in page_of(rows.tolist(), options)]


def evidence(
    query: Query,
    hits: Sequence[Hit],
    best: Hit,
    *,
    compared: int,
    searched: int,
    text_of: Callable[[int], str],
    vectors_of: Callable[[Sequence[int]], tuple[Rows, Vectors]],
) -> Evidence:
    """Return what tells how surely the best hit answers the query.

    compared: how many of the nearest hits to compare with it, by their vectors.  searched: how many documents.
    vectors_of: gives the passages of documents, each with its document's row.
    """
    by_row = {hit.row: hit for hit in reversed(hits)}
    rows = sorted(by_row, key=lambda row: -(by_row[row].cosine or 0))
    place_of = {row: place for place, row in enumerate(rows)}
    row_P, vectors_PD = vectors_of([*{*rows[:compared], best.row}])
    return Evidence(
        first=place_of[best.row],
        text=text_of(best.row),
        query=query.text,
        searched=searched,
        rows_N=rows,
        cosine_N=np.array([by_row[row].cosine or 0 for row in rows], np.float64),
        score_N=np.array([by_row[row].score for row in rows], np.float64),
        share_N=None if query.words is None else np.array([by_row[row].share for row in rows]),
        place_P=np.array([place_of[row] for row in row_P.tolist()], np.int64),
        vectors_PD=vectors_PD,
    )


def is_filter_alone(query: Query) -> bool:
    """Return whether a query asks for all documents that match the filter, which have no score."""
    return query.vector_D is None and query.words is None


def page_of(best: Sequence[T], options: ResultOptions) -> Sequence[T]:
    """Return the results that are asked for: from the offset on, up to the limit."""
    return best[options.offset :][: options.limit]


def _passages_of(snapshot: Snapshot, rows: Rows) -> Rows:
    return snapshot.passages_of(rows.tolist()) if snapshot.has_own_numbers else rows


def check_chars(chars: int, options: ResultOptions) -> None:
    """Raises: InvalidInput: the documents of a request have more characters than may be answered."""
    if options.max_chars is not None and chars > options.max_chars:
        raise InvalidInput(
            f"the documents found have more than {options.max_chars} characters together; {options.way_out}"
        )


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
    return best_of(snapshot, rows_N, np.clip(cosines_N, -1, 1), top_k)  # rounding may leave a cosine just above 1


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


def fuse(
    dense: Candidates | None,
    words: Candidates,
    by_words: KeywordHits,
    cosines_of: Callable[[Collection[int]], tuple[Rows, Vectors]],
) -> list[Hit]:
    """Return what vectors and keywords found, unordered.

    dense: None: the query has no vector.  cosines_of: gives the rows that exist, with their cosines.
    """
    keywords_rank = {row: rank for rank, (_, row) in enumerate(words.best, 1)}
    if dense is None:
        return [Hit(score, row, None, keywords_rank.get(row)) for score, row in (*words.best, *words.preferred)]
    cosine_of = {row: cosine for cosine, row in (*dense.preferred, *dense.best)}
    rows, cosines_N = cosines_of({*words.rows} - cosine_of.keys())
    cosine_of |= dict(zip(rows.tolist(), np.clip(cosines_N, -1, 1).tolist(), strict=True))
    looked_at = np.isin(by_words.rows, list(cosine_of))
    evidence = dict(zip(by_words.rows[looked_at].tolist(), by_words.evidence[looked_at].tolist(), strict=True))
    share = dict(zip(by_words.rows[looked_at].tolist(), by_words.shares[looked_at].tolist(), strict=True))
    dense_rank = {row: rank for rank, (_, row) in enumerate(dense.best, 1)}
    return [
        Hit(
            float(hybrid_score(cosine, evidence.get(row, 0.0))),
            row,
            dense_rank.get(row),
            keywords_rank.get(row),
            cosine=cosine,
            share=share.get(row, 0.0),
        )
        for row, cosine in cosine_of.items()
    ]


def best_of(reader: FieldReader, rows: Rows | Sequence[int], scores_N: npt.NDArray[np.floating], top_k: int) -> Ranked:
    """Return the first `top_k` by score, ties by id. Reads no text."""
    rows_N = np.asarray(rows, np.int64)
    if len(rows_N) > top_k:
        kept = scores_N >= np.partition(scores_N, -top_k)[-top_k]
        rows_N, scores_N = rows_N[kept], scores_N[kept]
    order = sorted(zip(scores_N.tolist(), rows_N.tolist(), strict=True), reverse=True)
    if len({score for score, _ in order}) < len(order):
        ids = reader.ids_of(rows_N.tolist())
        order.sort(key=lambda hit: (-hit[0], ids[hit[1]]))
    return order[:top_k]


def hybrid_score(cosine: S, evidence: S, half: float = HALF_EVIDENCE) -> S:
    """Return a score in [-1, 1], never below the cosine: more evidence always moves it. Takes numbers or arrays."""
    share = evidence / (evidence + half)
    return cosine + share * (1 - cosine)


def best_passage(
    text: str, spans: Sequence[Span], vectors_PD: Vectors, vector_D: Vectors | None, terms: Mapping[str, bool]
) -> Passage:
    """Return the passage nearest to the query's vector, with most of its terms, or both; of equal ones the first."""
    score_P = np.zeros(len(spans))
    if vector_D is not None:
        score_P = np.einsum("pd,d->p", vectors_PD, vector_D).astype(np.float64)
    if terms:
        share_P = WORDS_IN_PASSAGE * _word_shares([text[start:stop] for start, stop in spans], terms)
        score_P += share_P * (1 - score_P)
    start, stop = spans[int(score_P.argmax())]
    return Passage(text[start:stop], start, stop)


def _word_shares(passages: Sequence[str], wanted: Mapping[str, bool]) -> npt.NDArray[np.float64]:
    """(P,) In [0, 1]: how many of the query's terms that occur a passage has; the rarer among them count more."""
    terms_P = [occurring(wanted, passage) for passage in passages]
    count = Counter(term for terms in terms_P for term in terms)
    total = sum(1 / times for times in count.values())
    return np.array([sum(1 / count[term] for term in terms) / total if terms else 0.0 for terms in terms_P])
