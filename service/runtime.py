"""Builds and closes the parts of a running service: model, workers, threads, documents, metrics."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from service.document_index import load_collections
from service.documents.collections import Collections, Versions
from service.documents.document import Document, Vectors
from service.documents.interface import DocumentIndex, MetadataChange
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME, Mode
from service.documents.own_fields import OwnFields
from service.documents.usage import Usage
from service.engine.cache import VectorCache
from service.engine.pairs import encode_with
from service.engine.pool import LIMIT_S, EncoderPool
from service.engine.scorers import Scoring, scoring_of
from service.errors import Overloaded
from service.keys import FULL, Grant
from service.metrics import Metrics
from service.model.artifact import Manifest
from service.model.encoder import Choice, Encoder, choose_encoder
from service.model.reranker import Reranker
from service.model.stages import StageTimer
from service.process.address_space import check_documents
from service.process.cpus import usable_cpus
from service.process.memory import give_back_unused, growth_during, resident_bytes, unmap_code
from service.process.memory_budget import MemoryBudget
from service.settings import Settings

if TYPE_CHECKING:  # it needs an extra
    from service.traces import Traces

PASSES_MEASURED = 3
TURN_S = 0.02  # of preparing one request, before another has its turn
LONG_BYTES = 64 * 1024  # of a body that is parsed on the thread, not on the event loop: 4 MB may take a second

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator[None, None, T]  # yields every few milliseconds

# Threads for look-ups. Embedded, they compute and share the CPUs; with Milvus, they wait for answers.
EMBEDDED_READERS, REMOTE_READERS = 2, 16
LOOKUP_RETRY_S = 1
WARN_AFTER_S = 60

logger = logging.getLogger(__name__)


@dataclass
class Lifecycle:
    """Whether the process has started or is shutting down."""

    is_started: bool = False
    is_draining: bool = False


class LookupPool:
    """Threads for look-ups. Call `run` on one event loop."""

    def __init__(self, threads: int, *, max_waiting: int) -> None:
        """max_waiting: maximum number of queued look-ups."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="reader")
        self._threads = threads
        self._max_waiting = max_waiting
        self._pending = 0  # queued or running

    @property
    def waiting(self) -> int:
        """The number of queued look-ups."""
        return max(0, self._pending - self._threads)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on a thread and return its result. Cancelled while queued, it never runs.

        Raises: Overloaded: too many look-ups wait.
        """
        if self.waiting >= self._max_waiting:
            raise Overloaded(
                f"{self.waiting} look-ups wait; the limit is {self._max_waiting} (CROSSLET_MAX_QUEUE_READS)",
                retry_after_s=LOOKUP_RETRY_S,
            )
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        finally:
            self._pending -= 1

    def shutdown(self) -> None:
        """Finish queued and running look-ups. Blocks."""
        self._executor.shutdown()


class Preparation:
    """Prepares requests on one thread: parses long bodies, splits documents. Call it on one event loop.

    Work of many steps takes turns, so that a long request delays no other. Searches have their own threads.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="preparation")

    async def call(self, call: Callable[[], T]) -> T:
        """Run `call` on the thread and return its result. Cancelled while it waits, it never runs."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def run(self, steps: Steps[T], *, limit_s: float = math.inf) -> T:
        """Run steps turn by turn and return their result. Cancelled, they end with the turn.

        Raises: TimeoutError: they took more than `limit_s`, without the turns of others.
        """
        results: list[T] = []

        def turn() -> float:
            started_at = time.monotonic()
            try:
                while time.monotonic() < started_at + TURN_S:
                    next(steps)
            except StopIteration as stop:
                results.append(stop.value)
            return time.monotonic() - started_at

        while not results:
            if limit_s <= 0:
                raise TimeoutError
            limit_s -= await self.call(turn)
        return results[0]

    def shutdown(self) -> None:
        """Finish what was handed over. Blocks."""
        self._thread.shutdown()


class CutWarning:
    """Warns of texts that the model read only a part of, once a minute at most."""

    def __init__(self) -> None:
        self._texts = 0  # since the last warning
        self._next_at = -math.inf

    def note(self, texts: int) -> None:
        """Count the cut texts of a request; warn if it is time."""
        self._texts += texts
        if self._texts and time.monotonic() >= self._next_at:
            logger.warning("texts were cut: the model reads less (CROSSLET_LONG_TEXTS)", extra={"texts": self._texts})
            self._texts, self._next_at = 0, time.monotonic() + WARN_AFTER_S


@dataclass(frozen=True)
class Runtime:
    """The parts of a running service. Built before it listens, closed after its last answer."""

    settings: Settings
    encoder: Encoder
    pool: EncoderPool
    collections: Collections
    metrics: Metrics
    memory: MemoryBudget
    readers: LookupPool
    scoring: Scoring
    usage: Usage
    reranker: Reranker | None = None
    refused: str | None = None  # why the fallback model is served
    collection_name: str = DEFAULT_NAME
    grant: Grant = FULL
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    preparation: Preparation = field(default_factory=Preparation)
    traces: "Traces | None" = None
    cut_warning: CutWarning = field(default_factory=CutWarning)
    _writer: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="writer"))

    @property
    def collection(self) -> DocumentIndex:
        """The request's collection. Raises: NotFound: none has the name."""
        return self.collections.of(self.collection_name)

    @property
    def default_mode(self) -> Mode:
        """The mode of a search that names none."""
        return self.settings.search_mode or ("hybrid" if self.collections.has_keywords else "dense")

    async def own_fields(self) -> OwnFields | None:
        """As `Collections.own_fields`, of the request's collection."""
        if self.settings.index == EMBEDDED:
            return self.collections.own_fields(self.collection_name)
        return await self.read(self.collections.own_fields, self.collection_name)  # Milvus may be asked

    def for_request(self, name: str, grant: Grant) -> "Runtime":
        """Return this runtime for a request about a collection, with what its key may reach."""
        is_plain = name == DEFAULT_NAME and grant == FULL
        return self if is_plain else replace(self, collection_name=name, grant=grant)

    async def put(self, documents: Sequence[Document], vectors_PD: Vectors, versions: Versions) -> int:
        """Put documents into the request's collection, as `Collections.put`, within the key's quota."""
        if self.grant.quota is None:
            return await self.write(self.collections.put, self.collection_name, documents, vectors_PD, versions)
        return await self.write(self.usage.put, self.grant, self.collection_name, documents, vectors_PD, versions)

    async def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """Change a document of the request's collection, as `DocumentIndex.update_metadata`, within the key's quota."""
        if self.grant.quota is None:
            return await self.write(self.collection.update_metadata, id_, change)
        return await self.write(self.usage.update_metadata, self.grant, self.collection_name, id_, change)

    async def check_room(self, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit, or exceed the key's quota, before they are embedded."""
        await self.read(self.collections.check_room, self.collection_name, documents)
        if self.grant.quota is not None:
            await self.read(self.usage.check, self.grant, self.collection_name, documents)

    @property
    def manifest(self) -> Manifest:
        """The encoder's manifest."""
        return self.encoder.manifest

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking look-up off the event loop, without waiting for writes.

        Raises: Overloaded: too many look-ups wait.
        """
        return await self._traced(self.readers.run, lambda: call(*args, **kwargs))

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking change off the event loop, one at a time. Once started, it completes even if cancelled."""

        def change() -> T:
            with StageTimer("store"):
                return call(*args, **kwargs)

        return await self._traced(partial(asyncio.get_running_loop().run_in_executor, self._writer), change)

    async def _traced(self, run: Callable[[Callable[[], T]], Awaitable[T]], call: Callable[[], T]) -> T:
        return await (run(call) if self.traces is None else self.traces.add_of(run, call))

    def trouble(self) -> str | None:
        """Return why the service is not ready, or None."""
        if not self.lifecycle.is_started:
            return "the service is starting"
        if self.lifecycle.is_draining:
            return "the service is shutting down"
        return self.pool.trouble(stall_timeout_s=self.settings.stall_timeout_s)

    def start(self) -> None:
        """Start the workers."""
        self.pool.start()
        self.lifecycle.is_started = True

    def close(self) -> None:
        """Finish accepted requests and close the store. Blocks."""
        self.lifecycle.is_draining = True
        self.pool.close()
        self.preparation.shutdown()
        self.readers.shutdown()
        self._writer.shutdown()
        self.collections.close()
        if self.traces is not None:
            self.traces.close()


def run_longest(models: Sequence[Encoder | Reranker]) -> None:
    """Run the longest input through each model."""
    for model in models:
        model.run_longest()


def _free_passes(models: Sequence[Encoder | Reranker]) -> None:
    for model in models:
        model.give_back_unused()
    give_back_unused()


def _pass_bytes(models: Sequence[Encoder | Reranker]) -> int:
    """Return the peak memory of a worker's passes: the median of a few, since single measurements vary twofold."""
    unmap_code()  # leaves out code that only the start ran; a pass maps its own again
    run_longest(models)
    growths: list[int] = []
    for _ in range(PASSES_MEASURED):
        _free_passes(models)  # else the passes would take memory that is free already, and nothing would grow
        growths.append(growth_during(partial(run_longest, models)))
    return sorted(growths)[PASSES_MEASURED // 2]


def load_reranker(settings: Settings) -> Reranker | None:
    """Load the re-ranker that the settings name, if any.

    Raises: ArtifactError: it is refused.
    """
    if settings.reranker is None:
        return None
    reranker = Reranker.load(settings.reranker)
    facts = {"model": reranker.manifest.name, "fingerprint": reranker.manifest.fingerprint}
    logger.info("re-ranker loaded", extra=facts)
    return reranker


def load_runtime(
    settings: Settings,
    choice: Choice | None = None,
    collections: Collections | None = None,
    *,
    traces: "Traces | None" = None,
) -> Runtime:
    """Load the model and the documents, unless `choice` and `collections` have them.

    traces: where spans go; None: there are none.
    Raises: StartError: the model, the documents or a setting is refused; one sentence for the operator.
    """
    choice = choice or choose_encoder(settings.model, settings.fallback_model)
    encoder, manifest = choice.encoder, choice.encoder.manifest
    facts = {"model": manifest.name, "fingerprint": manifest.fingerprint, "dim": manifest.dim}
    logger.info("artifact loaded", extra=facts)
    reranker = load_reranker(settings)
    models = [model for model in (encoder, reranker) if model is not None]
    pass_bytes = _pass_bytes(models) if settings.memory_budget else 0  # takes a tenth of a second
    cache = VectorCache(settings.cache_bytes, fingerprint=manifest.fingerprint, dim=manifest.dim)
    longest_dim = max([manifest.dim, *(space.dim for space in manifest.spaces)])

    def release() -> None:
        cache.clear()
        for model in models:
            model.give_back_unused()

    memory = MemoryBudget(settings.memory_budget, dim=longest_dim, release=release)
    collections = collections or _load_documents(settings, manifest, memory)
    pool = EncoderPool(
        encode_with(encoder, reranker),
        encoder,
        workers=settings.workers or usable_cpus(),
        max_queue_texts=settings.max_queue_texts,
        request_timeout_s=settings.request_timeout_s,
        cache=cache,
        on_loop_s=LIMIT_S,
        notes_stages=traces is not None,
    )
    _free_passes(models)  # leave out what only the start needed
    memory.reserve(pool.workers * pass_bytes)
    metrics = Metrics(manifest)
    metrics.watch(
        queue_depth=lambda: pool.depth,
        collections=collections,
        cache=cache,
        memory_budget_bytes=settings.memory_budget,
    )
    logger.info("runtime loaded", extra={"workers": pool.workers, "resident_bytes": resident_bytes()})
    threads = EMBEDDED_READERS if settings.index == EMBEDDED else REMOTE_READERS
    return Runtime(
        settings,
        encoder,
        pool,
        collections,
        metrics,
        memory,
        LookupPool(threads, max_waiting=settings.max_queue_reads),
        scoring=scoring_of(encoder, reranker, settings.rerank_weight),
        usage=Usage(collections),
        reranker=reranker,
        refused=choice.refused,
        traces=traces,
    )


def _load_documents(settings: Settings, manifest: Manifest, memory: MemoryBudget) -> Collections:
    def check_memory(growth_bytes: int) -> None:
        memory.check_documents(growth_bytes)
        check_documents(growth_bytes, room_bytes=settings.working_bytes)

    collections = load_collections(settings, manifest, check_memory=check_memory)
    logger.info("documents loaded", extra={"documents": collections.count(), "index_bytes": collections.size_bytes})
    return collections
