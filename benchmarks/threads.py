"""Compares the engine's use of cores, one single-threaded pass of one text on each core, with intra-op threads.

python -m benchmarks.threads [FOLDER ...]     the bundled model, or other artifact folders; a minute each; no files

The alternatives run on all cores together, at several lengths: one text at a time, and batches of texts of equal length
(so without padding). Token ids are random. All alternatives take turns; figures are medians of five rounds.

Shapes: B texts, L tokens.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from service.model.artifact import MODEL_FILE, load_manifest
from service.model.session import INPUT_NAMES, keep_exact
from service.process.cpus import usable_cpus
from service.settings import BUNDLED_MODEL

LENGTHS = (8, 18, 64, 128, 256, 512)
BATCHES = (8, 32)
ROUNDS, SECONDS = 5, 0.5
Pass = Callable[[], object]


def session(folder: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session whose passes run on `threads` threads."""
    options = onnxruntime.SessionOptions()
    keep_exact(options)
    options.intra_op_num_threads = threads
    options.enable_mem_pattern = False  # as in the service
    return onnxruntime.InferenceSession(str(folder / MODEL_FILE), options, providers=["CPUExecutionProvider"])


def passes_per_second(run: Pass, callers: int) -> float:
    """Passes a second of `callers` threads that call as fast as they can."""
    ends_at = time.perf_counter() + SECONDS
    counts = itertools.count()

    def work() -> None:
        while time.perf_counter() < ends_at:
            run()
            next(counts)

    started = time.perf_counter()
    workers = [threading.Thread(target=work) for _ in range(callers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return next(counts) / (time.perf_counter() - started)


def texts(size: int, length: int) -> dict[str, npt.NDArray[np.int64]]:
    """Graph inputs: (B, L) random token ids without padding."""
    ids_BL = np.random.default_rng(0).integers(1000, 20_000, (size, length))
    return dict(zip(INPUT_NAMES, (np.ones_like(ids_BL), ids_BL), strict=True))


def row(alone: onnxruntime.InferenceSession, together: onnxruntime.InferenceSession, length: int, cores: int) -> str:
    """A table row for one length. alone: a session on one thread.  together: a session on all cores."""
    one = texts(1, length)
    batches = [texts(size, length) for size in BATCHES]

    def batched(batch: dict[str, npt.NDArray[np.int64]]) -> Pass:
        return lambda: together.run(None, batch)

    arrangements: list[tuple[Pass, int, int]] = [  # a pass, its calling threads, its texts
        (lambda: alone.run(None, one), cores, 1),
        (lambda: alone.run(None, one), 1, 1),
        (batched(one), 1, 1),
        *((batched(batch), 1, size) for batch, size in zip(batches, BATCHES, strict=True)),
    ]
    rounds = [[size * passes_per_second(run, callers) for run, callers, size in arrangements] for _ in range(ROUNDS)]
    engine, single, *shared = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    cells = [f"{engine:.0f}", f"{1000 / single:.2f}", f"{1000 / shared[0]:.2f}"]
    return f"| {length} | {' | '.join(cells + [f'{rate / engine:.2f}' for rate in shared])} |"


def main() -> None:
    """Print a table for each model: texts a second relative to the engine's, and the latency of a single text."""
    cores = usable_cpus()
    head = [f"{cores} at once, texts/s", "a text on 1 core, ms", f"on {cores}, ms"]
    head += [f"times that: {kind} on {cores}" for kind in ("one text", *(f"batches of {size}" for size in BATCHES))]
    for folder in [Path(name) for name in sys.argv[1:]] or [BUNDLED_MODEL]:
        manifest, alone, together = load_manifest(folder), session(folder, 1), session(folder, cores)
        print(f"\n{manifest.name}, {manifest.precision}, {cores} cores\n")
        print(f"| tokens | {' | '.join(head)} |\n|---{'|---:' * len(head)}|")
        for length in LENGTHS:
            if length <= manifest.max_length:
                print(row(alone, together, length, cores), flush=True)


if __name__ == "__main__":
    main()
