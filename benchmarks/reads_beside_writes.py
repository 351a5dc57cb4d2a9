"""How long searches wait for writes: search latency without writes, and during writes of 1 and of 100 documents.

python -m benchmarks.reads_beside_writes [--documents N] [--seconds S]      a minute; prints a table, keeps no files

One thread searches for the 10 nearest; another writes documents as fast as the disk allows, half of them new. Vectors
are random, since their values do not affect locks. Run it on an idle machine, with TMPDIR on the disk of the store.

Shapes: N documents, D dims.
"""

import argparse
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from service.documents.collection import Collection
from service.documents.document import Document, Vectors
from service.documents.interface import Query
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore

DIM = 384
LOAD = 2000
TOP_K = 10
WRITES = (0, 1, 100)  # documents a write


def main() -> None:
    """Load once, then search during each kind of write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reads_beside_writes", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each kind of write (10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = DocumentStore(Path(folder) / "documents.sqlite3", fingerprint="writes", dim=DIM)
        with store.transaction() as transaction:
            for start in range(0, options.documents, LOAD):
                transaction.upsert(*_documents(range(start, min(start + LOAD, options.documents)), seed=start))
            transaction.commit()
        collection = Collection(store, IndexMaintenance(store, dim=DIM))
        print(f"{options.documents:,} documents, {collection.backend}, {options.seconds:g} s each")
        print("| documents a write | writes/s | searches/s | p50, ms | p99, ms | longest, ms |")
        print("|---:|---:|---:|---:|---:|---:|")
        for size in WRITES:
            with _writing(collection, size, existing=options.documents) as count_writes:
                took_ms = 1000 * np.array(_searches(collection, options.seconds))
            p50, p99 = np.percentile(took_ms, [50, 99])
            print(
                f"| {size or 'none'} | {count_writes() / options.seconds:.0f} | {len(took_ms) / options.seconds:.0f} "
                f"| {p50:.2f} | {p99:.2f} | {took_ms.max():.1f} |",
                flush=True,
            )
        collection.close()


@contextmanager
def _writing(collection: Collection, size: int, *, existing: int) -> Iterator[Callable[[], int]]:
    """Keep writing `size` documents, alternately new and existing ones. Yields a function that counts the writes.

    An exception that stopped the writing is raised at the end.
    """
    is_over = threading.Event()
    done: list[int] = []

    def write() -> None:
        for number in itertools.count():
            if is_over.is_set() or not size:
                return
            first = (number * size) % (existing - size) if number % 2 else existing + number * size
            collection.put(*_documents(range(first, first + size), seed=number))
            done.append(number)

    with ThreadPoolExecutor(max_workers=1) as pool:
        writing = pool.submit(write)
        try:
            yield lambda: len(done)
        finally:
            is_over.set()
        writing.result()


def _searches(collection: Collection, seconds: float) -> list[float]:
    """The durations of sequential searches."""
    query_QD = _unit(256, seed=-1)
    took_s: list[float] = []
    ends_at = time.perf_counter() + seconds
    for query_D in itertools.cycle(query_QD):
        started_at = time.perf_counter()
        if started_at > ends_at:
            return took_s
        collection.search_all([Query(query_D)], top_k=TOP_K)[0]
        took_s.append(time.perf_counter() - started_at)
    return took_s


def _documents(numbers: range, *, seed: int) -> tuple[list[Document], Vectors]:
    return [Document(str(number), f"the text of document {number}", {}) for number in numbers], _unit(
        len(numbers), seed
    )


def _unit(count: int, seed: int) -> Vectors:
    vectors_ND = np.random.default_rng(abs(seed)).standard_normal((count, DIM), dtype=np.float32)
    unit: Vectors = vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return unit


if __name__ == "__main__":
    main()
