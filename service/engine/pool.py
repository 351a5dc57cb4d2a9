"""Encodes queued texts on worker threads, and a short text of the only request on the event loop."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, cast

from service.engine.batcher import Prepared
from service.engine.cache import VectorCache
from service.engine.fair_queue import EncodedBatch, Finished, Job, Kind, Work
from service.engine.pairs import Input
from service.engine.schedule import Schedule, Waiter
from service.errors import InferenceFailed, ServiceError
from service.model.encoder import Encoded, Encoder, TextInput
from service.model.stages import Stage, collecting

LIMIT_S = 0.003  # maximum mean time of short texts; it blocks the loop, and a token-dense text takes longer
SHORT_CHARS = 200  # a sentence or two
ALONE_S = 0.1  # how long requests must have come one at a time
TURNS = 2  # loop iterations until requests that arrived meanwhile are counted

T = TypeVar("T")
Encode = Callable[[Input, bool], Encoded]


class EncoderPool:
    """Worker threads over one bounded fair queue of texts.

    A text is encoded alone, or in a pass that keeps its vector to the bit, so that this never depends on its company. A
    pair of query and passage, which counts as a text, is always scored alone.
    Equal texts in flight are encoded once. One failing text fails the requests that have it, and no other, unless they
    skip it. A short text of the only request is encoded on the event loop.
    """

    def __init__(
        self,
        encode: Encode,
        encoder: Encoder,
        *,
        workers: int,
        max_queue_texts: int,
        request_timeout_s: float = 30.0,
        cache: VectorCache | None = None,
        on_loop_s: float = 0.0,
        notes_stages: bool = False,
    ) -> None:
        """Create the pool; `start` runs it.

        Args: encode: for what is encoded alone: long texts, pairs, a text on the event loop.  encoder: for the others.
              cache: None = no cache.  on_loop_s: maximum mean time of short texts for encoding on the event loop.
              notes_stages: whether results say what was done when, for traces.
        """
        self._encode = encode
        self._encoder = encoder
        self._request_timeout_s = request_timeout_s
        self._cache = cache
        self._notes_stages = notes_stages
        self._inline = InlineEncoder(encode, cache, limit_s=on_loop_s)
        self._schedule = Schedule(
            encoder, workers=workers, max_queue_texts=max_queue_texts, request_timeout_s=request_timeout_s
        )
        self._threads = [
            threading.Thread(target=self._work, name=f"encoder-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish every admitted text, then stop the workers. Blocks."""
        self._schedule.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    @property
    def depth(self) -> int:
        """The number of admitted texts that wait, for a pass or for an equal text; of a large request its portion."""
        return self._schedule.depth

    @property
    def backlog(self) -> int:
        """The number of texts of large requests that follow."""
        return self._schedule.backlog

    @property
    def workers(self) -> int:
        """The number of worker threads."""
        return len(self._threads)

    @property
    def retry_after_s(self) -> int:
        """Whole seconds until the texts waiting now should be done."""
        return self._schedule.retry_after_s

    def trouble(self, *, stall_timeout_s: float) -> str | None:
        """Return why the pool cannot serve (a worker died, or no text gets finished), or None."""
        dead = sum(not thread.is_alive() for thread in self._threads)
        if dead:
            return f"{dead} of {len(self._threads)} encoder workers are not running"
        return self._schedule.stall(longer_than_s=stall_timeout_s)

    async def encode(self, texts: Sequence[Input], *, truncate: bool = True, skip_failed: bool = False) -> EncodedBatch:
        """Embed the texts of one request. A cancelled call drops those of its texts that nobody else waits for.

        Args:   skip_failed: embed the other texts if some fail.
        Raises: Overloaded: the queue is full or too slow, or texts still waited after `request_timeout_s`.
                NotReady: the pool is closing.
                InputError: a text failed, or with `skip_failed` all did; the rest of the request is dropped.
        """
        job = Job(texts, truncate, skip_failed=skip_failed)
        if self._notes_stages:
            job.stages = []
        if self._cache is not None:
            job.results = [self._cache.get(text, truncate=truncate) for text in texts]
        schedule = self._schedule
        with self._inline.request():
            finished = await self._inline.encode(job, mean_s=schedule.mean_s) if schedule.is_at_rest else None
            if finished is None:
                await self._encode_by_workers(job)
            else:
                schedule.record(job, finished)
        if (error := job.error) is not None:
            raise error
        return job.batch()

    async def _encode_by_workers(self, job: Job) -> None:
        """Wait for the job. At the time limit, drop its texts that are still queued; wait for those being encoded."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        self._schedule.admit(job, Waiter(loop, done))
        if not job.is_waiting:
            return
        limit = loop.call_later(self._request_timeout_s, done.set)
        try:
            await done.wait()
            if job.is_waiting:
                self._schedule.give_up(job)
                done.clear()  # workers have the rest and will set it again
            if job.is_waiting:
                await done.wait()
        finally:
            limit.cancel()
            self._schedule.drop(job)

    def _work(self) -> None:
        finished: list[Finished] = []
        while self._take_turn(finished):
            pass

    def _take_turn(self, finished: list[Finished]) -> bool:
        """Hand in the results in `finished`, encode the next texts into it. Return whether there are more to come.

        A call for each turn: variables of a waiting worker would keep requests alive.
        """
        taken = self._schedule.next(finished)
        if taken is None:
            return False
        if taken and taken[0].is_apart:
            calls = ((work, partial(encode_alone, work, self._encode, self._cache)) for work in taken)
            finished += [self._noted([work], call) for work, call in calls]
        else:
            prepared, failed = self._noted(taken, partial(tokenise_all, taken, self._encoder))
            together = self._schedule.share(prepared, failed)
            encode = partial(encode_together, together, self._encoder, self._cache)
            finished += failed + self._noted([text.work for text in together], encode)
        return True

    def _noted(self, works: Sequence[Work], call: Callable[[], T]) -> T:
        """Return what `call` returns, which works on these texts; note its stages in their requests."""
        if not self._notes_stages:
            return call()
        stages: list[Stage] = []
        result = collecting(stages, call)
        for job in {job for work in works for job in list(work.positions)}:  # a copy: requests come and go meanwhile
            if job.stages is not None:
                job.stages += stages
        return result


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
        encode = partial(encode_alone, work, self._encode, self._cache)
        finished = encode() if job.stages is None else collecting(job.stages, encode)
        for _ in range(TURNS):  # otherwise two alternating clients each look alone
            await asyncio.sleep(0)
        return finished


def encode_alone(work: Work, encode: Encode, cache: VectorCache | None) -> Finished:
    """Encode one text by itself. An exception becomes its result."""
    started_at = time.monotonic()
    try:
        result: Encoded | ServiceError = encode(work.text, work.truncate)
        if cache is not None and isinstance(result, Encoded):
            cache.put(work.text, result)
    except BaseException as exc:  # also a panic of the tokenizer: no text may end a worker
        result = failure_of(exc)
    return Finished(work, result, time.monotonic() - started_at)


def tokenise_all(works: Sequence[Work], encoder: Encoder) -> tuple[list[Prepared], list[Finished]]:
    """Tokenise texts. Return those ready for a pass and those that failed. If one fails, each is retried alone."""
    started_at = time.monotonic()
    try:
        texts = cast("list[TextInput]", [work.text for work in works])  # pairs share no pass
        tokenised = encoder.tokenise(texts, [work.truncate for work in works])
    except BaseException as exc:
        if len(works) == 1:
            return [], [Finished(works[0], failure_of(exc), time.monotonic() - started_at)]
        parts = [tokenise_all([work], encoder) for work in works]
        return [text for ready, _ in parts for text in ready], [text for _, failed in parts for text in failed]
    share_s = (time.monotonic() - started_at) / max(1, len(works))
    return [Prepared(work, tokens, share_s) for work, tokens in zip(works, tokenised, strict=True)], []


def encode_together(texts: Sequence[Prepared], encoder: Encoder, cache: VectorCache | None) -> list[Finished]:
    """Encode texts in one pass. If it fails, each is retried alone: perhaps only one is at fault."""
    if not texts:
        return []
    started_at = time.monotonic()
    try:
        encoded = encoder.run([text.tokens for text in texts])
        if cache is not None:
            for text, vector in zip(texts, encoded, strict=True):
                cache.put(text.work.text, vector)
    except BaseException as exc:
        if len(texts) > 1:
            return [finished for text in texts for finished in encode_together([text], encoder, cache)]
        return [Finished(texts[0].work, failure_of(exc), texts[0].took_s + time.monotonic() - started_at)]
    share_s = (time.monotonic() - started_at) / len(texts)
    return [Finished(text.work, vector, text.took_s + share_s) for text, vector in zip(texts, encoded, strict=True)]


def failure_of(exc: BaseException) -> ServiceError:
    """Return an exception as a ServiceError, whose message quotes nothing of the text."""
    if isinstance(exc, ServiceError):
        return exc
    failed = InferenceFailed(f"the encoder failed ({type(exc).__name__})")
    failed.__cause__ = exc
    return failed
