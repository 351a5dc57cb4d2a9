"""Medians, percentiles and ratios of measured values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_FEW = 99  # at most this many values have no p99


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that a `share` of all values do not exceed; nan if empty."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Iterable[float | None]) -> float | None:
    """The median of all values that are neither None nor nan, or None: failed rounds have no value."""
    there = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(there) if there else None


def by_round(combine: Callable[..., float | None], *series: Mapping[int, float | None]) -> list[float]:
    """Apply `combine` to the values of each round that is in every series; drops rounds without a value."""
    rounds = sorted(set.intersection(*map(set, series)))
    combined = (combine(*(one[round_] for one in series)) for round_ in rounds)
    return [value for value in combined if value is not None and not math.isnan(value)]


def ratio(value: float | None, other: float | None) -> float | None:
    """value / other, or None if either is missing or other is 0."""
    return None if value is None or not other else value / other
