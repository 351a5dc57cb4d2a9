"""Exact nearest neighbours between large sets of unit vectors, one block of scores at a time.

N vectors, M vectors of the other set, D dims, K neighbours, Q and C rows of one block

Vectors are stored as float16 and multiplied as float32: a cosine changes by about 1e-4. Before a comparison with a
threshold they are renormalised, so that equal vectors have a cosine of 1.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from service.offline.margin import Neighbours

Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]
Advance = Callable[[int], object]  # called with the number of further rows done

QUERY_ROWS = 1024
CANDIDATE_ROWS = 16_384  # in float32: 25 MB at 384 dims
ROUNDING = 1e-6  # error of a cosine in float32
PAIR_ROWS = 16_384  # against QUERY_ROWS: 64 MB of scores


def nearest(query_ND: Halves, candidate_MD: Halves, k: int, *, threads: int, advance: Advance) -> Neighbours:
    """Return the k candidates with the largest inner product for each query, best first; all if there are fewer."""
    import faiss  # here: only these commands and documents need it

    faiss.omp_set_num_threads(threads)
    k = min(k, len(candidate_MD))
    cosines_NK = np.empty((len(query_ND), k), np.float32)
    rows_NK = np.empty((len(query_ND), k), np.int64)
    for start in range(0, len(query_ND), QUERY_ROWS):
        query_QD = query_ND[start : start + QUERY_ROWS].astype(np.float32)
        best_cosines, best_rows = [], []
        for first in range(0, len(candidate_MD), CANDIDATE_ROWS):
            candidate_CD = candidate_MD[first : first + CANDIDATE_ROWS].astype(np.float32)
            cosines, rows = faiss.knn(
                query_QD, candidate_CD, min(k, len(candidate_CD)), metric=faiss.METRIC_INNER_PRODUCT
            )
            best_cosines.append(cosines)
            best_rows.append(rows + first)
        stop = start + len(query_QD)
        cosines_NK[start:stop], rows_NK[start:stop] = _best(np.hstack(best_cosines), np.hstack(best_rows), k)
        advance(len(query_QD))
    return Neighbours(cosines_NK, rows_NK)


def nearest_others(vectors_ND: Halves, k: int, *, threads: int, advance: Advance) -> Neighbours:
    """Return the k nearest other rows of each row, as `nearest` does."""
    found = nearest(vectors_ND, vectors_ND, k + 1, threads=threads, advance=advance)
    is_other = found.rows_NK != np.arange(len(vectors_ND))[:, None]
    is_other[is_other.all(axis=1), -1] = False  # as many equal ones came before it
    kept = (len(vectors_ND), found.rows_NK.shape[1] - 1)
    return Neighbours(found.cosines_NK[is_other].reshape(kept), found.rows_NK[is_other].reshape(kept))


def leaders(vectors_ND: Halves, threshold: float, *, advance: Advance) -> npt.NDArray[np.int64]:
    """Return each row's leader, (N,): the earliest leader with at least the threshold's cosine, or the row itself."""
    leader_N = np.arange(len(vectors_ND))
    least = threshold - ROUNDING
    for start in range(0, len(vectors_ND), QUERY_ROWS):
        query_QD = _unit(vectors_ND[start : start + QUERY_ROWS])
        stop = start + len(query_QD)
        for first in range(0, start, PAIR_ROWS):  # earlier blocks: their leaders are final
            last = min(first + PAIR_ROWS, start)
            leading = first + np.flatnonzero(leader_N[first:last] == np.arange(first, last))
            if not len(leading):
                continue
            is_near = query_QD @ _unit(vectors_ND[leading]).T >= least
            found = is_near.any(axis=1) & (leader_N[start:stop] == np.arange(start, stop))
            leader_N[start:stop][found] = leading[is_near[found].argmax(axis=1)]
        _lead_within(leader_N[start:stop], query_QD @ query_QD.T >= least, start)
        advance(len(query_QD))
    return leader_N


def _unit(vectors_ND: Halves) -> Floats:
    wide_ND = vectors_ND.astype(np.float32)
    unit_ND: Floats = wide_ND / np.maximum(np.linalg.norm(wide_ND, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit_ND


def _lead_within(leader_Q: npt.NDArray[np.int64], is_near_QQ: npt.NDArray[np.bool_], start: int) -> None:
    """Find leaders, row by row, for the rows of a block that have none in earlier blocks."""
    leads_Q = np.zeros(len(leader_Q), np.bool_)
    for row in np.flatnonzero(leader_Q == start + np.arange(len(leader_Q))).tolist():
        near = is_near_QQ[row, :row] & leads_Q[:row]
        if near.any():
            leader_Q[row] = start + near.argmax()
        else:
            leads_Q[row] = True


def _best(cosines: Floats, rows: npt.NDArray[np.int64], k: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    order_QK = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(cosines, order_QK, axis=1), np.take_along_axis(rows, order_QK, axis=1)
