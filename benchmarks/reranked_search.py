"""Dense, hybrid, and re-ranked search over the search set that ships with crosslet, by a running service.

python -m benchmarks.reranked_search --reranker FOLDER [--rerank-k 10 20] [--step 1]   prints a table, keeps nothing

Asks the set's test queries, one after the other. A row has how often the right document comes first and among three,
the median time of a request, and the resident memory of the service after it. The first rows are of a service without a
re-ranker.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import httpx

from benchmarks.endurance.process import ServiceProcess, running_service
from benchmarks.endurance.wire import HOST
from training.evaluation.search import Query, SearchSet, bundled_search

MIB = 2**20
Asked = dict[str, object]  # what a search has beside its query


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reranked_search", description=__doc__)
    parser.add_argument("--reranker", type=Path, required=True, metavar="FOLDER", help="an artifact of a cross-encoder")
    parser.add_argument("--rerank-k", type=int, nargs="+", default=[10, 20], help="how many it reads (10 20)")
    parser.add_argument("--step", type=int, default=1, help="ask every so manieth query (1)")
    options = parser.parse_args()
    found = bundled_search()
    queries = [query for query in found.queries if not query.is_dev and query.document is not None][:: options.step]
    print(f"{len(queries)} queries, {len(found.documents)} documents")
    print("| search | first, % | among three, % | ms a query | service, MiB |\n|---|---:|---:|---:|---:|", flush=True)
    plain: dict[str, Asked] = {"dense": {"mode": "dense"}, "hybrid": {"mode": "hybrid"}}
    with running_service() as service:
        report(service, found, queries, plain)
    reranked: dict[str, Asked] = {
        f"{mode}, {count} re-ranked": {"mode": mode, "rerank": True, "rerank_k": count}
        for count in options.rerank_k
        for mode in plain
    }
    with running_service(reranker=options.reranker.resolve()) as service:
        report(service, found, queries, reranked)


def report(service: ServiceProcess, found: SearchSet, queries: Sequence[Query], rows: dict[str, Asked]) -> None:
    with httpx.Client(base_url=f"http://{HOST}:{service.port}", trust_env=False, timeout=120) as client:
        documents = [{"id": str(number), "text": text} for number, text in enumerate(found.documents)]
        client.put("/documents", json={"documents": documents}).raise_for_status()
        for name, asked in rows.items():
            places, seconds = zip(*ask(client, queries, asked), strict=True)
            shares = [100 * sum(place < most for place in places) / len(places) for most in (1, 3)]
            time_ms, memory = 1000 * median(seconds), service.resident_bytes / MIB
            print(f"| {name} | {shares[0]:.1f} | {shares[1]:.1f} | {time_ms:.0f} | {memory:.0f} |", flush=True)


def ask(client: httpx.Client, queries: Sequence[Query], asked: Asked) -> Iterator[tuple[int, float]]:
    """The place of each query's document, from 0, or 3 if it is not among three; and the seconds of the request."""
    for query in queries:
        began = time.perf_counter()
        answer = client.post("/search", json={"query": query.text, "top_k": 3, **asked})
        took = time.perf_counter() - began
        answer.raise_for_status()
        ids = [result["id"] for result in answer.json()["results"]]
        yield ids.index(str(query.document)) if str(query.document) in ids else 3, took


if __name__ == "__main__":
    main()
