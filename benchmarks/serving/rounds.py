"""Measures one peer in one round: start, all loads, memory, vectors, and the bare session loop of its model."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.serving import procfs
from benchmarks.serving.client import Tally, request_bytes, run_load
from benchmarks.serving.peers import INT8, ROOT, TORCH, Peer
from benchmarks.serving.process import PeerFailed, Server, running
from benchmarks.serving.results import (
    LOADS,
    MIB,
    Agreement,
    Failure,
    FloorResult,
    Load,
    LoadResult,
    ProcessResult,
    Result,
    ratio,
)

WARM_UP_SHARE = 0.2  # of a load's seconds, before measuring
SAME_MODEL = (TORCH, *INT8)  # their vectors are compared with the reference
FLOOR = Path(__file__).with_name("floor.py")


@dataclass(frozen=True)
class Plan:
    """The inputs of all peers. folder: environments, models, logs.  reference_ND: the vectors of `checked`."""

    folder: Path
    short: Sequence[str]
    mixed: Sequence[str]
    checked: Sequence[str]
    reference_ND: npt.NDArray[np.float32]
    seconds: float


def cores_for(count: int) -> tuple[list[int], list[int]]:
    """The cores of the server, the machine's first, and those of the generator, the last."""
    there = sorted(os.sched_getaffinity(0))
    if count > len(there):
        raise SystemExit(f"--cores needs {count} cores, but this process may use {len(there)}: give fewer")
    return there[:count], there[count:] or there


def measure_peer(peer: Peer, plan: Plan, *, cores: int, round_: int) -> Iterator[Result]:
    """Start a peer and yield all its results; a failure is the last."""
    server_cores, generator_cores = cores_for(cores)
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, generator_cores)
    try:
        with running(peer, folder=plan.folder, cores=server_cores) as server:
            yield from _measure(server, plan, cores, round_)
    except (PeerFailed, OSError) as exc:
        yield Failure(peer.name, _without_paths(str(exc), plan))
    finally:
        os.sched_setaffinity(0, all_cores)


def _measure(server: Server, plan: Plan, cores: int, round_: int) -> Iterator[Result]:
    ready_mib = procfs.resident_bytes(server.pid) / MIB
    for load in LOADS:
        yield measure_load(server, load, plan, cores, round_)
    yield ProcessResult(
        server.peer.name,
        cores,
        round_,
        cold_start_s=server.cold_start_s,
        ready_mib=ready_mib,
        loaded_mib=procfs.resident_bytes(server.pid) / MIB,
        peak_mib=procfs.peak_bytes(server.pid) / MIB,
    )
    if round_ == 0:
        yield compare(server, plan, cores)


def measure_load(server: Server, load: Load, plan: Plan, cores: int, round_: int) -> LoadResult:
    procfs.hold(server.pid, server.cores)
    requests = prebuilt(server.peer, load, plan.short if load.batch == 1 else plan.mixed)
    run_load(server.port, requests, clients=load.clients, seconds=plan.seconds * WARM_UP_SHARE)
    busy_started_s, cpu_started_s = procfs.busy_seconds(server.cores), procfs.cpu_seconds(server.pid)
    tally = run_load(server.port, requests, clients=load.clients, seconds=plan.seconds)
    cpu_s = procfs.cpu_seconds(server.pid) - cpu_started_s
    ours_s = cpu_s + (0 if os.sched_getaffinity(0).isdisjoint(server.cores) else tally.generator_cpu_s)
    other_s = procfs.busy_seconds(server.cores) - busy_started_s - ours_s
    usage = Usage(cpu_s, other_share=max(0.0, other_s / (tally.elapsed_s * len(server.cores))))
    return load_result(server.peer.name, load, tally, usage, cores=cores, round_=round_)


@dataclass(frozen=True)
class Usage:
    """CPU use during a load: seconds of the peer, and the share of its cores used by others."""

    cpu_s: float
    other_share: float


def load_result(peer: str, load: Load, tally: Tally, usage: Usage, *, cores: int, round_: int) -> LoadResult:
    texts = len(tally.latency_ms) * load.batch
    cpu_s_per_text = ratio(usage.cpu_s, texts)
    return LoadResult(
        peer,
        cores,
        round_,
        load.clients,
        load.batch,
        texts=texts,
        failed=tally.failed.total(),
        texts_per_s=ratio(texts, tally.elapsed_s) or 0.0,
        p50_ms=tally.p50_ms,
        p99_ms=tally.p99_ms,
        cpu_ms_per_text=None if cpu_s_per_text is None else cpu_s_per_text * 1000,
        generator_share=ratio(tally.generator_cpu_s, tally.elapsed_s) or 0.0,
        other_share=usage.other_share,
    )


def prebuilt(peer: Peer, load: Load, texts: Sequence[str]) -> list[bytes]:
    """Requests with consecutive batches of texts; a last, incomplete batch is dropped."""
    enough = list(itertools.islice(itertools.cycle(texts), max(len(texts), load.batch)))
    starts = range(0, len(enough) - load.batch + 1, load.batch)
    return [request_bytes(peer.route, peer.ask(enough[start : start + load.batch])) for start in starts]


def compare(server: Server, plan: Plan, cores: int) -> Agreement:
    """Compare vectors of the checked texts, each alone and all in one request."""
    alone_ND = np.concatenate([server.embed([text]) for text in plan.checked])
    batch_ND = server.embed(plan.checked)
    difference = float(np.abs(alone_ND - batch_ND).max())
    if server.peer.model not in SAME_MODEL:
        return Agreement(server.peer.name, cores, None, None, difference)
    cosine_N = (alone_ND * plan.reference_ND).sum(axis=1) / np.linalg.norm(alone_ND, axis=1)  # the reference has norm 1
    return Agreement(server.peer.name, cores, float(cosine_N.mean()), float(cosine_N.min()), difference)


def measure_floor(peer: Peer, plan: Plan, *, cores: int, round_: int) -> Iterator[Result]:
    """Run the bare session loop of a peer's model, in its environment and on its cores."""
    server_cores, _ = cores_for(cores)
    texts_file = plan.folder / "floor-texts.json"
    texts_file.write_bytes(orjson.dumps({"short": list(plan.short), "mixed": list(plan.mixed)}))
    python, model = plan.folder / peer.environment / "bin" / "python", plan.folder / "models" / peer.model
    command = ["taskset", "--cpu-list", ",".join(map(str, server_cores)), str(python), str(FLOOR)]
    arguments = [str(model), str(texts_file), str(cores), str(plan.seconds)]
    ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"ended with {ended.returncode}"])[-1]
        yield Failure(f"bare session loop of {peer.model}", _without_paths(last, plan))
        return
    for kind, figures in orjson.loads(ended.stdout).items():
        yield FloorResult(peer.model, cores, round_, kind, **figures)


def _without_paths(error: str, plan: Plan) -> str:
    """Remove local paths, since the page is public."""
    return error.replace(str(plan.folder), "").replace(str(ROOT), "")
