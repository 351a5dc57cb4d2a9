"""Ranks documents for one query: by vector, by keywords, or by both. Knows store and index; knows no locks.

A document's score is its best passage's.

D dims, N documents, P passages
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from service.documents.keywords.fusion import Hit, Ranked, depth, fused, of_one
from service.documents.keywords.index import KeywordHits
from service.documents.protocol import Hits, Rows, VectorIndex, Vectors, candidates
from service.documents.results import scored
from service.documents.store.store import DocumentStore

MORE = 4  # times as many passages, until they are of enough documents


def nearest(store: DocumentStore, index: VectorIndex, vector_D: Vectors, *, top_k: int, among: Rows | None) -> Ranked:
    """Cosines and rows of the nearest, best first, ties by id; `index` may not change meanwhile.

    among: the passages to search; None: all.
    """
    wanted = top_k if index.is_exact else candidates(top_k)
    hits = index.search(vector_D, top_k=wanted, among=among)
    rows_P = hits.rows
    if store.passages.has_own_numbers:
        hits, rows_P = _of_enough_documents(store, index, vector_D, hits, wanted=wanted, among=among)
    if index.is_exact:
        rows_N, first_N = np.unique(rows_P, return_index=True)  # the first of a document's passages is its best
        scores_N = hits.scores[first_N]
    else:
        rows_N, scores_N = scored(store, dict.fromkeys(rows_P.tolist()), vector_D)
    return best(store, rows_N, np.clip(scores_N, -1, 1), top_k)  # rounding may leave a cosine just above 1


def _of_enough_documents(
    store: DocumentStore, index: VectorIndex, vector_D: Vectors, hits: Hits, *, wanted: int, among: Rows | None
) -> tuple[Hits, Rows]:
    """The nearest passages, so many that they are of `wanted` documents if there are as many; and their rows."""
    available = len(index) if among is None else len(among)
    asked = wanted
    while True:
        row_of = store.passages.rows_of(hits.rows.tolist())
        rows_P = np.fromiter((row_of.get(number, 0) for number in hits.rows.tolist()), np.int64, len(hits.rows))
        known = rows_P > 0  # an index that failed to apply a change may find others
        if len(set(row_of.values())) >= wanted or asked >= available:
            return Hits(hits.rows[known], hits.scores[known]), rows_P[known]
        asked = min(MORE * asked, available)
        hits = index.search(vector_D, top_k=asked, among=among)


def ranked(
    store: DocumentStore, dense: Ranked | None, found: KeywordHits | None, vector_D: Vectors | None, top_k: int
) -> list[Hit]:
    """The `top_k` best of what the parts of a search found, best first, ties by id.

    Args:   dense: the first `depth(top_k)`, or `top_k` where no keywords are asked for; None: no vector is.
            found: None: no keywords are asked for.  vector_D: the query's, which `dense` comes with.
    """
    if found is None:
        return of_one(dense or [], by_keywords=False)[:top_k]
    keywords = best(store, found.rows, found.scores, top_k if dense is None else depth(top_k))
    if dense is None or vector_D is None:
        return of_one(keywords, by_keywords=True)
    known = {row for _, row in dense}
    rows, cosines_N = scored(store, [row for _, row in keywords if row not in known], vector_D)
    cosines = dict(zip(rows.tolist(), np.clip(cosines_N, -1, 1).tolist(), strict=True))
    looked_at = np.isin(found.rows, [row for _, row in (*dense, *keywords)])
    scores = dict(zip(found.rows[looked_at].tolist(), found.scores[looked_at].tolist(), strict=True))
    hits = {hit.row: hit for hit in fused(dense, keywords, cosines=cosines, scores=scores)}
    order = best(store, list(hits), np.array([hit.score for hit in hits.values()]), top_k)
    return [hits[row] for _, row in order]


def best(store: DocumentStore, found: Rows | Sequence[int], scores_N: npt.NDArray[np.floating], top_k: int) -> Ranked:
    """The first `top_k` by score, ties by id: before any text is read."""
    rows_N = np.asarray(found, np.int64)
    if len(rows_N) > top_k:
        kept = scores_N >= np.partition(scores_N, -top_k)[-top_k]
        rows_N, scores_N = rows_N[kept], scores_N[kept]
    order = sorted(zip(scores_N.tolist(), rows_N.tolist(), strict=True), reverse=True)
    if len({score for score, _ in order}) < len(order):
        ids = store.ids_of(rows_N.tolist())
        order.sort(key=lambda hit: (-hit[0], ids[hit[1]]))
    return order[:top_k]
