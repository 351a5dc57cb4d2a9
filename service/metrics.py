"""Every Prometheus metric of the service."""

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.documents.collections import Collections, count_of
from service.engine.cache import VectorCache
from service.errors import ServiceError
from service.model.artifact import Manifest
from service.process.memory import resident_bytes
from service.version import VERSION

# The buckets of OpenTelemetry's HTTP durations, in seconds.
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class Metrics:
    """All metrics in a registry of their own, so that two applications in a process stay apart."""

    def __init__(self, manifest: Manifest) -> None:
        # Leave out the `_created` gauge of each counter and histogram.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)  # exposed with the suffix _total
        duration = partial(Histogram, buckets=BUCKETS_S, registry=registry)
        self.requests = counter("crosslet_requests", "Requests answered.", ["route", "status"])
        self.request_duration = duration(
            "crosslet_request_duration_seconds",
            "From the first byte of the request to the last byte of the answer.",
            ["route"],
        )
        self.queue_duration = duration(
            "crosslet_queue_duration_seconds", "From admission until a worker takes the request's first text."
        )
        self.inference_duration = duration(
            "crosslet_inference_duration_seconds",
            "Time to tokenise and encode a request's texts, summed over the distinct ones.",
        )
        self.tokens = counter(
            "crosslet_tokens", "Tokens of answered texts, including those from the cache or from an equal text."
        )
        self.truncated_inputs = counter("crosslet_truncated_inputs", "Texts truncated to the model's length.")
        of = ["collection"]
        self.searches = counter("crosslet_searches", "Searches answered.", of)
        self.empty_searches = counter("crosslet_empty_searches", "Searches that showed no document.", of)
        self.slow_searches = counter(
            "crosslet_slow_searches", "Searches that took CROSSLET_SLOW_SEARCH_S or longer.", of
        )
        self.refused_connections = counter(
            "crosslet_refused_connections", "Connections refused at the limit of open files."
        )
        resident = Gauge("crosslet_process_resident_bytes", "Resident memory of the process.", registry=registry)
        resident.set_function(resident_bytes)
        build = Gauge("crosslet_build_info", "Always 1.", ["version", "model", "fingerprint"], registry=registry)
        build.labels(VERSION, manifest.name, manifest.fingerprint).set(1)

    def watch(
        self, *, queue_depth: Callable[[], int], collections: Collections, cache: VectorCache, memory_budget_bytes: int
    ) -> None:
        """Register what is read on each scrape. Call once."""

        class Readings(Collector):
            def collect(self) -> Iterable[Metric]:
                yield GaugeMetricFamily(
                    "crosslet_memory_budget_bytes", "CROSSLET_MEMORY_BUDGET; 0 = none.", memory_budget_bytes
                )
                yield GaugeMetricFamily("crosslet_queue_depth", "Accepted texts that wait.", queue_depth())
                yield GaugeMetricFamily(
                    "crosslet_index_documents", "Documents of all collections.", collections.count()
                )
                yield GaugeMetricFamily("crosslet_index_bytes", "Memory of the indexes.", collections.size_bytes)
                yield from _per_collection(collections)
                yield GaugeMetricFamily("crosslet_cache_bytes", "Memory of the cache of vectors.", cache.size_bytes)
                hits, misses = "Texts whose vector was in the cache.", "Texts whose vector was not in the cache."
                yield CounterMetricFamily("crosslet_cache_hits", hits, value=cache.hits)
                yield CounterMetricFamily("crosslet_cache_misses", misses, value=cache.misses)

        self._registry.register(Readings())

    def count_search(self, collection: str, *, is_empty: bool, is_slow: bool) -> None:
        """Count an answered search of a collection that there is."""
        self.searches.labels(collection).inc()
        self.empty_searches.labels(collection).inc(is_empty)
        self.slow_searches.labels(collection).inc(is_slow)

    def forget(self, collection: str) -> None:
        """Forget a dropped collection: clients may make any number of them."""
        for counter in (self.searches, self.empty_searches, self.slow_searches):
            counter.remove(collection)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def _per_collection(collections: Collections) -> Iterable[Metric]:
    """Documents and memory by collection: a label each, at most CROSSLET_MAX_COLLECTIONS."""
    names = ["collection"]
    documents = GaugeMetricFamily("crosslet_collection_documents", "Documents of a collection.", labels=names)
    size = GaugeMetricFamily("crosslet_collection_index_bytes", "Memory of a collection's index.", labels=names)
    try:
        named = collections.named()
    except ServiceError:  # Milvus is away: `count` says so
        named = {}
    for name, index in named.items():
        documents.add_metric([name], count_of(index))
        size.add_metric([name], index.size_bytes)
    return documents, size
