"""Encodes a short text on the event loop if no other request is active."""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.engine.cache import VectorCache
from service.engine.fair_queue import Job, Kind, Work
from service.engine.forward import Encode, Finished, encode_alone

LIMIT_S = 0.003  # maximum mean time of short texts; it blocks the loop, and a token-dense text takes longer
SHORT_CHARS = 200  # a sentence or two
ALONE_S = 0.1  # how long requests must have come one at a time
TURNS = 2  # loop iterations until requests that arrived meanwhile are counted


class InlineEncoder:
    """Saves the hand-over to a worker, a good part of a short text's latency.

    Used only while requests come one at a time: otherwise requests would wait while cores idle
    (docs/adr/0010-a-lone-text-on-the-event-loop.md). Call it on one event loop.
    """

    def __init__(self, encode: Encode, cache: VectorCache | None, *, limit_s: float) -> None:
        """limit_s: maximum mean time of a short text."""
        self._encode = encode
        self._cache = cache
        self._limit_s = limit_s
        self._requests = 0
        self._company_at = -math.inf  # the last time that requests overlapped

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is active."""
        self._requests += 1
        self._note_company()
        try:
            yield
        finally:
            self._note_company()
            self._requests -= 1

    def _note_company(self) -> None:
        if self._requests > 1:
            self._company_at = asyncio.get_running_loop().time()

    async def encode(self, job: Job, *, mean_s: Callable[[Kind], float]) -> Finished | None:
        """Encode the one text of a counted request; None: it is for the workers.  mean_s: what a kind of text takes."""
        if len(job.texts) > 1 or not job.missing:
            return None
        if self._requests > 1 or asyncio.get_running_loop().time() < self._company_at + ALONE_S:
            return None
        work = Work(job.texts[0], job.truncate)
        if work.size > SHORT_CHARS or mean_s(work.kind) > self._limit_s:
            return None
        finished = encode_alone(work, self._encode, self._cache)
        for _ in range(TURNS):  # otherwise two alternating clients each look alone
            await asyncio.sleep(0)
        return finished
