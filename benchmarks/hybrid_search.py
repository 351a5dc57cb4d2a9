"""What keywords cost: load, store and memory, and the latency of dense, keyword and hybrid search.

python -m benchmarks.hybrid_search [--documents N] [--queries Q] [--rounds R]   prints tables, keeps nothing

Texts are 30 words, drawn as often as the search set has them, each in one of its 18 languages; queries are those of
the set. Vectors are random: the words they are fused with do not depend on them. One search at a time for the 10 best,
without the query's own embedding. CPU: the mean of the searching thread, which other processes disturb little.

N documents, D dims
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from export.evaluation.__main__ import BUNDLED
from service.documents.collection import Collection
from service.documents.document import Document, Vectors
from service.documents.interface import Query
from service.documents.keywords.index import KeywordIndex
from service.documents.live_index import IndexMaintenance
from service.documents.store.schema import DEFAULT
from service.documents.store.store import DocumentStore
from service.process.memory import resident_bytes

DIM, TOP_K, WORDS, LOAD = 384, 10, 30, 2000
MIB = 2**20


def main() -> None:
    """Load, then search in each mode, in turns."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hybrid_search", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1, help="of all queries (1)")
    parser.add_argument("--queries", type=int, default=744, help="of the search set, spread over it (all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "documents.sqlite3"
        store = DocumentStore(path, fingerprint="hybrid", dim=DIM)
        started_at = time.monotonic()
        for documents, vectors_ND in _documents(options.documents):
            with store.transaction() as transaction:
                transaction.upsert(documents, vectors_ND)
                transaction.commit()
        loaded_s, loaded_cpu_s = time.monotonic() - started_at, time.process_time()
        collection = Collection(store, IndexMaintenance(store, dim=DIM))
        print(f"{options.documents:,} documents of {WORDS} words, {collection.backend}")
        print(f"loaded in {loaded_s:.1f} s, {loaded_cpu_s:.1f} s of CPU with the imports")
        print("| mode | p50, ms | p99, ms | longest, ms | CPU, ms | MiB more |\n|---|---:|---:|---:|---:|---:|")
        for mode, queries in _queries(options.queries).items():
            before, started_at = resident_bytes(), time.thread_time()
            took_ms = [_took_ms(collection, query) for _ in range(options.rounds) for query in queries]
            p50, p99 = np.percentile(took_ms, [50, 99])
            cpu_ms = 1000 * (time.thread_time() - started_at) / len(took_ms)
            grown = (resident_bytes() - before) / MIB
            print(f"| {mode} | {p50:.2f} | {p99:.2f} | {max(took_ms):.1f} | {cpu_ms:.2f} | {grown:.1f} |", flush=True)
        print(_sizes(store))
        collection.close()


def _documents(count: int) -> Iterator[tuple[list[Document], Vectors]]:
    words = defaultdict[str, list[str]](list)
    for line in _lines("documents.jsonl"):
        words[line["language"]] += line["text"].split()
    generator = np.random.default_rng(0)
    languages = sorted(words)
    for start in range(0, count, LOAD):
        numbers = range(start, min(start + LOAD, count))
        rows_ND = generator.standard_normal((len(numbers), DIM)).astype(np.float32)
        rows_ND /= np.linalg.norm(rows_ND, axis=1, keepdims=True)
        texts = [" ".join(generator.choice(words[languages[number % len(languages)]], WORDS)) for number in numbers]
        yield [Document(str(number), text, {}) for number, text in zip(numbers, texts, strict=True)], rows_ND


def _queries(count: int) -> dict[str, list[Query]]:
    generator = np.random.default_rng(1)
    texts = [line["text"] for line in _lines("queries.jsonl")]
    texts = texts[:: max(1, len(texts) // count)]
    rows_QD = generator.standard_normal((len(texts), DIM)).astype(np.float32)
    rows_QD /= np.linalg.norm(rows_QD, axis=1, keepdims=True)
    return {
        "dense": [Query(row_D) for row_D in rows_QD],
        "keywords": [Query(words=text) for text in texts],
        "hybrid": [Query(row_D, text) for row_D, text in zip(rows_QD, texts, strict=True)],
    }


def _took_ms(collection: Collection, query: Query) -> float:
    started_at = time.monotonic()
    collection.search_all([query], top_k=TOP_K)
    return 1000 * (time.monotonic() - started_at)


def _sizes(store: DocumentStore) -> str:
    """The store with and without its keywords, each without free pages."""
    sizes = []
    for change in (KeywordIndex(store._writer, DEFAULT).optimize, KeywordIndex(store._writer, DEFAULT).clear):
        change()
        store._writer.execute("VACUUM")
        pages, page_bytes = (
            store._writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        sizes.append(pages * page_bytes / MIB)
    texts = store._writer.execute("SELECT sum(length(CAST(text AS BLOB))) FROM documents").fetchone()[0] / MIB
    return f"store: {sizes[0]:.0f} MiB, of it keywords {sizes[0] - sizes[1]:.0f} MiB; texts alone {texts:.0f} MiB"


def _lines(name: str) -> Iterator[dict[str, str]]:
    with (BUNDLED / "search" / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    main()
