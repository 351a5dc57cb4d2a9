"""Tests claims: compares differences between cells with the noise between seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import variance

from scipy.stats import t as student_t

from training.ablation.results import Results
from training.ablation.spec import Finding, Metric

CONFIDENCE = 0.95


class Verdict(StrEnum):
    """The verdict on a claim."""

    CONFIRMED = "confirmed"  # every difference is as claimed, and larger than the margin
    WITHIN_NOISE = "within noise"  # none contradicts it by more than the margin, but not all exceed the margin
    NOT_CONFIRMED = "not confirmed"  # one contradicts it by more than the margin
    NOT_RUN = "not run"  # a cell has no score


@dataclass(frozen=True)
class Comparison:
    """One difference of a claim: how far `better` scores above `worse`, in points."""

    metric: Metric
    worse: str
    better: str
    difference: float | None  # None: one of the two has no score
    margin: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of this difference alone."""
        if self.difference is None:
            return Verdict.NOT_RUN
        if abs(self.difference) <= self.margin:
            return Verdict.WITHIN_NOISE
        return Verdict.CONFIRMED if self.difference > 0 else Verdict.NOT_CONFIRMED


@dataclass(frozen=True)
class Noise:
    """The noise of a metric between seeds: standard `deviation` of one training, in points, and degrees of `freedom`.

    If no cell was trained twice, `freedom` is 0 and the margin is `floor`.
    """

    floor: float
    deviation: float = 0.0
    freedom: int = 0

    def margin(self, first: int, second: int) -> float:
        """How far the means of `first` and `second` trainings may differ by chance, in points.

        It is half the width of Student's 95% interval of the difference, and at least `floor`.
        """
        if self.freedom == 0:
            return self.floor
        quantile = float(student_t.ppf((1 + CONFIDENCE) / 2, self.freedom))
        return max(self.floor, quantile * self.deviation * math.sqrt(1 / first + 1 / second))


def measure_noise(results: Results, metric: Metric, *, floor: float) -> Noise:
    """Pool the variance over all cells that were trained with several seeds."""
    groups = [values for name in results.cells if len(values := results.values(name, metric)) > 1]
    freedom = sum(len(values) - 1 for values in groups)
    if freedom == 0:
        return Noise(floor)
    pooled = sum(variance(values) * (len(values) - 1) for values in groups) / freedom
    return Noise(floor, math.sqrt(pooled), freedom)


def compare(finding: Finding, results: Results, *, floor: float) -> list[Comparison]:
    """Every difference of a claim, metric by metric."""
    comparisons = []
    for metric in finding.metrics:
        noise = measure_noise(results, metric, floor=floor)
        for names in finding.order:
            for worse, better in pairwise(names):
                low, high = results.values(worse, metric), results.values(better, metric)
                there = bool(low and high)
                difference = sum(high) / len(high) - sum(low) / len(low) if there else None
                margin = noise.margin(len(low), len(high)) if there else noise.floor
                comparisons.append(Comparison(metric, worse, better, difference, margin))
    return comparisons


def judge(comparisons: list[Comparison]) -> Verdict:
    """The verdict on a claim from all its differences."""
    verdicts = {comparison.verdict for comparison in comparisons}
    for decisive in (Verdict.NOT_RUN, Verdict.NOT_CONFIRMED, Verdict.WITHIN_NOISE):
        if decisive in verdicts:
            return decisive
    return Verdict.CONFIRMED
