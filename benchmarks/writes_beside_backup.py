"""How long writes take beside a backup: their latency alone, and while the store is copied again and again.

python -m benchmarks.writes_beside_backup [--documents N] [--seconds S]      a minute; prints a table, keeps no files

One thread puts documents one by one, as fast as the disk allows. Texts are random words and vectors random, since their
values do not affect the copy. Set TMPDIR to the disk of the store.

Shapes: N documents, D dims.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from service.documents.collection import Collection
from service.documents.document import Document, Vectors
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore
from service.offline.backup import write_backup
from service.process.memory import resident_bytes

DIM = 384
LOAD = 2000
WORDS = 30  # a document


def main() -> None:
    """Load once, then write alone and beside backups."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes_beside_backup", description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each line (8)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, copy = Path(folder) / "documents.sqlite3", Path(folder) / "copy"
        store = DocumentStore(path, fingerprint="writes", dim=DIM)
        collection = Collection(store, IndexMaintenance(store, dim=DIM, exact_rows=10 * options.documents))
        for start in range(0, options.documents, LOAD):
            collection.put(*_documents(range(start, min(start + LOAD, options.documents))))
        print("| beside | writes/s | p50, ms | p99, ms | longest, ms |\n|---|---:|---:|---:|---:|")
        _show("nothing", _during(lambda: time.sleep(options.seconds), collection), options.seconds)
        before_bytes, copies = resident_bytes(), list[tuple[float, int]]()

        def back_up() -> None:
            until = time.monotonic() + options.seconds
            while time.monotonic() < until:
                began = time.monotonic()
                size_bytes = write_backup(path, copy).size_bytes
                copies.append((time.monotonic() - began, size_bytes))

        began = time.monotonic()
        took_ms = _during(back_up, collection)
        _show("backups", took_ms, time.monotonic() - began)
        grown_bytes = resident_bytes() - before_bytes
        seconds, size_bytes = np.median([took_s for took_s, _ in copies]), copies[-1][1]
        print(
            f"\n{len(copies)} backups of {size_bytes / 2**20:.0f} MiB, median {seconds:.2f} s; "
            f"memory grew by {grown_bytes / 2**20:.1f} MiB, with the documents written"
        )
        collection.close()


def _during(work: Callable[[], object], collection: Collection) -> list[float]:
    """The durations of writes while something else runs, in milliseconds."""
    is_over, took_ms = threading.Event(), list[float]()

    def write() -> None:
        while not is_over.is_set():
            one = _documents(range(len(took_ms), len(took_ms) + 1))
            began = time.perf_counter()
            collection.put(*one)
            took_ms.append(1000 * (time.perf_counter() - began))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        work()
    finally:
        is_over.set()
        writer.join()
    return took_ms


def _show(beside: str, took_ms: list[float], seconds: float) -> None:
    p50, p99 = np.percentile(took_ms, [50, 99])
    print(f"| {beside} | {len(took_ms) / seconds:.0f} | {p50:.2f} | {p99:.2f} | {max(took_ms):.1f} |", flush=True)


def _documents(numbers: range) -> tuple[list[Document], Vectors]:
    """Documents with random texts, and unit vectors (N, D) float32."""
    generator = np.random.default_rng(numbers.start)
    words_NW = generator.integers(50_000, size=(len(numbers), WORDS))
    documents = [
        Document(f"d{number}", " ".join(f"w{word}" for word in words_W), {"n": number})
        for number, words_W in zip(numbers, words_NW, strict=True)
    ]
    vectors_ND = generator.standard_normal((len(numbers), DIM)).astype(np.float32)
    return documents, vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
