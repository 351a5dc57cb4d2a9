"""`python -m benchmarks.serving`: measures peers in interleaved rounds and writes a page of results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from benchmarks.serving.before import compare_trees, report
from benchmarks.serving.criteria import judge
from benchmarks.serving.peers import BUNDLED, PEERS, ROOT, Peer
from benchmarks.serving.process import PeerFailed, end_in_order, running
from benchmarks.serving.report import write_report
from benchmarks.serving.results import Failure, Result, Run, percentile, quiet_rounds, read_results, save_results
from benchmarks.serving.rounds import WARM_UP_SHARE, Plan, cores_for, measure_floor, measure_peer
from training.system.device import cpu_model

RESULTS_FILE = "results.jsonl"
ENVIRONMENTS = ROOT / "benchmarks" / "envs" / "make.sh"
VERSIONS = """import importlib.metadata as m, platform, sys
print(', '.join([f'Python {platform.python_version()}', *(f'{name} {m.version(name)}' for name in sys.argv[1:])]))"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if a criterion fails or was not measured, else 0."""
    options = read_options(arguments)
    end_in_order()
    if options.before is not None:
        return compare_with(options)
    results_path = options.folder / RESULTS_FILE
    if not options.report:
        measure(options, results_path)
    run = quiet_rounds(read_results(results_path))
    write_report(run, options.out)
    return say_verdicts(run)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="number of rounds; medians are reported (%(default)s)")
    add("--seconds", type=float, default=5.0, help="duration of each load (%(default)s)")
    add("--cores", type=_numbers, default=(2, 1), metavar="2,1", help="numbers of cores for the servers (2,1)")
    add("--folder", type=_absolute, default=ROOT / ".bench", help="environments, models, logs, results (%(default)s)")
    add("--out", type=Path, default=ROOT / ".bench", help="folder of the page (%(default)s)")
    add("--peers", type=_peers, default=tuple(PEERS), metavar="NAME,...", help=f"any of {', '.join(PEERS)} (all)")
    add("--data", type=Path, help="folder of docs/guide/corpora.md; default: bundled sentences")
    add(
        "--before",
        type=_absolute,
        metavar="DIR",
        help="measure only this tree and DIR's, a git worktree, and print ratios",
    )
    add("--report", action="store_true", help="only rewrite the page, from the last run's results")
    return parser.parse_args(arguments)


def compare_with(options: argparse.Namespace) -> int:
    """Measure this tree beside `--before`. Returns 1 if a ratio is under the least, else 0."""
    is_kept = True
    for cores in options.cores:
        figures = compare_trees(
            options.before, folder=options.folder, cores=cores, rounds=options.rounds, seconds=options.seconds
        )
        table, are_kept = report(figures, cores)
        say(table)
        is_kept = is_kept and are_kept
    return int(not is_kept)


def measure(options: argparse.Namespace, results_path: Path) -> None:
    """Make missing environments and models, then run the rounds; saves results after every peer."""
    if sys.platform != "linux":
        raise SystemExit("the benchmark needs Linux, for /proc and taskset; --report runs anywhere")
    for cores in options.cores:
        cores_for(cores)  # fails early if the machine has too few cores
    peers = [PEERS[key] for key in options.peers]
    environments = sorted({peer.environment for peer in peers})
    python = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([ENVIRONMENTS, options.folder, *environments], check=True, env=python)
    if "crosslet" in environments and not (options.folder / "crosslet" / ".installed").exists():
        raise SystemExit(f"crosslet could not be installed into {options.folder / 'crosslet'}; measured nothing")
    prepare = [sys.executable, "-m", "benchmarks.serving.prepare", options.folder, *filter(None, [options.data])]
    subprocess.run(prepare, check=True, cwd=ROOT)
    plan, setting = read_plan(options, peers)
    results: list[Result] = []
    warm_the_page_cache(peers, plan)
    for round_ in range(options.rounds):
        turn = round_ % len(peers)
        for cores in options.cores:
            for peer in peers[turn:] + peers[:turn]:
                say(f"round {round_ + 1} of {options.rounds}, {cores} cores: {peer.name}")
                found: list[Result] = []
                if peer.environment == "crosslet":
                    found += measure_floor(peer, plan, cores=cores, round_=round_)
                found += measure_peer(peer, plan, cores=cores, round_=round_)
                for failure in (one for one in found if isinstance(one, Failure)):
                    say(f"{failure.peer}: {failure.error}")
                results += found
                save_results(results_path, setting, results)


