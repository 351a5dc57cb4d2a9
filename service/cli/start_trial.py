"""Rehearses a command's peak memory: loads all it will load and runs all its threads at once. Keeps nothing."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

from service.documents.milvus.address import EMBEDDED
from service.process.cpus import usable_cpus
from service.settings import Settings

VECTORS = 64
WRITERS = 2  # threads that change the index: writes and maintenance


class Use(Enum):
    """What a command uses the model for."""

    EMBED = "embed"
    DOCUMENTS = "documents"  # vectors are compared, too
    RERANK = "rerank"
    SERVE = "serve"


def try_start(settings: Settings, use: Use) -> None:
    """Load everything, and make every thread do its most expensive work.

    Raises: StartError: the model is refused.
    """
    if use is Use.SERVE:
        from service.api.startup import check_mcp, import_server
        from service.cli.serve import MALLOC_ARENAS
        from service.process.memory import limit_arenas

        limit_arenas(MALLOC_ARENAS)
        import_server()
        if settings.mcp:
            check_mcp("CROSSLET_MCP")
            import service.api.routes.mcp
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.runtime import EMBEDDED_READERS, REMOTE_READERS, load_reranker, run_longest

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    reranker = load_reranker(settings) if use in {Use.RERANK, Use.SERVE} else None
    workers = 1 if use is Use.EMBED else settings.workers or usable_cpus()
    models = [model for model in (encoder, reranker) if model is not None]
    work: list[Callable[[], object]] = [lambda: run_longest(models)] * workers
    if use not in {Use.EMBED, Use.RERANK}:
        if settings.index == EMBEDDED:
            work += [lambda: _index(stored_as(encoder.manifest, settings.space).dim)] * (EMBEDDED_READERS + WRITERS)
        else:
            import service.documents.milvus.index  # noqa: F401

            work += [lambda: None] * REMOTE_READERS
    _all_at_once(work)


def _index(dim: int) -> None:
    import numpy as np

    from service.documents.vectors.index import FaissIndex

    index, vectors_ND = FaissIndex(dim), np.ones((VECTORS, dim), np.float32)
    index.replace(index.prepare(range(VECTORS), vectors_ND))
    index.search(vectors_ND[0], top_k=1)


def _all_at_once(work: Sequence[Callable[[], object]]) -> None:
    """Run each call in a thread of its own; all threads exist before any call starts."""
    all_started = threading.Event()

    def run(call: Callable[[], object]) -> None:
        all_started.wait()
        call()

    with ThreadPoolExecutor(len(work)) as threads:
        try:
            running = [threads.submit(run, call) for call in work]
        finally:
            all_started.set()
    for call in running:
        call.result()
