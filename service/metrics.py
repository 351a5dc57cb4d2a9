"""Every Prometheus metric of the service."""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.documents.collections import Collections, count_of
from service.engine.cache import VectorCache
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
        self.requests = Counter(
            "crosslet_requests", "Requests answered.", ["route", "status"], registry=registry
        )  # exposed as crosslet_requests_total
        self.request_duration = Histogram(
            "crosslet_request_duration_seconds",
            "From the first byte of the request to the last byte of the answer.",
            ["route"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.queue_duration = Histogram(
            "crosslet_queue_duration_seconds",
            "From admission until a worker takes the request's first text.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.inference_duration = Histogram(
            "crosslet_inference_duration_seconds",
            "Time to tokenise and encode a request's texts, summed over the distinct ones.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.tokens = Counter(
            "crosslet_tokens",
            "Tokens of answered texts, including those from the cache or from an equal text.",
            registry=registry,
        )
        self.truncated_inputs = Counter(
            "crosslet_truncated_inputs", "Texts truncated to the model's length.", registry=registry
        )
        self.refused_connections = Counter(
            "crosslet_refused_connections", "Connections refused at the limit of open files.", registry=registry
        )
        self._gauge("crosslet_process_resident_bytes", "Resident memory of the process.", resident_bytes)
        build = Gauge("crosslet_build_info", "Always 1.", ["version", "model", "fingerprint"], registry=registry)
        build.labels(VERSION, manifest.name, manifest.fingerprint).set(1)

    def watch(
        self,
        *,
        queue_depth: Callable[[], int],
        collections: Collections,
        cache: VectorCache,
        memory_budget_bytes: int,
    ) -> None:
        """Register gauges that are read on each scrape. Call once."""
        self._gauge("crosslet_memory_budget_bytes", "CROSSLET_MEMORY_BUDGET; 0 = none.", lambda: memory_budget_bytes)
        self._gauge("crosslet_queue_depth", "Accepted texts that wait.", queue_depth)
        self._gauge("crosslet_index_documents", "Documents of all collections.", collections.count)
        self._gauge("crosslet_index_bytes", "Memory of the indexes.", lambda: collections.size_bytes)
        self._registry.register(_PerCollection(collections))
        self._gauge("crosslet_cache_bytes", "Memory of the cache of vectors.", lambda: cache.size_bytes)
        self._count("crosslet_cache_hits", "Texts whose vector was in the cache.", lambda: cache.hits)
        self._count("crosslet_cache_misses", "Texts whose vector was not in the cache.", lambda: cache.misses)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        Gauge(name, description, registry=self._registry).set_function(read)

    def _count(self, name: str, description: str, read: Callable[[], int]) -> None:
        self._registry.register(_Counted(name, description, read))


class _PerCollection(Collector):
    """Documents and memory by collection: a label each, at most CROSSLET_MAX_COLLECTIONS."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def collect(self) -> Iterable[Metric]:
        """Yield the values of the present collections."""
        names = ["collection"]
        documents = GaugeMetricFamily("crosslet_collection_documents", "Documents of a collection.", labels=names)
        size = GaugeMetricFamily("crosslet_collection_index_bytes", "Memory of a collection's index.", labels=names)
        for name, index in self._collections.named().items():
            documents.add_metric([name], count_of(index))
            size.add_metric([name], index.size_bytes)
        yield from (documents, size)


class _Counted(Collector):
    """A counter whose value is read from elsewhere; exposed as <name>_total."""

    def __init__(self, name: str, description: str, read: Callable[[], int]) -> None:
        self._name = name
        self._description = description
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Yield its current value."""
        yield CounterMetricFamily(self._name, self._description, value=self._read())
