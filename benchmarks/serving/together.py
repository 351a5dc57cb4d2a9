"""Measures the speed criteria with all servers running, their loads in turn; writes speed-together.md.

python -m benchmarks.serving.together [--rounds N] [--seconds S] [--cores 2,1] [--folder DIR]   after `make bench`

`python -m benchmarks.serving` measures each server for minutes. If the machine's speed varies between minutes, ratios
of such figures are unreliable; here the servers take turns every few seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.serving.__main__ import add_options, read_plan, say, say_verdicts
from benchmarks.serving.criteria import judge_loads
from benchmarks.serving.peers import (
    INFINITY_OPTIMUM,
    INFINITY_SKIPPING,
    INFINITY_TORCH,
    OURS,
    OURS_BUNDLED,
    PLAIN,
    PLAIN_SKIPPING,
)
from benchmarks.serving.process import PeerFailed, end_in_order, running
from benchmarks.serving.report import VERDICTS_NOTE, failures, number, setting_lines, table, verdict_table
from benchmarks.serving.results import BATCH_32, FEW, MANY, ONE, Result, Run, save_results
from benchmarks.serving.rounds import Plan, cores_for, measure_floor, measure_load

PEERS = (OURS, OURS_BUNDLED, PLAIN, PLAIN_SKIPPING, INFINITY_OPTIMUM, INFINITY_SKIPPING, INFINITY_TORCH)
LOADS_OF = {"short": (ONE, MANY, FEW), "mixed": (BATCH_32,)}  # by kind of text
LOADS = (ONE, FEW, MANY, BATCH_32)
PAGE, RESULTS_FILE = Path("speed-together.md"), "together.jsonl"

HEAD = """# The limits on serving speed, all servers side by side

Written by `python -m benchmarks.serving.together`; do not edit. The servers, texts and limits are those of
[speed.md](speed.md), but all servers run at once. Each load runs on one server after the other, so that changes in the
machine's speed affect all alike. The bare session loops run before all loads of the same texts. Figures are medians
over the rounds. "Other work" includes the idle servers.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if a criterion fails or was not measured, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving.together", description=__doc__)
    add_options(parser, rounds=8, seconds=1.0)
    options = parser.parse_args(arguments)
    end_in_order()
    plan, setting = read_plan(options, PEERS, command="benchmarks.serving.together")
    results: list[Result] = []
    try:
        for cores in options.cores:
            for result in measure_together(plan, cores=cores, rounds=options.rounds):
                results.append(result)
                save_results(options.folder / RESULTS_FILE, setting, results)
    except PeerFailed as exc:
        raise SystemExit(f"a server failed ({exc}); `make bench` makes the servers' environments") from exc
    run = Run(setting, tuple(results))
    (options.out / PAGE).write_text(page(run), encoding="utf-8")
    return say_verdicts(run, judge_loads)


def measure_together(plan: Plan, *, cores: int, rounds: int) -> Iterator[Result]:
    """Start all servers, then run the bare loops and every load of every server in turn.

    Raises: PeerFailed: a server did not start.
    """
    server_cores, generator_cores = cores_for(cores)
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, generator_cores)
    try:
        with ExitStack() as alive:
            servers = [alive.enter_context(running(peer, folder=plan.folder, cores=server_cores)) for peer in PEERS]
            for round_ in range(rounds):
                say(f"round {round_ + 1} of {rounds}, {cores} cores")
                turn = round_ % len(servers)
                for kind, loads in LOADS_OF.items():
                    for peer in (OURS, OURS_BUNDLED):
                        yield from measure_floor(peer, plan, cores=cores, round_=round_, kinds=[kind])
                    for load in loads:
                        for server in servers[turn:] + servers[:turn]:
                            yield measure_load(server, load, plan, cores, round_)
    finally:
        os.sched_setaffinity(0, all_cores)


def page(run: Run) -> str:
    """The whole page: settings, verdicts on the loads, and texts a second with p50."""
    parts = [
        HEAD,
        setting_lines(run),
        "## What must hold",
        VERDICTS_NOTE,
        verdict_table(run, judge_loads),
        *failures(run),
    ]
    for cores in run.cores:
        rows = [
            [
                peer.name,
                *[
                    f"{number(run.load(peer.name, cores, load, lambda one: one.texts_per_s))} / "
                    f"{number(run.load(peer.name, cores, load, lambda one: one.p50_ms), 1)}"
                    for load in LOADS
                ],
            ]
            for peer in PEERS
        ]
        parts += [f"## On {cores} core{'s' if cores > 1 else ''}: texts a second / p50 of a request, ms"]
        parts += [table(["", *[load.name for load in LOADS]], rows)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
