"""Searches vectors with txtai, in txtai's own environment; `benchmarks.index_scale` starts it.

.bench/txtai/bin/python benchmarks/txtai_search.py VECTORS.npy QUERIES.npy ROUNDS: prints one JSON object with the
seconds to load, the seconds of each search and the rows it found. Uses txtai's default settings, with documents in
SQLite, on one thread.
"""

import json
import sys
import time

import faiss
import numpy as np
from txtai import Embeddings

TOP_K = 10
WARM_UP = 10


def main() -> None:
    vectors_ND, query_QD = (np.load(path) for path in sys.argv[1:3])
    faiss.omp_set_num_threads(1)
    by_text = {f"the text of document {row}": vector_D for row, vector_D in enumerate(vectors_ND)}
    queries = {f"query {row}": vector_D for row, vector_D in enumerate(query_QD)}

    def transform(texts: list[str]) -> np.ndarray:
        return np.stack([by_text.get(text, queries.get(text)) for text in texts])

    embeddings = Embeddings(method="external", transform=transform, content=True)
    started_at = time.perf_counter()
    embeddings.index((str(row), text, None) for row, text in enumerate(by_text))
    load_s = time.perf_counter() - started_at
    print(f"txtai: {len(by_text):,} loaded in {load_s:.0f} s", file=sys.stderr)
    for text in list(queries)[:WARM_UP]:
        embeddings.search(text, TOP_K)
    took_s, found = [], []
    for _ in range(int(sys.argv[3])):
        found = []
        for text in queries:
            started_at = time.perf_counter()
            hits = embeddings.search(text, TOP_K)
            took_s.append(time.perf_counter() - started_at)
            found.append([int(hit["id"]) for hit in hits])
    print(json.dumps({"load_s": load_s, "took_s": took_s, "found": found}))


if __name__ == "__main__":
    main()
