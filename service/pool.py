"""Queues texts for the encoder, fairly, over worker threads. Knows texts and timings; knows nothing about HTTP or ONNX.

B texts of a request, D dims
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.encoder import Encoded, TextInput
from service.errors import InferenceFailed, NotReady, Overloaded, ServiceError

Encode = Callable[[TextInput, bool], Encoded]

LONGEST_RETRY_S = 60


@dataclass(frozen=True)
class EncodedBatch:
    """The vectors of one request, in its order, and what they cost.

    embeddings: (B, D) float32.  tokens: read by the model, over all texts.  truncated: positions of the cut texts.
    queue_s: from admission to the first text's start.  inference_s: time in workers, summed over the texts.
    """

    embeddings: npt.NDArray[np.float32]
    tokens: int
    truncated: tuple[int, ...]
    queue_s: float
    inference_s: float


class InputError(Exception):
    """One text of a request failed; carries its position so that the request can name it."""

    def __init__(self, position: int, cause: ServiceError) -> None:
        super().__init__(str(cause))
        self.position = position
        self.cause = cause


class Job:
    """The texts of one request on their way through the pool. Changed only under the pool's lock."""

    def __init__(self, inputs: Sequence[TextInput], truncate: bool, finished: Callable[[], object]) -> None:
        self.inputs = inputs
        self.truncate = truncate
        self.results: list[Encoded | None] = [None] * len(inputs)
        self.error: Exception | None = None
        self.next = 0  # position of the next text to hand out
        self.unfinished = len(inputs)
        self.admitted_at = time.monotonic()
        self.started_at = self.admitted_at
        self.inference_s = 0.0
        self.finished = finished  # called once, from a worker thread

    @property
    def waiting(self) -> int:
        """How many texts no worker has taken yet."""
        return len(self.inputs) - self.next

    def batch(self) -> EncodedBatch:
        """The result; every text is done."""
        encoded = [result for result in self.results if result is not None]
        return EncodedBatch(
            embeddings=np.stack([one.vector for one in encoded]),
            tokens=sum(one.tokens for one in encoded),
            truncated=tuple(position for position, one in enumerate(encoded) if one.truncated),
            queue_s=self.started_at - self.admitted_at,
            inference_s=self.inference_s,
        )


class FairQueue:
    """Hands out one text of each job in turn, so that a large request does not hold up a small one."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self.depth = 0  # texts waiting, over all jobs

    def push(self, job: Job) -> None:
        """Append a job with at least one text."""
        self._jobs.append(job)
        self.depth += job.waiting

    def pop(self) -> tuple[Job, int]:
        """The next text: its job and its position there; the job goes to the back of the line."""
        job = self._jobs.popleft()
        position = job.next
        job.next += 1
        self.depth -= 1
        if job.waiting:
            self._jobs.append(job)
        return job, position

    def discard(self, job: Job) -> None:
        """Drop a job's waiting texts; a job that has none is not in the queue."""
        if job.waiting:
            self._jobs.remove(job)
            self.depth -= job.waiting
            job.next = len(job.inputs)


class EncoderPool:
    """Worker threads over one bounded fair queue of texts.

    A text is encoded alone, so its vector never depends on its company. One failing text fails its own request.
    """

    def __init__(self, encode: Encode, *, workers: int, max_queue_texts: int) -> None:
        self._encode = encode
        self._max_queue_texts = max_queue_texts
        self._queue = FairQueue()
        self._wake = threading.Condition()  # guards the queue, every job in it, and the fields below
        self._is_closing = False
        self._mean_text_s = 0.002  # a first guess; follows the real times
        self._progress_at = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, name=f"encoder-{number}", daemon=True) for number in range(workers)
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish every admitted text, then end the workers. Blocks."""
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    @property
    def depth(self) -> int:
        """How many texts wait for a worker."""
        return self._queue.depth

    @property
    def workers(self) -> int:
        """How many texts are encoded at once."""
        return len(self._threads)

    def trouble(self, *, stall_timeout_s: float) -> str | None:
        """Why the pool cannot serve now, or None: a worker died, or texts wait and none gets finished."""
        dead = sum(not thread.is_alive() for thread in self._threads)
        if dead:
            return f"{dead} of {len(self._threads)} encoder workers are not running"
        with self._wake:
            idle_s = time.monotonic() - self._progress_at
            if self._queue.depth and idle_s > stall_timeout_s:
                return f"{self._queue.depth} texts wait and none was finished for {idle_s:.0f} s"
        return None

    async def encode(self, inputs: Sequence[TextInput], *, truncate: bool = True) -> EncodedBatch:
        """Embed the texts of one request. A cancelled call drops its waiting texts.

        Raises: Overloaded: the queue has no room.  NotReady: the pool is closing.
                InputError: a text failed; the rest of the request is dropped.
        """
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        job = Job(inputs, truncate, finished=lambda: loop.call_soon_threadsafe(done.set))
        self._admit(job)
        try:
            await done.wait()
        finally:
            with self._wake:
                self._queue.discard(job)
        if job.error is not None:
            raise job.error
        return job.batch()

    def _admit(self, job: Job) -> None:
        count = len(job.inputs)
        with self._wake:
            if self._is_closing:
                raise NotReady("the service is shutting down")
            if self._queue.depth + count > self._max_queue_texts:
                raise Overloaded(
                    f"the queue holds {self._queue.depth} texts and the request adds {count}; "
                    f"the limit is {self._max_queue_texts} (CROSSLET_MAX_QUEUE_TEXTS)",
                    retry_after_s=self._retry_after_s(),
                )
            if not self._queue.depth:
                self._progress_at = job.admitted_at  # the wait starts now, not when the last request ended
            self._queue.push(job)
            self._wake.notify(count)

    def _retry_after_s(self) -> int:
        drain_s = self._queue.depth * self._mean_text_s / max(1, len(self._threads))
        return min(LONGEST_RETRY_S, max(1, math.ceil(drain_s)))

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue.depth or self._is_closing)
                if not self._queue.depth:
                    return
                job, position = self._queue.pop()
                if position == 0:
                    job.started_at = time.monotonic()
            self._run(job, position)

    def _run(self, job: Job, position: int) -> None:
        started_at = time.monotonic()
        result: Encoded | Exception
        try:
            result = self._encode(job.inputs[position], job.truncate)
        except ServiceError as exc:
            result = InputError(position, exc)
        except Exception as exc:  # a worker outlives any text
            result = InputError(position, InferenceFailed(f"the encoder failed ({type(exc).__name__})"))
            result.__cause__ = exc
        with self._wake:
            self._progress_at = time.monotonic()
            self._settle(job, position, result, took_s=self._progress_at - started_at)

    def _settle(self, job: Job, position: int, result: Encoded | Exception, *, took_s: float) -> None:
        if job.error is not None:
            return  # the request has failed already
        job.inference_s += took_s
        self._mean_text_s += 0.05 * (took_s - self._mean_text_s)
        job.unfinished -= 1
        if isinstance(result, Exception):
            job.error = result
            self._queue.discard(job)
        else:
            job.results[position] = result
        if job.error is not None or not job.unfinished:
            _call_if_open(job.finished)


def _call_if_open(finished: Callable[[], object]) -> None:
    try:
        finished()
    except RuntimeError:  # the event loop has ended: nobody waits any more
        return
