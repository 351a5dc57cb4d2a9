"""Metrics of a ranked list, as trec_eval defines them. Pure: knows grades and ranks, no text and no vector.

`grades` are the relevance grades of the documents in the order they were ranked; above 0 is relevant. `judged` are the
grades of all documents that have one, in any order: what a perfect ranking could have found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def accuracy_at(k: int, grades: Sequence[float]) -> float:
    """1 where one of the first k is relevant, else 0 (trec_eval's success)."""
    return float(any(grade > 0 for grade in grades[:k]))


def reciprocal_rank_at(k: int, grades: Sequence[float]) -> float:
    """1 / rank of the first relevant document, 0 where none is among the first k. Its mean is MRR@k."""
    return next((1 / rank for rank, grade in enumerate(grades[:k], start=1) if grade > 0), 0.0)


def average_precision_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Mean over all relevant documents of the precision at their rank, 0 beyond k. Its mean is MAP@k."""
    found, total = 0, 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        if grade > 0:
            found += 1
            total += found / rank
    return total / max(1, sum(grade > 0 for grade in judged))


def ndcg_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Discounted gain of the first k over that of the best possible k (Järvelin & Kekäläinen 2002; gain: the grade)."""
    ideal = discounted_gain(sorted(judged, reverse=True)[:k])
    return discounted_gain(grades[:k]) / ideal if ideal else 0.0


def discounted_gain(grades: Sequence[float]) -> float:
    """Sum of grade / log2(rank + 1)."""
    return sum(max(0.0, grade) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
