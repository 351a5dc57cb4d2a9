"""The loads of a run and its results, as values and as a file of JSON lines; medians and ratios over rounds."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

MIB = 2**20
BUSY_SHARE = 0.05  # of the servers' cores, used by other work: more disturbs a round
MOST_FEW = 99  # at most this many values have no p99


@dataclass(frozen=True)
class Load:
    """A closed loop: `clients` connections each send a request of `batch` texts once the last one is answered."""

    clients: int
    batch: int

    @property
    def name(self) -> str:
        texts = "1 text" if self.batch == 1 else f"{self.batch} texts"
        return f"{texts}, {self.clients} client{'s' if self.clients > 1 else ''}"


ONE = Load(clients=1, batch=1)
FEW = Load(clients=8, batch=1)
MANY = Load(clients=64, batch=1)
BATCH_8 = Load(clients=1, batch=8)
BATCH_32 = Load(clients=1, batch=32)
BATCH_256 = Load(clients=1, batch=256)
LOADS = (ONE, FEW, MANY, BATCH_8, BATCH_32, BATCH_256)


@dataclass(frozen=True)
class LoadResult:
    """One load on one peer in one round.

    generator_share: of one core, during the load.  other_share: of the peer's cores, used by neither the peer nor the
    generator; a high share makes the figures unreliable.
    """

    peer: str
    cores: int
    round: int
    clients: int
    batch: int
    texts: int
    failed: int
    texts_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms_per_text: float | None
    generator_share: float
    other_share: float

    @property
    def load(self) -> Load:
        return Load(self.clients, self.batch)

    @property
    def is_whole(self) -> bool:
        """Whether every request succeeded; other results do not count for criteria."""
        return self.texts > 0 and not self.failed


@dataclass(frozen=True)
class ProcessResult:
    """Start time and memory of a peer's process in one round. peak: over all loads of the round."""

    peer: str
    cores: int
    round: int
    cold_start_s: float
    ready_mib: float
    loaded_mib: float
    peak_mib: float


@dataclass(frozen=True)
class FloorResult:
    """The figures of a model's bare session loop, on texts of one kind ("short" or "mixed")."""

    model: str
    cores: int
    round: int
    kind: str
    texts_per_s: float
    texts_per_s_tokenised: float
    p50_ms: float
    tokens_per_text: float


@dataclass(frozen=True)
class Agreement:
    """A peer's vectors. Cosines: to the reference; None for other models. largest_difference: alone versus batched."""

    peer: str
    cores: int
    mean_cosine: float | None
    min_cosine: float | None
    largest_difference: float

    @property
    def same_to_the_bit(self) -> bool:
        """Whether vectors are bit-identical, alone and in a batch."""
        return self.largest_difference == 0


@dataclass(frozen=True)
class Failure:
    peer: str
    error: str


Result = LoadResult | ProcessResult | FloorResult | Agreement | Failure
KINDS: dict[str, type[Result]] = {
    kind.__name__: kind for kind in (LoadResult, ProcessResult, FloorResult, Agreement, Failure)
}


@dataclass(frozen=True)
class Run:
    """All results of a run. setting: facts about the run, by name, as shown on the page."""

    setting: dict[str, str]
    results: tuple[Result, ...]

    def load(self, peer: str, cores: int, load: Load, value: Callable[[LoadResult], float | None]) -> float | None:
        wanted = (peer, cores, load.clients, load.batch)
        return median(value(one) for one in self.loads if (one.peer, one.cores, one.clients, one.batch) == wanted)

    def load_rounds(
        self, peer: str, cores: int, load: Load, value: Callable[[LoadResult], float | None]
    ) -> dict[int, float | None]:
        """One figure of a load by round, for rounds in which every request succeeded."""
        found = (one for one in self.loads if (one.peer, one.cores, one.load) == (peer, cores, load))
        return {one.round: value(one) for one in found if one.is_whole}

    def process(self, peer: str, cores: int, value: Callable[[ProcessResult], float]) -> float | None:
        return median(self.process_rounds(peer, cores, value))

    def process_rounds(self, peer: str, cores: int, value: Callable[[ProcessResult], float]) -> list[float]:
        found = (one for one in self.results if isinstance(one, ProcessResult))
        return [value(one) for one in found if (one.peer, one.cores) == (peer, cores)]

    def floor(self, model: str, cores: int, kind: str, value: Callable[[FloorResult], float]) -> float | None:
        return median(self.floor_rounds(model, cores, kind, value).values())

    def floor_rounds(
        self, model: str, cores: int, kind: str, value: Callable[[FloorResult], float]
    ) -> dict[int, float | None]:
        found = (one for one in self.results if isinstance(one, FloorResult))
        return {one.round: value(one) for one in found if (one.model, one.cores, one.kind) == (model, cores, kind)}

    def agreement(self, peer: str, cores: int) -> Agreement | None:
        found = (one for one in self.results if isinstance(one, Agreement))
        return next((one for one in found if (one.peer, one.cores) == (peer, cores)), None)

    @property
    def cores(self) -> list[int]:
        return sorted({one.cores for one in self.loads}, reverse=True)

    @property
    def loads(self) -> list[LoadResult]:
        return [one for one in self.results if isinstance(one, LoadResult)]

    @property
    def is_whole(self) -> bool:
        """Whether every peer was measured and every request succeeded."""
        return bool(self.loads) and not self.failures and all(one.is_whole for one in self.loads)

    @property
    def failures(self) -> dict[str, str]:
        """The first error of each peer that failed."""
        failed = [one for one in self.results if isinstance(one, Failure)]
        return {one.peer: one.error for one in reversed(failed)}


def save_results(path: Path, setting: dict[str, str], results: Iterable[Result]) -> None:
    """Write the results so far, so that an interrupted run loses nothing."""
    lines = [{"result": "setting", **setting}]
    lines += [{"result": type(one).__name__, **dataclasses.asdict(one)} for one in results]
    path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))


def read_results(path: Path) -> Run:
    setting, *lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    setting.pop("result")
    return Run(setting, tuple(KINDS[line.pop("result")](**line) for line in lines))


def quiet_rounds(run: Run) -> Run:
    """Drop rounds in which other work took more than BUSY_SHARE during a load, and name them in the setting.

    A core count without quiet rounds keeps all its rounds.
    """
    others: dict[tuple[int, int], float] = {}
    for one in run.loads:
        others[one.cores, one.round] = max(others.get((one.cores, one.round), 0.0), one.other_share)
    with_quiet = {cores for (cores, _), share in others.items() if share <= BUSY_SHARE}
    busy = {place: share for place, share in others.items() if share > BUSY_SHARE and place[0] in with_quiet}
    if not busy:
        return run
    left_out = "; ".join(
        f"round {round_ + 1} on {cores} cores, of which other work took up to {share:.0%}"
        for (cores, round_), share in sorted(busy.items())
    )
    kept = (
        one
        for one in run.results
        if not (isinstance(one, LoadResult | ProcessResult | FloorResult) and (one.cores, one.round) in busy)
    )
    return Run({**run.setting, "Left out": left_out}, tuple(kept))


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
