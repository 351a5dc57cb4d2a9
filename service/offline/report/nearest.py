"""The exact nearest documents of many queries, from one pass over the store.

Q queries, K nearest, N documents of a batch, P their passages
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from service.documents.document import Rows, Vectors
from service.documents.store.store import Snapshot

BATCH = 64  # documents, which may have hundreds of passages each


@dataclass(frozen=True)
class Nearest:
    """The nearest documents of each query, best first. Where there are fewer: row -1, score -inf."""

    scores_QK: Vectors
    rows_QK: Rows

    def without(self, own_Q: Rows) -> "Nearest":
        """Return the hits without one row of each query, or without the last hit if that row is not among them."""
        is_own_QK = self.rows_QK == own_Q[:, None]
        is_own_QK[~is_own_QK.any(axis=1), -1] = True
        queries, kept = len(own_Q), self.rows_QK.shape[1] - 1
        return Nearest(
            self.scores_QK[~is_own_QK].reshape(queries, kept), self.rows_QK[~is_own_QK].reshape(queries, kept)
        )


def scores_of(snapshot: Snapshot, rows: Sequence[int], query_QD: Vectors) -> tuple[Rows, Vectors]:
    """Return the rows that exist, ascending, and each query's score with a row's best passage, (Q, N)."""
    parts = [_scores_of(snapshot, rows[start : start + BATCH], query_QD) for start in range(0, len(rows), BATCH)]
    return np.concatenate([rows_N for rows_N, _ in parts]), np.concatenate([scores for _, scores in parts], axis=1)


def _scores_of(snapshot: Snapshot, rows: Sequence[int], query_QD: Vectors) -> tuple[Rows, Vectors]:
    row_P, vectors_PD = snapshot.vectors_of_documents(rows)
    rows_N, first_N = np.unique(row_P, return_index=True)
    return rows_N, np.maximum.reduceat(query_QD @ vectors_PD.T, first_N, axis=1)


def exact_nearest(snapshot: Snapshot, query_QD: Vectors, k: int, *, advance: Callable[[int], object]) -> Nearest:
    """Compare every query with every passage. Memory: Q scores for each passage of 64 documents.

    advance: called with the number of further documents compared.
    """
    scores_QK = np.full((len(query_QD), k), -np.inf, np.float32)
    rows_QK = np.full((len(query_QD), k), -1, np.int64)
    rows = snapshot.rows()
    for start in range(0, len(rows), BATCH):
        rows_N, scores_QN = scores_of(snapshot, rows[start : start + BATCH].tolist(), query_QD)
        scores_QN = np.concatenate([scores_QK, scores_QN], axis=1)
        rows_QN = np.concatenate([rows_QK, np.broadcast_to(rows_N, (len(query_QD), len(rows_N)))], axis=1)
        best_QK = np.argpartition(-scores_QN, k - 1, axis=1)[:, :k]
        scores_QK, rows_QK = np.take_along_axis(scores_QN, best_QK, 1), np.take_along_axis(rows_QN, best_QK, 1)
        advance(len(rows_N))
    order_QK = np.argsort(-scores_QK, axis=1, kind="stable")
    return Nearest(np.take_along_axis(scores_QK, order_QK, 1), np.take_along_axis(rows_QK, order_QK, 1))
