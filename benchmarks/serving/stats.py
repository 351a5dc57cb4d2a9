"""Medians, percentiles and ratios of what was measured. Knows numbers; knows nothing about servers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence


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


def ratio(value: float | None, other: float | None) -> float | None:
    """value / other, or None where one of them is not there."""
    return None if value is None or not other else value / other
