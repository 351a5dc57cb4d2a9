"""The criteria that the service must meet: a measured value, a limit, and PASS or FAIL."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.serving.peers import (
    INFINITY_OPTIMUM,
    INFINITY_SKIPPING,
    INFINITY_TORCH,
    OURS,
    OURS_BUNDLED,
    PLAIN,
    PLAIN_SKIPPING,
    SKIPPING,
    Peer,
)
from benchmarks.serving.results import BATCH_32, FEW, MANY, ONE, Load, LoadResult, Run, by_round, median, ratio

FLOOR_SHARE = 0.90
TIMES_INFINITY = 2.0
TIMES_PLAIN = 1.5
OVER_FLOOR_MS = 1.0
P99_TO_P50 = 3.0
READY_MIB = 130
PEAK_MIB = 200
COLD_START_S = 1.0


@dataclass(frozen=True)
class Criterion:
    """One criterion. rounds: its value in each round that measured all its parts."""

    what: str
    rounds: Sequence[float]
    limit: float
    at_most: bool

    @property
    def measured(self) -> float | None:
        """The median over rounds. Ratios are taken within a round, since the machine's speed varies between rounds."""
        return median(self.rounds)

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        return "PASS" if (self.measured <= self.limit if self.at_most else self.measured >= self.limit) else "FAIL"

    @property
    def line(self) -> str:
        measured = "-" if self.measured is None else f"{self.measured:.2f}"
        return f"{self.verdict}: {self.what}: {measured} ({'at most' if self.at_most else 'at least'} {self.limit:g})"


def judge(run: Run, cores: int) -> list[Criterion]:
    parts = (_floor, _peers, _latency, _process, _vectors)
    return [criterion for part in parts for criterion in part(run, cores)]


def floor_shares(run: Run, peer: Peer, cores: int, load: Load, *, tokenised: bool) -> list[float]:
    """A peer's texts a second relative to its model's bare session loop, with or without tokenisation, by round."""
    kind = "short" if load.batch == 1 else "mixed"
    floor = run.floor_rounds(
        peer.model, cores, kind, lambda one: one.texts_per_s_tokenised if tokenised else one.texts_per_s
    )
    return by_round(ratio, run.load_rounds(peer.name, cores, load, _rate), floor)


def _floor(run: Run, cores: int) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        for load in (MANY, BATCH_32):
            shares = floor_shares(run, peer, cores, load, tokenised=False)
            yield Criterion(f"{peer.name}, {load.name}: share of the bare session loop", shares, FLOOR_SHARE, False)


def _peers(run: Run, cores: int) -> Iterator[Criterion]:
    for load in (MANY, BATCH_32):
        for graph, optimum, plain in (("", INFINITY_OPTIMUM, PLAIN), (SKIPPING, INFINITY_SKIPPING, PLAIN_SKIPPING)):
            ours, *engines, theirs = (
                run.load_rounds(peer.name, cores, load, _rate) for peer in (OURS, optimum, INFINITY_TORCH, plain)
            )
            times = by_round(lambda our, *rates: ratio(our, max(rates)), ours, *engines)
            yield Criterion(f"{load.name}: times infinity's better engine{graph}", times, TIMES_INFINITY, False)
            times = by_round(ratio, ours, theirs)
            yield Criterion(f"{load.name}: times the {plain.name}", times, TIMES_PLAIN, False)


def _latency(run: Run, cores: int) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        p50_ms = run.load_rounds(peer.name, cores, ONE, lambda one: one.p50_ms)
        floor_ms = run.floor_rounds(peer.model, cores, "short", lambda one: one.p50_ms)
        over_ms = by_round(operator.sub, p50_ms, floor_ms)
        yield Criterion(f"{peer.name}, {ONE.name}: ms of p50 over the bare session", over_ms, OVER_FLOOR_MS, True)
        spread = run.load_rounds(peer.name, cores, FEW, lambda one: ratio(one.p99_ms, one.p50_ms))
        yield Criterion(f"{peer.name}, {FEW.name}: p99 over p50", by_round(lambda one: one, spread), P99_TO_P50, True)


def _process(run: Run, cores: int) -> Iterator[Criterion]:
    name = OURS_BUNDLED.name
    ready = run.process_rounds(name, cores, lambda one: one.ready_mib)
    yield Criterion(f"{name}: MiB resident when ready", ready, READY_MIB, True)
    yield Criterion(
        f"{name}: MiB at its peak", run.process_rounds(name, cores, lambda one: one.peak_mib), PEAK_MIB, True
    )
    cold_start_s = run.process_rounds(name, cores, lambda one: one.cold_start_s)
    yield Criterion(f"{name}: s from exec to the first answer", cold_start_s, COLD_START_S, True)


def _vectors(run: Run, cores: int) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        found = run.agreement(peer.name, cores)
        difference = [found.largest_difference] if found else []
        yield Criterion(f"{peer.name}: largest difference of a number, alone and in a batch", difference, 0, True)


def _rate(one: LoadResult) -> float:
    return one.texts_per_s
