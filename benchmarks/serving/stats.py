"""Medians, percentiles and ratios of what was measured. Knows numbers; knows nothing about servers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

MOST_FEW = 99  # of so few values there is no p99


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed (nearest rank); nan of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Iterable[float | None]) -> float | None:
    """The median of what is there, or None: a round that failed has no value, and neither has one without a figure."""
    there = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(there) if there else None


def by_round(combine: Callable[..., float | None], *series: Mapping[int, float | None]) -> list[float]:
    """What `combine` makes of the figures of one round, for each round in which all are there."""
    rounds = sorted(set.intersection(*map(set, series)))
    combined = (combine(*(one[round_] for one in series)) for round_ in rounds)
    return [value for value in combined if value is not None and not math.isnan(value)]


def ratio(value: float | None, other: float | None) -> float | None:
    """value / other, or None where one of them is not there."""
    return None if value is None or not other else value / other
