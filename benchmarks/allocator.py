"""Prints the cost and savings of each memory setting of the service, against a service without it.

python -m benchmarks.allocator [--rounds 3] [--seconds 4]     the bundled model; a few minutes; writes no files

Reports texts a second for 64 clients of one text and for 4 of 32; resident MiB after the first response, after all
loads (including long texts), and at the peak. Every round starts new services; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from benchmarks.endurance.process import running_service
from benchmarks.endurance.wire import BATCH_TEXTS, SENTENCES, batch_request, request_bytes
from benchmarks.serving import procfs
from benchmarks.serving.client import Tally, run_load

REQUESTS = 2000
LONG_CHARS = 20_000
MIB = 2**20
OPTIONS = """
import service.model.session as session
made = session._options
def options():
    changed = made()
    changed.{option} = {value}
    return changed
session._options = options
"""
KEPT = """
import service.model.session
service.model.session.Session.give_back_unused = lambda self: None
service.model.session.KEPT_PLACES = 10**9
"""
VARIANTS = {
    "default": "",
    "1 glibc arena": "import service.cli.serve; service.cli.serve.MALLOC_ARENAS = 1",
    "unlimited glibc arenas": "from service.process import memory; memory.limit_arenas = lambda count: None",
    "without ONNX Runtime's arena": OPTIONS.format(option="enable_cpu_mem_arena", value=False) + KEPT,
    "without releasing ONNX Runtime's arena": KEPT,
    "with ONNX Runtime's memory patterns": OPTIONS.format(option="enable_mem_pattern", value=True),
    "library code stays mapped after the start": "from service.process import memory; memory.unmap_code = lambda: None",
}
COLUMNS = ("texts/s, 64 x 1", "texts/s, 4 x 32", "after one answer, MiB", "after the loads, MiB", "peak, MiB")


def measure(patch: str, seconds: float) -> list[float]:
    """Start a service, load it and return its figures, in the order of `COLUMNS`."""
    program = ("-c", f"{patch}\nimport sys\nfrom service.cli.main import main\nsys.exit(main(['serve']))")
    single = [embed(f"{SENTENCES[number % len(SENTENCES)]} {number}") for number in range(REQUESTS)]
    batches = [batch_request(number) for number in range(REQUESTS // BATCH_TEXTS)]
    long = [embed((" ".join(SENTENCES) + f" {number} ") * 100) for number in range(8)]
    with running_service(program=program, log_level="WARNING") as service:
        answered_load(service.port, single[:1], clients=1, seconds=0.01)
        after_one = service.resident_bytes
        answered_load(service.port, single, clients=64, seconds=seconds / 4)
        alone = answered_load(service.port, single, clients=64, seconds=seconds)
        together = answered_load(service.port, batches, clients=4, seconds=seconds)
        answered_load(service.port, long, clients=8, seconds=seconds / 2)
        time.sleep(0.5)
        rates = len(alone.latency_ms) / alone.elapsed_s, BATCH_TEXTS * len(together.latency_ms) / together.elapsed_s
        return [*rates, after_one / MIB, service.resident_bytes / MIB, procfs.peak_bytes(service.process.pid) / MIB]


def answered_load(port: int, requests: Sequence[bytes], *, clients: int, seconds: float) -> Tally:
    """Run a load and check that every response was 200.

    Raises: RuntimeError: one was not, so the figures would count less work.
    """
    tally = run_load(port, requests, clients=clients, seconds=seconds)
    if tally.failed:
        raise RuntimeError(f"{tally.failed.total()} requests failed, by status (0: no response): {dict(tally.failed)}")
    return tally


def embed(text: str) -> bytes:
    """A request with one text."""
    return request_bytes("POST", "/embed", {"inputs": text[:LONG_CHARS]})


def main() -> None:
    """Measure every variant in each round, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allocator", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    options = parser.parse_args()
    lives: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for _ in range(options.rounds):
        for name, patch in VARIANTS.items():
            lives[name].append(measure(patch, options.seconds))
    print(f"| | {' | '.join(COLUMNS)} |\n|---{'|---:' * len(COLUMNS)}|")
    for name, rows in lives.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"| {name} | {' | '.join(f'{value:.0f}' for value in medians)} |")


if __name__ == "__main__":
    main()
