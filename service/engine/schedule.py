"""Decides which texts the workers encode next, within limits on queue and time. Runs no model."""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from service.engine.batcher import Batcher, Prepared
from service.engine.fair_queue import FairQueue, Finished, Job, Kind, Work, kind_of
from service.engine.pairs import Input
from service.errors import NotReady, Overloaded
from service.model.encoder import Encoder

TAKEN_AT_ONCE = 16  # texts tokenised before the next pass: the first must not wait for hundreds
PORTION = 4  # a request has a fourth of the queue's places at once: a large one must not keep others out
LONGEST_RETRY_S = 60
LONGEST_WAIT = 0.5  # of the request timeout: in a fair queue requests finish together, so late ones would all time out


@dataclass(frozen=True)
class Waiter:
    """A request's coroutine, which waits on `loop` for `done`."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Event


class Schedule:
    """The texts and requests of a pool behind one lock, which every method takes that changes or compares them.

    `depth`, `backlog`, `is_at_rest` and `mean_s` read single numbers without it.
    """

    def __init__(self, encoder: Encoder, *, workers: int, max_queue_texts: int, request_timeout_s: float) -> None:
        """encoder: tells which texts may share a pass."""
        self._encoder = encoder
        self._workers = workers
        self._max_queue_texts = max_queue_texts
        self._request_timeout_s = request_timeout_s
        self._changed = threading.Condition()
        self._queue = FairQueue(portion=max(TAKEN_AT_ONCE * workers, max_queue_texts // PORTION))
        self._batcher = Batcher()
        self._waiters: dict[Job, Waiter] = {}
        self._is_closing = False
        self._idle = 0  # workers that wait for something to do
        self._mean_s: dict[Kind, float] = {"text": 0.002, "long text": 0.02, "pair": 0.01, "long pair": 0.05}  # guesses
        self._progress_at = time.monotonic()

    @property
    def depth(self) -> int:
        """The number of admitted texts that wait, for a pass or for an equal text; of a large request its portion."""
        return self._queue.depth + len(self._batcher)

    @property
    def backlog(self) -> int:
        """The number of texts of large requests that follow."""
        return self._queue.backlog

    @property
    def is_at_rest(self) -> bool:
        """Whether every worker is idle and the pool accepts texts."""
        return self._idle == self._workers and not self._is_closing

    @property
    def retry_after_s(self) -> int:
        """Whole seconds until the texts waiting now should be done."""
        with self._changed:
            return min(LONGEST_RETRY_S, max(1, math.ceil(self._drain_s())))

    def mean_s(self, kind: Kind) -> float:
        """The mean time that a text of the kind takes."""
        return self._mean_s[kind]

    def stall(self, *, longer_than_s: float) -> str | None:
        """Return what stalls if texts wait and none was finished for so long, or None."""
        with self._changed:
            idle_s = time.monotonic() - self._progress_at
            if self.depth and idle_s > longer_than_s:
                return f"{self.depth} texts wait and none was finished for {idle_s:.0f} s"
        return None

    def close(self) -> None:
        """Admit no more. `next` gives the admitted texts, then None."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def admit(self, job: Job, waiter: Waiter) -> None:
        """Queue a request's texts that have no result, and wake workers for them.

        Raises: Overloaded: the queue is full or too slow.  NotReady: the pool is closing.
        """
        with self._changed:
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
            self._check_time(job)
            if not self.depth:
                self._progress_at = job.admitted_at  # a stall is counted from now
            self._waiters[job] = waiter
            self._queue.push(job)
            self._batcher.join(job)
            self._changed.notify(len(job.to_start))

    def _check_time(self, job: Job) -> None:
        added = self._queue.added_by(job) if self.depth else []
        is_large = len(added) > self._queue.portion  # it takes turns with all texts of others, not with a portion
        others = (text for other in self._waiters for text in other.backlog) if is_large else ()
        drain_s = self._drain_s([*added, *others]) if added else 0.0
        longest_s = self._request_timeout_s * LONGEST_WAIT
        if drain_s > longest_s:
            raise Overloaded(
                f"the waiting texts and {len(added)} of the request would take about {drain_s:.2g} s; at most "
                f"{longest_s:g} s of work may wait, half of CROSSLET_REQUEST_TIMEOUT_S: send fewer, or later",
                retry_after_s=min(LONGEST_RETRY_S, math.ceil(drain_s - longest_s)),
            )

    def _drain_s(self, more: Sequence[Input] = ()) -> float:
        """Estimate how long the workers need for the waiting texts and `more`."""
        counts = self._queue.unstarted_of + Counter(map(kind_of, more))
        return sum(self._mean_s[kind] * count for kind, count in counts.items()) / max(1, self._workers)

    def drop(self, job: Job) -> None:
        """Remove a request and those of its waiting texts that no other wants."""
        with self._changed:
            self._waiters.pop(job, None)
            self._queue.drop(job)
            for work in self._batcher.leave(job):
                self._queue.finish(work)

    def give_up(self, job: Job) -> None:
        """Drop a request whose time is over, unless workers have all the rest of its texts.

        Raises: Overloaded: it was dropped.
        """
        with self._changed:
            waiting = sum(not work.is_started for work in job.works) + len(job.backlog)
            if waiting:
                self.drop(job)  # before `retry_after_s`: these texts no longer count
                raise Overloaded(
                    f"{waiting} of the request's {len(job.texts)} texts still waited for a worker after "
                    f"{self._request_timeout_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): send fewer at once",
                    retry_after_s=self.retry_after_s,
                )

    def record(self, job: Job, finished: Finished) -> None:
        """Record the result of a request of one text that was never queued."""
        with self._changed:
            self._learn(finished)
            job.take([0], finished.result, took_s=finished.took_s)

    def next(self, finished: list[Finished]) -> list[Work] | None:
        """Record results, emptying the list; then wait for the next texts to tokenise or to encode alone.

        Empty: the batcher is full.  None: the pool closes.
        """
        with self._changed:
            self._settle(finished)
            while not self._can_start:
                if self._is_closing and not self._queue.unstarted:
                    self._changed.notify_all()  # let the other workers see it, too
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._take()

    def share(self, prepared: Sequence[Prepared], failed: Sequence[Finished]) -> list[Prepared]:
        """Add tokenised texts; return the texts of the next pass. failed: those that could not be tokenised."""
        with self._changed:
            for text in prepared:
                if text.work.wanted:
                    self._batcher.add(text)
                else:
                    self._batcher.remove(text.work)
                    self._queue.finish(text.work)
            for faulty in failed:
                self._batcher.remove(faulty.work)
            waiting = len(self._batcher) + self._queue.unstarted
            most = math.ceil(waiting / (1 + self._idle))  # leave work for idle workers
            together = self._batcher.take(self._encoder.room, mixed=self._encoder.mixes_lengths, most=most)
            if self._can_start:
                self._changed.notify()
            return together

    @property
    def _can_start(self) -> bool:
        """Whether there is work now: queued texts may have to wait for room in the batcher."""
        if self._batcher or not self._queue.unstarted:
            return bool(self._batcher)
        first = self._queue.first()
        return first.is_apart or self._batcher.has_room(first)

    def _take(self) -> list[Work]:
        """A long text or a pair, or a worker's part of the short ones that the batcher has room for: perhaps none."""
        if not self._queue.unstarted:
            return []
        if self._queue.first().is_apart and not self._batcher:
            return [self._queue.pop()]
        taken: list[Work] = []
        for _ in range(min(TAKEN_AT_ONCE, math.ceil(self._queue.unstarted / self._workers))):
            work = self._queue.first()
            if work.is_apart or not self._batcher.has_room(work):
                break
            self._batcher.expect(work)
            taken.append(self._queue.pop())
        return taken

    def _settle(self, finished: list[Finished]) -> None:
        """Give results to their requests and wake those that are complete, all with one call a loop."""
        complete: list[Waiter] = []
        while finished:  # emptied: a waiting worker must not keep a request alive
            text = finished.pop(0)
            self._progress_at = time.monotonic()
            self._learn(text)
            for job, positions in self._queue.finish(text.work).items():
                job.take(positions, text.result, took_s=text.took_s)
                if job.error is None and job.backlog and len(job.works) <= self._queue.portion // 2:
                    self._queue.top_up(job)
                    self._batcher.join(job)
                    self._changed.notify()
                if job.error is not None or not job.is_waiting:
                    complete.append(self._waiters.pop(job))
                    self.drop(job)
        wake(complete)

    def _learn(self, finished: Finished) -> None:
        kind = finished.work.kind
        self._mean_s[kind] += 0.05 * (finished.took_s - self._mean_s[kind])


def wake(waiters: Sequence[Waiter]) -> None:
    """Set the events of finished requests, waking each loop once. Call it from any thread."""
    done: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for waiter in waiters:
        done.setdefault(waiter.loop, []).append(waiter.done)
    for loop, events in done.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        event.set()
