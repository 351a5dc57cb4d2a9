"""Runs queued texts through the encoder on worker threads, within limits on queue and time."""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence

from service.engine.batcher import Batcher
from service.engine.cache import VectorCache
from service.engine.completions import Completions
from service.engine.fair_queue import EncodedBatch, FairQueue, Job, Kind, Work, kind_of
from service.engine.forward import Encode, Finished, encode_alone, encode_together, tokenise_all
from service.engine.inline import InlineEncoder
from service.engine.pairs import Input
from service.errors import NotReady, Overloaded
from service.model.encoder import Encoder

TAKEN_AT_ONCE = 16  # texts tokenised before the next pass: the first must not wait for hundreds
LONGEST_RETRY_S = 60
LONGEST_WAIT = 0.5  # of the request timeout: in a fair queue requests finish together, so late ones would all time out


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
        *,
        workers: int,
        max_queue_texts: int,
        request_timeout_s: float = 30.0,
        cache: VectorCache | None = None,
        sharing: Encoder | None = None,
        on_loop_s: float = 0.0,
    ) -> None:
        """Create the pool; `start` runs it.

        Args: cache: None = no cache.  sharing: the encoder of shared passes for short texts; None: `encode` does all.
              on_loop_s: maximum mean time of short texts for encoding on the event loop.
        """
        self._encode = encode
        self._sharing = sharing
        self._max_queue_texts = max_queue_texts
        self._request_timeout_s = request_timeout_s
        self._cache = cache
        self._lone = InlineEncoder(encode, cache, limit_s=on_loop_s)
        self._queue = FairQueue()
        self._batcher = Batcher()
        self._completions = Completions()
        self._wake = (
            threading.Condition()
        )  # guards the queue, the batcher, their jobs, completions and the fields below
        self._is_closing = False
        self._idle = 0  # workers that wait for something to do
        self._mean_s: dict[Kind, float] = {"text": 0.002, "long text": 0.02, "pair": 0.01, "long pair": 0.05}  # guesses
        self._progress_at = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, name=f"encoder-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish every admitted text, then stop the workers. Blocks."""
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    @property
    def depth(self) -> int:
        """The number of admitted texts that wait, for a pass or for an equal text."""
        return self._queue.depth + len(self._batcher)

    @property
    def workers(self) -> int:
        """The number of worker threads."""
        return len(self._threads)

    @property
    def retry_after_s(self) -> int:
        """Whole seconds until the texts waiting now should be done."""
        return min(LONGEST_RETRY_S, max(1, math.ceil(self._drain_s())))

    def _drain_s(self, more: Sequence[Input] = ()) -> float:
        """Estimate how long the workers need for the waiting texts and `more`."""
        counts = self._queue.unstarted_of + Counter(map(kind_of, more))
        return sum(self._mean_s[kind] * count for kind, count in counts.items()) / max(1, len(self._threads))

    def trouble(self, *, stall_timeout_s: float) -> str | None:
        """Return why the pool cannot serve (a worker died, or no text gets finished), or None."""
        dead = sum(not thread.is_alive() for thread in self._threads)
        if dead:
            return f"{dead} of {len(self._threads)} encoder workers are not running"
        with self._wake:
            idle_s = time.monotonic() - self._progress_at
            if self.depth and idle_s > stall_timeout_s:
                return f"{self.depth} texts wait and none was finished for {idle_s:.0f} s"
        return None

    async def encode(self, texts: Sequence[Input], *, truncate: bool = True, skip_failed: bool = False) -> EncodedBatch:
        """Embed the texts of one request. A cancelled call drops those of its texts that nobody else waits for.

        Args:   skip_failed: embed the other texts if some fail.
        Raises: Overloaded: the queue is full or too slow, or texts still waited after `request_timeout_s`.
                NotReady: the pool is closing.
                InputError: a text failed, or with `skip_failed` all did; the rest of the request is dropped.
        """
        loop = asyncio.get_running_loop()
        done, count, asked_at = asyncio.Event(), len(texts), time.monotonic()

        def finished() -> None:
            self._completions.add(loop, done.set, texts=count, since=asked_at, now=time.monotonic())

        job = Job(texts, truncate, finished, skip_failed=skip_failed)
        if self._cache is not None:
            job.results = [self._cache.get(text, truncate=truncate) for text in texts]
        with self._lone.request():
            finished_here = await self._lone.encode(job, mean_s=self._mean_s) if self._is_at_rest else None
            if finished_here is None:
                await self._encode_by_workers(job, done)
            else:
                with self._wake:
                    self._learn(finished_here)
                    job.take([0], finished_here.result, took_s=finished_here.took_s)
        if (error := job.error) is not None:
            raise error
        return job.batch()

    @property
    def _is_at_rest(self) -> bool:
        """Whether every worker is idle and the pool accepts texts."""
        return self._idle == len(self._threads) and not self._is_closing

    async def _encode_by_workers(self, job: Job, done: asyncio.Event) -> None:
        self._admit(job)
        if job.works:
            try:
                await self._until(done, job)
            finally:
                with self._wake:
                    self._drop(job)

    def _admit(self, job: Job) -> None:
        with self._wake:
            if self._is_closing:
                raise NotReady("the service is shutting down")
            if not job.missing:
                return
            if self.depth >= self._max_queue_texts:  # not depth + count: small requests would keep large ones out
                raise Overloaded(
                    f"{self.depth} texts wait; requests are accepted while fewer than "
                    f"{self._max_queue_texts} do (CROSSLET_MAX_QUEUE_TEXTS)",
                    retry_after_s=self.retry_after_s,
                )
            added = self._queue.added_by(job) if self.depth else []
            drain_s = self._drain_s(added) if added else 0.0
            longest_s = self._request_timeout_s * LONGEST_WAIT
            if drain_s > longest_s:
                raise Overloaded(
                    f"the waiting texts and {len(added)} of the request would take about {drain_s:.2g} s; at most "
                    f"{longest_s:g} s of work may wait, half of CROSSLET_REQUEST_TIMEOUT_S: send fewer, or later",
                    retry_after_s=min(LONGEST_RETRY_S, math.ceil(drain_s - longest_s)),
                )
            if not self.depth:
                self._progress_at = job.admitted_at  # a stall is counted from now
            self._queue.push(job)
            self._batcher.join(job)
            self._wake.notify(len(job.to_start))

    async def _until(self, done: asyncio.Event, job: Job) -> None:
        """Wait for the job. At the time limit, drop its texts that are still queued; wait for those being encoded."""
        limit = asyncio.get_running_loop().call_later(self._request_timeout_s, done.set)
        try:
            await done.wait()
        finally:
            limit.cancel()
        if not job.works:
            return
        with self._wake:
            waiting = sum(not work.is_started for work in job.works)
            if waiting:
                self._drop(job)  # before `retry_after_s`: these texts no longer count
                raise Overloaded(
                    f"{waiting} of the request's {len(job.texts)} texts still waited for a worker after "
                    f"{self._request_timeout_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): send fewer at once",
                    retry_after_s=self.retry_after_s,
                )
        done.clear()  # workers have the rest and will set it again
        if job.works:
            await done.wait()

    def _work(self) -> None:
        finished: list[Finished] = []
        while True:
            with self._wake:
                taken: list[Work] | None = None  # a waiting worker must not keep a request alive
                while finished:
                    self._settle(finished.pop(0))
                taken = self._next()
            if taken is None:
                return
            if self._sharing is None or (taken and taken[0].is_apart):
                finished = [encode_alone(work, self._encode, self._cache) for work in taken]
            else:
                finished = self._share(taken, self._sharing)

    def _next(self) -> list[Work] | None:
        """Wait for and take the next texts; empty: the batcher is full; None: the pool closes. Delivers due answers."""
        if not self._can_start:
            self._completions.deliver()
        while not self._can_start:
            if self._is_closing and not self._queue.unstarted:
                self._wake.notify_all()  # let the other workers see it, too
                return None
            self._idle += 1
            self._wake.wait()
            self._idle -= 1
        taken = self._take()
        waiting = len(self._queue.jobs | self._batcher.jobs)
        if (taken and taken[0].is_apart) or self._completions.is_due(waiting=waiting, now=time.monotonic()):
            self._completions.deliver()
        return taken

    @property
    def _can_start(self) -> bool:
        """Whether there is work now: queued texts may have to wait for room in the batcher."""
        return bool(self._batcher) or (self._queue.unstarted > 0 and self._may_take(self._queue.first()))

    def _may_take(self, work: Work) -> bool:
        return self._sharing is None or work.is_apart or self._batcher.has_room(work)

    def _take(self) -> list[Work]:
        """A long text or a pair, or a worker's part of the short ones that the window has room for: perhaps none."""
        if not self._queue.unstarted:
            return []
        if self._sharing is None or (self._queue.first().is_apart and not self._batcher):
            return [self._queue.pop()]
        taken: list[Work] = []
        for _ in range(min(TAKEN_AT_ONCE, math.ceil(self._queue.unstarted / len(self._threads)))):
            work = self._queue.first()
            if work.is_apart or not self._batcher.has_room(work):
                break
            self._batcher.expect(work)
            taken.append(self._queue.pop())
        return taken

    def _share(self, taken: Sequence[Work], encoder: Encoder) -> list[Finished]:
        """Tokenise the texts, then run one pass over the text whose turn it is and those that may join it."""
        prepared, failed = tokenise_all(taken, encoder)
        with self._wake:
            for one in prepared:
                if one.work.wanted:
                    self._batcher.add(one)
                else:
                    self._batcher.remove(one.work)
                    self._queue.finish(one.work)
            for faulty in failed:
                self._batcher.remove(faulty.work)
            waiting = len(self._batcher) + self._queue.unstarted
            share = math.ceil(waiting / (1 + self._idle))  # leave work for idle workers
            together = self._batcher.take(encoder.room, mixed=encoder.mixes_lengths, most=share)
            if self._can_start:
                self._wake.notify()
        return failed + encode_together(together, encoder, self._cache)

    def _drop(self, job: Job) -> None:
        self._queue.drop(job)
        for work in self._batcher.leave(job):
            self._queue.finish(work)

    def _learn(self, finished: Finished) -> None:
        kind = finished.work.kind
        self._mean_s[kind] += 0.05 * (finished.took_s - self._mean_s[kind])

    def _settle(self, finished: Finished) -> None:
        self._progress_at = time.monotonic()
        self._learn(finished)
        for job, positions in self._queue.finish(finished.work).items():
            job.take(positions, finished.result, took_s=finished.took_s)
            if job.error is not None:
                self._drop(job)
            if not job.works:
                job.finished()
