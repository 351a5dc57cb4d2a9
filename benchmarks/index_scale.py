"""How search scales with the number of documents: crosslet, plain FAISS, milvus-lite and txtai on the same vectors.

python -m benchmarks.index_scale --data DIR [--sizes 1000 10000 100000 1000000] [--model FOLDER] [--sentences N]

Vectors are those of N sentences of DIR/parallel, sampled from all in the model's languages; beyond N they are repeated
with noise of norm 0.3. Queries are other sentences, sampled alike. Writes p50 and p99 of one search (top 10, one
thread), recall@10 against exact search, memory and seconds to load to docs/results/search.md, with a plot.

crosslet and txtai are measured with the whole look-up: index, vectors, ids and texts from SQLite. txtai has its own
environment. Takes minutes for 100,000 documents; a million takes far longer, mostly for milvus-lite and txtai.

Shapes: N documents, Q queries, D dims.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np

from benchmarks.search_page import Measured, Setting, row, write_page
from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document, Rows, Vectors
from service.documents.interface import Query
from service.documents.store.store import DocumentStore
from service.documents.vectors.ivf import InvertedIndex
from service.model.encoder import load_encoder
from service.settings import BUNDLED_MODEL
from training.corpora.readers import find_pair_file, read_pair_file

QUERIES = 200
ROUNDS = 3
WARM_UP = 10
TOP_K = 10
EXACT_DOCUMENTS = 20_000  # as the service's default
NOISE = 0.3
BATCH = 2000
SENTENCES = 20_000
SEED = 0
ROOT = Path(__file__).parents[1]
TXTAI = ROOT / ".bench" / "txtai" / "bin" / "python"

Search = Callable[[Vectors], list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_scale", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with parallel/")
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL, help="artifact folder; default: the bundled one")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--sentences", type=int, default=SENTENCES, help=f"distinct sentences ({SENTENCES:,})")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results", help="folder of the page (%(default)s)")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    encoder = load_encoder(options.model)
    languages = encoder.manifest.languages
    texts = drawn(sentences(options.data / "parallel", languages), QUERIES + options.sentences)
    real_ND = np.stack([encoder.encode(text).vector for text in texts])
    query_QD, real_ND = real_ND[:QUERIES], real_ND[QUERIES:]
    asked = ["--sizes", *map(str, options.sizes)]
    if options.model != BUNDLED_MODEL:
        asked += ["--model", str(options.model)]
    if options.sentences != SENTENCES:
        asked += ["--sentences", str(options.sentences)]
    made_with = Setting(encoder.manifest.name, encoder.manifest.fingerprint, len(real_ND), QUERIES, tuple(asked))
    found: list[Measured] = []
    for size in options.sizes:
        for one in measure(grown(real_ND, size), query_QD):
            found.append(one)
            print(row(one), flush=True)
            write_page(found, made_with, options.out)


@dataclass(frozen=True)
class Contender:
    name: str
    search: Search
    load_s: float | None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Trial:
    """One size: the vectors, the queries, and the results of exact search."""

    vectors_ND: Vectors
    query_QD: Vectors
    nearest_QK: Rows

    def timed(self, *contenders: Contender, rounds: int = ROUNDS) -> list[Measured]:
        """Time sequential searches: in each round, each contender runs all queries. Ten queries warm up."""
        for one in contenders:
            for query_D in self.query_QD[:WARM_UP]:
                one.search(query_D)
        took_s: dict[str, list[float]] = {one.name: [] for one in contenders}
        found: dict[str, list[list[int]]] = {}
        for _ in range(rounds):
            for one in contenders:
                found[one.name] = []
                for query_D in self.query_QD:
                    started_at = time.perf_counter()
                    found[one.name].append(one.search(query_D))
                    took_s[one.name].append(time.perf_counter() - started_at)
        return [
            self.measured(one.name, took_s[one.name], found[one.name], load_s=one.load_s, size_bytes=one.size_bytes)
            for one in contenders
        ]

    def measured(
        self,
        name: str,
        took_s: list[float],
        found: list[list[int]],
        *,
        load_s: float | None,
        size_bytes: int | None = None,
    ) -> Measured:
        nearest = self.nearest_QK.tolist()
        hits = sum(len(set(rows) & set(nearest_K)) for rows, nearest_K in zip(found, nearest, strict=True))
        p50_ms, p99_ms = 1000 * np.percentile(took_s, [50, 99])
        mib = None if size_bytes is None else size_bytes / 2**20
        recall = hits / self.nearest_QK.size
        return Measured(len(self.vectors_ND), name, float(p50_ms), float(p99_ms), recall, mib, load_s)


def measure(vectors_ND: Vectors, query_QD: Vectors) -> Iterator[Measured]:
    """Measure crosslet, the same FAISS index alone and exact FAISS in turns; then milvus-lite, then txtai."""
    flat = faiss.IndexFlatIP(vectors_ND.shape[1])
    flat_s = seconds(lambda: flat.add(vectors_ND))
    trial = Trial(vectors_ND, query_QD, flat.search(query_QD, TOP_K)[1])

    def exact(query_D: Vectors) -> list[int]:
        found: list[int] = flat.search(query_D[None], TOP_K)[1][0].tolist()
        return found

    with crosslet(trial) as ours:
        yield from trial.timed(*ours, Contender("FAISS flat", exact, flat_s, vectors_ND.nbytes))
    yield from milvus_lite(trial)
    if TXTAI.exists():
        yield txtai(trial)
    else:
        yield Measured(len(vectors_ND), "txtai: not measured")
        print(f"txtai is not installed: run benchmarks/envs/make.sh {TXTAI.parents[2]} txtai", file=sys.stderr)


@contextmanager
def crosslet(trial: Trial) -> Iterator[list[Contender]]:
    """crosslet and, unless it is exact, the FAISS index inside it, alone."""
    dim = trial.vectors_ND.shape[1]
    with tempfile.TemporaryDirectory() as folder:
        store = DocumentStore(Path(folder) / "documents.sqlite3", fingerprint="scale", dim=dim)
        started_at = time.perf_counter()
        fill(store, trial.vectors_ND)
        collection = Collection(store, IndexOptions(Path(folder), "scale", dim, exact_documents=EXACT_DOCUMENTS))
        load_s = time.perf_counter() - started_at

        def ours(query_D: Vectors) -> list[int]:
            return [int(match.document.id) for match in collection.search_all([Query(query_D)], top_k=TOP_K)[0]]

        contenders = [Contender(f"crosslet ({collection.backend})", ours, load_s, collection.size_bytes)]
        index = collection._live.now
        if isinstance(index, InvertedIndex):
            plain, probes = index._index, index.tuning.probes
            plain.nprobe = probes

            def alone(query_D: Vectors) -> list[int]:
                found: list[int] = (plain.search(query_D[None], TOP_K)[1][0] - 1).tolist()
                return found

            name = f"FAISS IVF{index.lists},SQ8, nprobe {probes}"
            contenders.append(Contender(name, alone, None, index.size_bytes))
        yield contenders
        collection.close()


def milvus_lite(trial: Trial) -> list[Measured]:
    """Measure milvus-lite in this process, with its default settings, after its index is built.

    It builds the index in the background, and searches all vectors until then. describe_index says "Finished"
    throughout, so this closes and reopens it: only closing waits.
    """
    from milvus_lite.server_manager import server_manager_instance
    from pymilvus import MilvusClient

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/milvus.db"
        client = MilvusClient(path)
        client.create_collection("scale", dimension=trial.vectors_ND.shape[1], metric_type="IP")
        started_at = time.perf_counter()
        for start in range(0, len(trial.vectors_ND), BATCH):
            part = trial.vectors_ND[start : start + BATCH]
            client.insert("scale", [{"id": start + row, "vector": vector_D} for row, vector_D in enumerate(part)])
        client.flush("scale")
        client.close()
        server_manager_instance.release_server(path)
        client = MilvusClient(path)
        client.load_collection("scale")
        load_s = time.perf_counter() - started_at

        def search(query_D: Vectors) -> list[int]:
            (hits,) = client.search("scale", data=[query_D], limit=TOP_K)
            return [int(hit["id"]) for hit in hits]

        found = trial.timed(Contender("milvus-lite", search, load_s), rounds=1)
        client.close()
        server_manager_instance.release_server(path)
    return found


def txtai(trial: Trial) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        arrays = [Path(folder) / "vectors.npy", Path(folder) / "queries.npy"]
        for path, array in zip(arrays, (trial.vectors_ND, trial.query_QD), strict=True):
            np.save(path, array)
        command = [TXTAI, ROOT / "benchmarks" / "txtai_search.py", *arrays, str(ROUNDS)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    answer = json.loads(said.stdout.splitlines()[-1])
    return trial.measured("txtai", answer["took_s"], answer["found"], load_s=answer["load_s"])


def fill(store: DocumentStore, vectors_ND: Vectors) -> None:
    for start in range(0, len(vectors_ND), BATCH):
        part = vectors_ND[start : start + BATCH]
        documents = [Document(str(start + row), f"the text of document {start + row}", {}) for row in range(len(part))]
        with store.transaction() as transaction:
            transaction.upsert(documents, part)
            transaction.commit()


def grown(real_ND: Vectors, size: int) -> Vectors:
    """The first `size` vectors; if there are fewer, they are repeated with noise."""
    if size <= len(real_ND):
        return real_ND[:size]
    generator = np.random.default_rng(0)
    noise_ND = generator.standard_normal((size - len(real_ND), real_ND.shape[1]), dtype=np.float32)
    noise_ND *= NOISE / np.linalg.norm(noise_ND, axis=1, keepdims=True)
    more_ND = real_ND[np.arange(len(noise_ND)) % len(real_ND)] + noise_ND
    unit: Vectors = np.concatenate([real_ND, more_ND / np.linalg.norm(more_ND, axis=1, keepdims=True)])
    return unit


def sentences(folder: Path, languages: Sequence[str]) -> set[str]:
    found: set[str] = set()
    sources = sorted(path.name for path in folder.iterdir() if path.is_dir())
    for source in sources:
        for language in languages:
            if path := find_pair_file(folder, source, language):
                for english, other in read_pair_file(path, language, on_bad_line="skip"):
                    found |= {english, other} if "en" in languages else {other}
    return found - {""}


def drawn(found: set[str], count: int) -> list[str]:
    """A reproducible random sample of `count` sentences.

    Raises: ValueError: there are fewer.
    """
    if len(found) < count:
        raise ValueError(f"--data has {len(found)} sentences in the model's languages; need {count} (--sentences)")
    return random.Random(SEED).sample(sorted(found), count)


def seconds(call: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    call()
    return time.perf_counter() - started_at


if __name__ == "__main__":
    main()
