"""Measures this tree beside another one, such as the commit before: start, memory, and every load in turn.

`make bench ARGS="--before DIR"`: DIR is a git worktree. Both trees run in this environment, each with its own bundled
model. About ten minutes on two cores with the default options; it prints ratios and writes no page.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from benchmarks.serving import procfs
from benchmarks.serving.client import request_bytes, run_load
from benchmarks.serving.peers import ROOT, Peer
from benchmarks.serving.process import Server, post, running
from benchmarks.serving.report import number
from benchmarks.serving.results import LOADS, MIB, median, ratio
from benchmarks.serving.rounds import WARM_UP_SHARE, cores_for
from benchmarks.serving.sentences import SENTENCES

LEAST_RATIO = 0.97
DOCUMENTS, BATCH = 2000, 250
YEARS = 40  # values of a field that searches filter and count
SETTLE_S = 1.0  # after the first answer, before memory is read
IMPORTED_FROM = "import service; print(service.__path__[0])"
SEED = 0


@dataclass(frozen=True)
class Traffic:
    """A load of one kind of request. bodies: of the requests.  items: texts or documents in each."""

    name: str
    method: str
    route: str
    bodies: Sequence[bytes]
    clients: int
    items: int


@dataclass
class Measured:
    """A figure of both trees, a value a round. higher_is_better: its ratio is now / before, else before / now."""

    name: str
    higher_is_better: bool
    digits: int
    before: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """The median over the rounds of each round's ratio; above 1: this tree is better."""
        pairs = zip(self.now, self.before, strict=True)
        return median(ratio(now, before) if self.higher_is_better else ratio(before, now) for now, before in pairs)


def compare_trees(before: Path, *, folder: Path, cores: int, rounds: int, seconds: float) -> list[Measured]:
    """Measure both trees on `cores` cores and return their figures.

    Raises: PeerFailed: a tree's service does not start.  SystemExit: DIR is no tree of this project.
    """
    folder.mkdir(parents=True, exist_ok=True)
    peers = [_peer("before", before.resolve()), _peer("now", ROOT)]
    server_cores, generator_cores = cores_for(cores)
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, generator_cores)
    try:
        figures = measure_starts(peers, folder=folder, cores=server_cores, rounds=rounds)
        return figures + measure_loads(peers, folder=folder, cores=server_cores, rounds=rounds, seconds=seconds)
    finally:
        os.sched_setaffinity(0, all_cores)


def measure_starts(peers: Sequence[Peer], *, folder: Path, cores: Sequence[int], rounds: int) -> list[Measured]:
    """Start the services in turn, one round more than counts, since the first reads files from disk."""
    start = Measured("start: spawn to first answer, s", higher_is_better=False, digits=2)
    memory = Measured("memory when ready, MiB", higher_is_better=False, digits=1)
    for round_ in range(rounds + 1):
        for peer in peers:
            with running(peer, folder=folder, cores=cores) as server:
                time.sleep(SETTLE_S)
                if round_:
                    _values(start, peer).append(server.cold_start_s)
                    _values(memory, peer).append(procfs.resident_bytes(server.pid) / MIB)
    return [start, memory]


def measure_loads(
    peers: Sequence[Peer], *, folder: Path, cores: Sequence[int], rounds: int, seconds: float
) -> list[Measured]:
    """Run every load on both services while both are up, the second first in every other round."""
    figures: dict[str, list[Measured]] = {}
    with ExitStack() as alive:
        servers = [alive.enter_context(running(peer, folder=folder, cores=cores)) for peer in peers]
        for server in servers:
            _write_documents(server)
        for round_ in range(rounds):
            for traffic in all_traffic():
                rate, p50_ms, p99_ms = figures.setdefault(traffic.name, _load_figures(traffic.name))
                for server in servers if round_ % 2 else servers[::-1]:
                    requests = [request_bytes(traffic.route, body, method=traffic.method) for body in traffic.bodies]
                    run_load(server.port, requests, clients=traffic.clients, seconds=seconds * WARM_UP_SHARE)
                    tally = run_load(server.port, requests, clients=traffic.clients, seconds=seconds)
                    if tally.failed:
                        raise SystemExit(f"{server.peer.name}, {traffic.name}: answers {dict(tally.failed)}")
                    answers = len(tally.latency_ms)
                    _values(rate, server.peer).append(answers * traffic.items / tally.elapsed_s)
                    _values(p50_ms, server.peer).append(tally.p50_ms)
                    _values(p99_ms, server.peer).append(tally.p99_ms)
        loaded = Measured("memory after the loads, MiB", higher_is_better=False, digits=1)
        for server in servers:
            _values(loaded, server.peer).append(procfs.resident_bytes(server.pid) / MIB)
    return [*(figure for three in figures.values() for figure in three), loaded]


