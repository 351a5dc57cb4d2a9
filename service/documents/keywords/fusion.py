"""Puts what vectors and what keywords find into one order. Knows scores and rows; searches nothing.

The score is weighted, not made of ranks: words move a cosine some of the way to 1. A document without a word of the
query keeps its cosine, so thresholds for cosines still hold. Reciprocal rank fusion (Cormack et al. 2009) gives a
document that shares only "the" with the query as much as the best answer; docs/results/quality.md has both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

WEIGHT = 0.8  # of the way, for all of a query's words; on the dev queries of the search set 0.4 to 0.8 are the best
DEPTH = 100  # of either order, at least


@dataclass(frozen=True)
class Hit:
    """A row that was found. Ranks, from 1: its places in the two orders; None: not among those looked at."""

    score: float
    row: int
    dense_rank: int | None = None
    keywords_rank: int | None = None


T = TypeVar("T", float, npt.NDArray[np.float64])
Ranked = Sequence[tuple[float, int]]  # scores and rows, best first


def depth(top_k: int) -> int:
    """How far down either order is looked at."""
    return max(top_k, DEPTH)


def hybrid_score(cosine: T, keyword: T) -> T:
    """In [-1, 1]: never below the cosine. For numbers, or arrays of them."""
    return cosine + WEIGHT * keyword * (1 - cosine)


def of_one(ranked: Ranked, *, by_keywords: bool) -> list[Hit]:
    """One order as it is."""
    return [
        Hit(score, row, None if by_keywords else rank, rank if by_keywords else None)
        for rank, (score, row) in enumerate(ranked, 1)
    ]


def fused(dense: Ranked, keywords: Ranked, *, cosines: Mapping[int, float], scores: Mapping[int, float]) -> list[Hit]:
    """Both orders as one, in no order.

    Args: cosines: of the rows that `keywords` has and `dense` lacks.  scores: of every row with a word of the query.
    """
    cosine_of = dict(cosines) | {row: score for score, row in dense}
    dense_rank = {row: rank for rank, (_, row) in enumerate(dense, 1)}
    keywords_rank = {row: rank for rank, (_, row) in enumerate(keywords, 1)}
    return [
        Hit(hybrid_score(cosine, scores.get(row, 0.0)), row, dense_rank.get(row), keywords_rank.get(row))
        for row, cosine in cosine_of.items()
    ]
