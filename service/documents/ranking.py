"""Ranks documents for one query: by vector, by keywords, or by both. Knows store and index; knows no locks.

D dims, N documents
"""

import numpy as np
import numpy.typing as npt

from service.documents.keywords.fusion import Hit, Ranked, depth, fused, of_one
from service.documents.keywords.index import KeywordHits
from service.documents.protocol import Rows, VectorIndex, Vectors, candidates
from service.documents.results import scored
from service.documents.store.store import DocumentStore


def nearest(store: DocumentStore, index: VectorIndex, vector_D: Vectors, *, top_k: int, among: Rows | None) -> Ranked:
    """Cosines and rows of the nearest, best first, ties by id; `index` may not change meanwhile."""
    if index.is_exact:
        hits = index.search(vector_D, top_k=top_k, among=among)
        rows, scores_N = hits.rows.tolist(), hits.scores
    else:
        hits = index.search(vector_D, top_k=candidates(top_k), among=among)
        rows, scores_N = scored(store, hits.rows.tolist(), vector_D)
    return best(store, rows, np.clip(scores_N, -1, 1), top_k)  # rounding may leave a cosine just above 1


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
    cosines = dict(zip(rows, np.clip(cosines_N, -1, 1).tolist(), strict=True))
    looked_at = np.isin(found.rows, [row for _, row in (*dense, *keywords)])
    scores = dict(zip(found.rows[looked_at].tolist(), found.scores[looked_at].tolist(), strict=True))
    hits = {hit.row: hit for hit in fused(dense, keywords, cosines=cosines, scores=scores)}
    order = best(store, list(hits), np.array([hit.score for hit in hits.values()]), top_k)
    return [hits[row] for _, row in order]


def best(store: DocumentStore, found: Rows | list[int], scores_N: npt.NDArray[np.floating], top_k: int) -> Ranked:
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
