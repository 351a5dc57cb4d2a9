"""The exact nearest documents of many queries, from one pass over the store.

Q queries, K nearest, N documents of a batch
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from service.documents.protocol import Rows, Vectors
from service.documents.store.store import DocumentStore


@dataclass(frozen=True)
class Nearest:
    """The nearest documents of each query, best first. Where there are fewer: row -1, score -inf."""

    scores_QK: Vectors
    rows_QK: Rows

    def without(self, own_Q: Rows) -> "Nearest":
        """The same without one row of each query, or without the last where it is not among them."""
        is_own_QK = self.rows_QK == own_Q[:, None]
        is_own_QK[~is_own_QK.any(axis=1), -1] = True
        queries, kept = len(own_Q), self.rows_QK.shape[1] - 1
        return Nearest(
            self.scores_QK[~is_own_QK].reshape(queries, kept), self.rows_QK[~is_own_QK].reshape(queries, kept)
        )


def exact_nearest(store: DocumentStore, query_QD: Vectors, k: int, *, advance: Callable[[int], object]) -> Nearest:
    """Compare every query with every vector. Memory: Q x 4,096 scores.

    advance: called with the number of further vectors compared.
    """
    scores_QK = np.full((len(query_QD), k), -np.inf, np.float32)
    rows_QK = np.full((len(query_QD), k), -1, np.int64)
    for rows, vectors_ND in store.vectors():
        scores_QN = np.concatenate([scores_QK, query_QD @ vectors_ND.T], axis=1)
        rows_QN = np.concatenate([rows_QK, np.broadcast_to(np.array(rows), (len(query_QD), len(rows)))], axis=1)
        best_QK = np.argpartition(-scores_QN, k - 1, axis=1)[:, :k]
        scores_QK, rows_QK = np.take_along_axis(scores_QN, best_QK, 1), np.take_along_axis(rows_QN, best_QK, 1)
        advance(len(rows))
    order_QK = np.argsort(-scores_QK, axis=1, kind="stable")
    return Nearest(np.take_along_axis(scores_QK, order_QK, 1), np.take_along_axis(rows_QK, order_QK, 1))
