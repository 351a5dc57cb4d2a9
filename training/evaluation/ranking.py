"""Metrics of a ranked list, as trec_eval defines them: pure functions of relevance grades.

`grades` are the grades of the ranked documents, best rank first; above 0 is relevant. `judged` are the grades of all
judged documents, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def accuracy_at(k: int, grades: Sequence[float]) -> float:
    """1 if one of the first k is relevant, else 0 (trec_eval's success)."""
    return float(any(grade > 0 for grade in grades[:k]))


def reciprocal_rank_at(k: int, grades: Sequence[float]) -> float:
    """1 / rank of the first relevant document; 0 if none is among the first k. Its mean is MRR@k."""
    return next((1 / rank for rank, grade in enumerate(grades[:k], start=1) if grade > 0), 0.0)


def average_precision_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Mean precision at the rank of each relevant document, 0 beyond k. Its mean over queries is MAP@k."""
    found, total = 0, 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        if grade > 0:
            found += 1
            total += found / rank
    return total / max(1, sum(grade > 0 for grade in judged))


def ndcg_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Discounted gain of the first k over that of an ideal ranking (Järvelin & Kekäläinen 2002; gain = grade)."""
    ideal = discounted_gain(sorted(judged, reverse=True)[:k])
    return discounted_gain(grades[:k]) / ideal if ideal else 0.0


def discounted_gain(grades: Sequence[float]) -> float:
    """Sum of grade / log2(rank + 1)."""
    return sum(max(0.0, grade) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
