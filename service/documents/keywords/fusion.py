"""Fuses the results of vectors and of keywords. Knows scores and rows; searches nothing.

Scores are fused, not ranks: shared words move a cosine part of the way to 1. A document without a word of the query
keeps its cosine, so thresholds for cosines still hold. Reciprocal rank fusion (Cormack et al. 2009) ranks a document
that shares only "the" with the query as high as the best answer; docs/results/quality.md compares both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.blending import T, raised

WEIGHT = 0.8  # share of the way if all words match; 0.4 to 0.8 are best on the search set's dev queries
DEPTH = 100  # minimum number of results of each kind that are fused


@dataclass(frozen=True)
class Hit:
    """A row that was found. Ranks from 1, by vectors and by keywords; None: not among the fused results."""

    score: float
    row: int
    dense_rank: int | None = None
    keywords_rank: int | None = None


Ranked = Sequence[tuple[float, int]]  # scores and rows, best first


def depth(top_k: int) -> int:
    """Return how many results of each kind to fuse."""
    return max(top_k, DEPTH)


def hybrid_score(cosine: T, keyword: T) -> T:
    """Return a score in [-1, 1], never below the cosine. Takes numbers or arrays."""
    return raised(cosine, WEIGHT * keyword)


def of_one(ranked: Ranked, *, by_keywords: bool) -> list[Hit]:
    """Return the results of one kind as hits, in their order."""
    return [
        Hit(score, row, None if by_keywords else rank, rank if by_keywords else None)
        for rank, (score, row) in enumerate(ranked, 1)
    ]


def fused(dense: Ranked, keywords: Ranked, *, cosines: Mapping[int, float], scores: Mapping[int, float]) -> list[Hit]:
    """Return the results of both kinds as hits, unordered.

    Args: cosines: of the rows that `keywords` has and `dense` lacks.  scores: of every row with a word of the query.
    """
    cosine_of = dict(cosines) | {row: score for score, row in dense}
    dense_rank = {row: rank for rank, (_, row) in enumerate(dense, 1)}
    keywords_rank = {row: rank for rank, (_, row) in enumerate(keywords, 1)}
    return [
        Hit(hybrid_score(cosine, scores.get(row, 0.0)), row, dense_rank.get(row), keywords_rank.get(row))
        for row, cosine in cosine_of.items()
    ]
