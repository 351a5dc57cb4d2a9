"""Encodes a short text on the event loop where it is alone. Knows event loops and requests; knows no queue."""

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from service.engine.cache import VectorCache
from service.engine.fair_queue import Job, Kind, Work
from service.engine.forward import Encode, Finished, encode_alone

LIMIT_S = 0.003  # that short texts may take on the average; the loop stands still as long, for a dense one longer
SHORT_CHARS = 200  # a sentence or two
ALONE_S = 0.1  # since two requests were last under way: from then on they come one after the other
TURNS = 2  # of the loop until what came in while it stood still has been counted


class InlineEncoder:
    """Which texts need no worker: the way to a thread and back is a good part of what a short one takes.

    Only while requests come one after the other, for others would wait, and cores be idle
    (docs/adr/0010-a-lone-text-on-the-event-loop.md). Called on one event loop.
    """

    def __init__(self, encode: Encode, cache: VectorCache | None, *, limit_s: float) -> None:
        """limit_s: what a short text may take on the average."""
        self._encode = encode
        self._cache = cache
        self._limit_s = limit_s
        self._requests = 0
        self._company_at = -math.inf  # when there was last more than one

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is under way."""
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

    async def encode(self, job: Job, *, mean_s: Mapping[Kind, float]) -> Finished | None:
        """Encode the one text of a counted request; None: it is for the workers.  mean_s: what texts take, by kind."""
        if len(job.texts) > 1 or not job.missing:
            return None
        if self._requests > 1 or asyncio.get_running_loop().time() < self._company_at + ALONE_S:
            return None
        work = Work(job.texts[0], job.truncate)
        if work.size > SHORT_CHARS or mean_s[work.kind] > self._limit_s:
            return None
        finished = encode_alone(work, self._encode, self._cache)
        for _ in range(TURNS):  # of two clients each would find itself alone when the other is done
            await asyncio.sleep(0)
        return finished
