"""What must hold, each with both numbers and PASS or FAIL. Knows the limits; knows nothing about how they are met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.serving.loads import BATCH_32, FEW, MANY, ONE, Load
from benchmarks.serving.peers import INFINITY_OPTIMUM, INFINITY_TORCH, OURS, OURS_BUNDLED, PLAIN, Peer
from benchmarks.serving.results import LoadResult, Run
from benchmarks.serving.stats import ratio

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
    """One thing that must hold. measured: None where a part of it was not measured."""

    what: str
    measured: float | None
    limit: float
    at_most: bool

    @property
    def verdict(self) -> str:
        """PASS, FAIL, or not measured."""
        if self.measured is None:
            return "not measured"
        return "PASS" if (self.measured <= self.limit if self.at_most else self.measured >= self.limit) else "FAIL"

    @property
    def line(self) -> str:
        """As `make bench` prints it."""
        measured = "-" if self.measured is None else f"{self.measured:.2f}"
        return f"{self.verdict}: {self.what}: {measured} ({'at most' if self.at_most else 'at least'} {self.limit:g})"


def judge(run: Run, cores: int) -> list[Criterion]:
    """Every criterion at one core count."""
    return [*_floor(run, cores), *_peers(run, cores), *_latency(run, cores), *_process(run, cores), *_vectors(run)]


def floor_share(run: Run, peer: Peer, cores: int, load: Load, *, tokenised: bool) -> float | None:
    """A peer's texts a second over those of the bare session loop of its model, with tokenisation in it or without."""
    kind = "short" if load.batch == 1 else "mixed"
    floor = run.floor(peer.model, cores, kind, lambda one: one.texts_per_s_tokenised if tokenised else one.texts_per_s)
    return ratio(run.load(peer.name, cores, load, _rate), floor)


def _floor(run: Run, cores: int) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        for load in (MANY, BATCH_32):
            share = floor_share(run, peer, cores, load, tokenised=False)
            yield Criterion(f"{peer.name}, {load.name}: share of the bare session loop", share, FLOOR_SHARE, False)


def _peers(run: Run, cores: int) -> Iterator[Criterion]:
    for load in (MANY, BATCH_32):
        ours = run.load(OURS.name, cores, load, _rate)
        engines = [run.load(peer.name, cores, load, _rate) for peer in (INFINITY_OPTIMUM, INFINITY_TORCH)]
        best = None if None in engines else max(rate for rate in engines if rate is not None)
        yield Criterion(f"{load.name}: times infinity's better engine", ratio(ours, best), TIMES_INFINITY, False)
        plain = run.load(PLAIN.name, cores, load, _rate)
        yield Criterion(f"{load.name}: times the {PLAIN.name}", ratio(ours, plain), TIMES_PLAIN, False)


def _latency(run: Run, cores: int) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        p50_ms = run.load(peer.name, cores, ONE, lambda one: one.p50_ms)
        floor_ms = run.floor(peer.model, cores, "short", lambda one: one.p50_ms)
        over_ms = None if p50_ms is None or floor_ms is None else p50_ms - floor_ms
        yield Criterion(f"{peer.name}, {ONE.name}: ms of p50 over the bare session", over_ms, OVER_FLOOR_MS, True)
        few = _of(run, peer, cores, FEW)
        spread = ratio(few(lambda one: one.p99_ms), few(lambda one: one.p50_ms))
        yield Criterion(f"{peer.name}, {FEW.name}: p99 over p50", spread, P99_TO_P50, True)


def _process(run: Run, cores: int) -> Iterator[Criterion]:
    name = OURS_BUNDLED.name
    ready = run.process(name, cores, lambda one: one.ready_mib)
    yield Criterion(f"{name}: MiB resident when ready", ready, READY_MIB, True)
    yield Criterion(f"{name}: MiB at its peak", run.process(name, cores, lambda one: one.peak_mib), PEAK_MIB, True)
    cold_start_s = run.process(name, cores, lambda one: one.cold_start_s)
    yield Criterion(f"{name}: s from exec to the first answer", cold_start_s, COLD_START_S, True)


def _vectors(run: Run) -> Iterator[Criterion]:
    for peer in (OURS, OURS_BUNDLED):
        found = run.agreement(peer.name)
        difference = found.largest_difference if found else None
        yield Criterion(f"{peer.name}: largest difference of a number, alone and in a batch", difference, 0, True)


def _of(run: Run, peer: Peer, cores: int, load: Load) -> Callable[[Callable[[LoadResult], float]], float | None]:
    return lambda value: run.load(peer.name, cores, load, value)


def _rate(one: LoadResult) -> float:
    return one.texts_per_s
