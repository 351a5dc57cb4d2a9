"""Loads documents with random vectors into the embedded engine; prints times of searches and writes, memory, disk.

python -m benchmarks.embedded_scale 100000 1000000
"""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import psutil

from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document
from service.documents.interface import Query
from service.documents.store.store import DocumentStore

DIM = 384
CENTRES, SPREAD = 20_000, 0.6  # of the vectors
WORDS, WORDS_A_TEXT = 60_000, 12  # Zipf-distributed
EXACT_DOCUMENTS = 20_000  # as the service's default
BATCH = 1000
REPEATS = 100

T = TypeVar("T")


def measure(count: int) -> None:
    rng = np.random.default_rng(0)
    centre_CD = rng.standard_normal((CENTRES, DIM), np.float32)

    def vectors(size: int) -> npt.NDArray[np.float32]:
        vector_ND = centre_CD[rng.integers(CENTRES, size=size)] + SPREAD * rng.standard_normal((size, DIM), np.float32)
        unit_ND: npt.NDArray[np.float32] = vector_ND / np.linalg.norm(vector_ND, axis=1, keepdims=True)
        return unit_ND

    def documents(name: str, size: int) -> list[Document]:
        word_NW = rng.zipf(1.3, size=(size, WORDS_A_TEXT)) % WORDS
        return [Document(f"{name}{n}", " ".join(map("word{}".format, row)), {}) for n, row in enumerate(word_NW)]

    def words() -> str:
        return " ".join(map("word{}".format, rng.integers(100, WORDS, size=3)))

    process, before = psutil.Process(), psutil.Process().memory_info().rss
    with TemporaryDirectory() as name:
        folder = Path(name)
        options = IndexOptions(folder=folder, fingerprint="none", dim=DIM, exact_documents=EXACT_DOCUMENTS)
        store = DocumentStore(folder / "documents.sqlite3", fingerprint="none", dim=DIM)
        with closing(Collection(store, options)) as collection:
            seconds = timed(lambda: load(collection, count, documents, vectors))
            print(f"{count} documents loaded in {seconds:.0f} s, {collection.backend}")
            for mode, query in {
                "dense": lambda: Query(vectors(1)[0]),
                "keywords": lambda: Query(words=words()),
                "hybrid": lambda: Query(vectors(1)[0], words()),
            }.items():
                report(mode, [query() for _ in range(REPEATS)], lambda one: collection.search_all([one], top_k=10))
            for size in (1, 64):
                given = [(documents(f"new{size}-{n}-", size), vectors(size)) for n in range(REPEATS)]
                report(f"put of {size}", given, lambda one: collection.put(*one))
            used = (process.memory_info().rss - before) / 1e6
            print(f"memory {used:.0f} MB, vectors {collection.size_bytes / 1e6:.0f} MB")
        print(f"disk {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.0f} MB")


def load(
    collection: Collection,
    count: int,
    documents: Callable[[str, int], list[Document]],
    vectors: Callable[[int], npt.NDArray[np.float32]],
) -> None:
    for start in range(0, count, BATCH):
        collection.put(documents(f"{start}-", BATCH), vectors(BATCH))


def report(what: str, inputs: list[T], call: Callable[[T], object]) -> None:
    times_ms = [1000 * timed(partial(call, one)) for one in inputs]
    print(f"{what}: p50 {np.median(times_ms):.1f} ms, p99 {np.percentile(times_ms, 99):.1f} ms")


def timed(call: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    call()
    return time.perf_counter() - started_at


if __name__ == "__main__":
    for number in sys.argv[1:]:
        measure(int(number))