def warm_the_page_cache(peers: Sequence[Peer], plan: Plan) -> None:
    """Start each peer once, unmeasured, so that no cold start reads from disk. Failures are reported later."""
    for peer in peers:
        say(f"warming the page cache: {peer.name}")
        with suppress(PeerFailed), running(peer, folder=plan.folder, cores=sorted(os.sched_getaffinity(0))):
            pass


def read_plan(options: argparse.Namespace, peers: Sequence[Peer]) -> tuple[Plan, dict[str, str]]:
    content = json.loads((options.folder / "texts.json").read_text(encoding="utf-8"))
    plan = Plan(
        options.folder,
        short=content["short"],
        mixed=content["mixed"],
        checked=content["checked"],
        reference_ND=np.load(options.folder / "reference.npy"),
        seconds=options.seconds,
    )
    lengths = {
        kind: f"{len(tokens)} {kind}, {tokens[0]} to {tokens[-1]} tokens (median {percentile(tokens, 0.5):.0f})"
        for kind, tokens in content["tokens"].items()
    }
    generator = "the load generator uses the remaining cores, or shares them if there are none"
    setting = {
        "Machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}",
        "Cores": f"servers are pinned by taskset; {generator}. Each server has its default number of threads for that "
        "many cores (`benchmarks/serving/servers/held`)",
        "Loads": f"{options.seconds:g} s each, after {options.seconds * WARM_UP_SHARE:g} s to warm up",
        "Texts": f"{lengths['short']}; {lengths['mixed']}, by all-MiniLM-L6-v2's tokenizer; {content['source']}",
        "Bundled model": _artifact(options.folder / "models" / BUNDLED),
        "Versions": "; ".join(dict.fromkeys(map(_versions(options), peers))),
        "Command": f"`python -m benchmarks.serving {shlex.join(_shown(options))}`",
    }
    return plan, setting


def say_verdicts(run: Run) -> int:
    """Print every criterion. Returns 1 if one fails or was not measured, else 0."""
    criteria = [(cores, one) for cores in run.cores for one in judge(run, cores)]
    for cores, one in criteria:
        say(f"{cores} cores: {one.line}")
    return int(any(one.verdict != "PASS" for _, one in criteria) or not run.is_whole)


def say(message: str) -> None:
    print(message, flush=True)


def _artifact(folder: Path) -> str:
    """The artifact's name and fingerprint, from its manifest."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return f"{manifest['name']} {manifest['fingerprint'][:12]}"


def _shown(options: argparse.Namespace) -> list[str]:
    """The options that affect the figures, without local paths."""
    shown = ["--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    shown += ["--cores", ",".join(map(str, options.cores))]
    shown += [] if options.peers == tuple(PEERS) else ["--peers", ",".join(options.peers)]
    return shown + (["--data", "DIR"] if options.data else [])


def _versions(options: argparse.Namespace) -> Callable[[Peer], str]:
    def of(peer: Peer) -> str:
        python = options.folder / peer.environment / "bin" / "python"
        asked = subprocess.run([python, "-c", VERSIONS, *peer.packages], capture_output=True, text=True, check=False)
        return f"{peer.environment}: {asked.stdout.strip() or 'no environment'}"

    return of


def _absolute(text: str) -> Path:
    return Path(text).resolve()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _peers(text: str) -> tuple[str, ...]:
    unknown = [name for name in text.split(",") if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no peer {unknown[0]!r}; peers: {', '.join(PEERS)}")
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(main())