def all_traffic() -> list[Traffic]:
    """The loads: texts to embed as in `make bench`, searches, and documents to write."""
    texts = [text for sentences in SENTENCES.values() for text in sentences]
    random.Random(SEED).shuffle(texts)
    embed = [
        Traffic(
            f"POST /embed, {load.name}",
            "POST",
            "/embed",
            _bodies(texts, load.batch, lambda batch: {"inputs": batch}),
            load.clients,
            load.batch,
        )
        for load in LOADS
    ]
    condition = {"filter": {"year": {"gte": 2000}}, "facets": ["year"]}
    search = {
        "dense": {"mode": "dense"},
        "keywords": {"mode": "keywords"},
        "hybrid, filter and facets": {"mode": "hybrid", **condition},
    }
    searches = [
        Traffic(
            f"POST /search, {name}, {clients} client{'s' if clients > 1 else ''}",
            "POST",
            "/search",
            _bodies(texts, 1, lambda batch, options=options: {"query": batch[0], **options}),  # type: ignore[misc]
            clients,
            1,
        )
        for name, options in search.items()
        for clients in (1, 8)
    ]
    writes = [orjson.dumps({"documents": _documents(start, 16)}) for start in range(0, DOCUMENTS, 16)]
    return [*embed, *searches, Traffic("PUT /documents, 16 documents, 1 client", "PUT", "/documents", writes, 1, 16)]


def report(figures: Sequence[Measured], cores: int) -> tuple[str, bool]:
    lines = [f"{cores} cores (ratio above 1: this tree is better)"]
    lines.append(f"{'':58} {'before':>9} {'now':>9} {'ratio':>6}")
    for figure in figures:
        before, now = median(figure.before), median(figure.now)
        if figure.ratio is None:
            continue
        mark = "" if figure.ratio >= LEAST_RATIO else f"  under {LEAST_RATIO}"
        values = f"{number(before, figure.digits):>9} {number(now, figure.digits):>9} {figure.ratio:6.3f}"
        lines.append(f"{figure.name:58} {values}{mark}")
    is_kept = all(figure.ratio is None or figure.ratio >= LEAST_RATIO for figure in figures)
    return "\n".join(lines), is_kept


def _peer(name: str, tree: Path) -> Peer:
    """Return a tree's service, run by this interpreter. -P: without it, modules of the working folder come first.

    Raises: SystemExit: the tree's code would not be imported.
    """
    variables = {"PYTHONPATH": str(tree), "CROSSLET_PORT": "{port}", "CROSSLET_DATA": "{scratch}"}
    asked = subprocess.run(
        [sys.executable, "-P", "-c", IMPORTED_FROM],
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    if Path(asked.stdout.strip()) != tree / "service":
        raise SystemExit(f"--before: {tree} is no tree of this project: it imports {asked.stdout.strip() or 'nothing'}")
    return Peer(name, "", (), "", "int8", (sys.executable, "-P", "-m", "service"), variables)


def _values(figure: Measured, peer: Peer) -> list[float]:
    return figure.before if peer.name == "before" else figure.now


def _load_figures(name: str) -> list[Measured]:
    return [
        Measured(f"{name}: items/s", higher_is_better=True, digits=0),
        Measured(f"{name}: p50, ms", higher_is_better=False, digits=2),
        Measured(f"{name}: p99, ms", higher_is_better=False, digits=2),
    ]


def _bodies(texts: Sequence[str], batch: int, body: Callable[[list[str]], object]) -> list[bytes]:
    many = [f"{text} {number_}" for number_ in range(1 + batch * 4 // len(texts)) for text in texts]
    return [orjson.dumps(body(many[start : start + batch])) for start in range(0, len(many) - batch + 1, batch)]


def _documents(start: int, count: int) -> list[dict[str, Any]]:
    texts = [text for sentences in SENTENCES.values() for text in sentences]
    return [
        {
            "id": f"d{place}",
            "text": f"{texts[place % len(texts)]} {texts[place * 7 % len(texts)]} {place}",
            "metadata": {"year": 1980 + place % YEARS},
        }
        for place in range(start, start + count)
    ]


def _write_documents(server: Server) -> None:
    for start in range(0, DOCUMENTS, BATCH):
        body = json.dumps({"documents": _documents(start, BATCH)}).encode()
        post(server.port, "/documents", body, method="PUT")
