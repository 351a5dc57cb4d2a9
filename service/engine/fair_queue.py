"""Queues the texts of requests fairly, each distinct text once. Runs nothing.

A pair of query and passage counts as a text here: it waits, is cut and fails like one, and its vector is its score.

B texts of a request, P pairs, D dims
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from service.engine.pairs import Input, PairInput, size_of
from service.errors import ServiceError
from service.model.encoder import Encoded
from service.model.stages import Stage

LONG_TEXT = 500  # characters or token ids: one takes up to a hundred times as long as a sentence

Kind = Literal["text", "long text", "pair", "long pair"]  # what takes about as long


def kind_of(text: Input) -> Kind:
    """Of which kind a text is."""
    if isinstance(text, PairInput):
        return "long pair" if size_of(text) > LONG_TEXT else "pair"
    return "long text" if len(text) > LONG_TEXT else "text"


@dataclass(frozen=True)
class EncodedBatch:
    """The vectors and the pairs' scores of one request, each in its order, and their cost.

    embeddings: (B, D) float32, of the texts that did not fail.  scores_P1: float32, of the pairs.
    failed: position -> error, of the others.
    tokens: read by the models, over all texts; repeated texts count each time.
    truncated: positions of the truncated texts, and of pairs whose passage was.
    queue_s: from admission until a worker takes the first text.
    inference_s: time spent encoding, summed over the distinct texts; a text shared by requests counts in each.
    is_query_cut: whether the query of a pair was.
    stages: what was done when; empty unless the pool notes it.
    """

    embeddings: npt.NDArray[np.float32]
    scores_P1: npt.NDArray[np.float32]
    tokens: int
    truncated: tuple[int, ...]
    queue_s: float
    inference_s: float
    failed: Mapping[int, ServiceError]
    is_query_cut: bool
    stages: Sequence[Stage] = ()


class InputError(Exception):
    """One text of a request failed. `position` lets the route name it."""

    def __init__(self, position: int, cause: ServiceError) -> None:
        super().__init__(str(cause))
        self.position = position
        self.cause = cause


class Work:
    """One text that is computed once for all who wait for it: requests, and positions in each.  size: in characters.

    is_apart: it never shares a pass, as long ones and pairs do not.
    """

    __slots__ = ("is_apart", "is_started", "kind", "positions", "size", "text", "truncate", "wanted")

    def __init__(self, text: Input, truncate: bool) -> None:
        self.text = text
        self.truncate = truncate
        self.kind = kind_of(text)
        self.is_apart = self.kind != "text"
        self.size = size_of(text)
        self.positions: dict[Job, list[int]] = {}
        self.wanted = 0  # number of positions
        self.is_started = False

    @property
    def waiting(self) -> int:
        """The number of positions that still wait; once it is started, one counts as being encoded."""
        return max(0, self.wanted - self.is_started)


@dataclass(frozen=True)
class Finished:
    """A text's result. took_s: the time it took; for a shared pass, its share."""

    work: Work
    result: Encoded | ServiceError
    took_s: float


class Job:
    """The state of one request. Once it is admitted, only the schedule changes it.

    skip_failed: the request fails only if all its texts fail.
    stages: where workers note what they do for it; None: nowhere.
    """

    def __init__(self, texts: Sequence[Input], truncate: bool, *, skip_failed: bool = False) -> None:
        self.texts = texts
        self.truncate = truncate
        self.skip_failed = skip_failed
        self.results: list[Encoded | None] = [None] * len(texts)
        self.failed: dict[int, ServiceError] = {}  # by position
        self.works: dict[Work, None] = {}  # its distinct texts without a result, as far as they are in the queue
        self.to_start: deque[Work] = deque()  # those that no worker had taken when they were queued, in order
        self.backlog: dict[Input, list[int]] = {}  # its other distinct texts, in order, with their positions
        self.admitted_at = time.monotonic()
        self.started_at: float | None = None
        self.inference_s = 0.0
        self.stages: list[Stage] | None = None

    @property
    def missing(self) -> list[int]:
        """The positions without a result."""
        return [position for position, result in enumerate(self.results) if result is None]

    @property
    def is_waiting(self) -> bool:
        """Whether a text still waits, or is being encoded."""
        return bool(self.works or self.backlog)

    @property
    def error(self) -> InputError | None:
        """The error that fails the request, or None."""
        if not self.failed or (self.skip_failed and len(self.failed) < len(self.texts)):
            return None
        first = min(self.failed)
        return InputError(first, self.failed[first])

    def begin(self, now: float) -> None:
        """Record when a worker takes its first text."""
        if self.started_at is None:
            self.started_at = now

    def take(self, positions: Sequence[int], result: Encoded | ServiceError, *, took_s: float) -> None:
        """Record the result of one of its texts, at all its positions."""
        self.inference_s += took_s
        if isinstance(result, ServiceError):
            self.failed |= dict.fromkeys(positions, result)
            return
        for position in positions:
            self.results[position] = result

    def batch(self) -> EncodedBatch:
        """Return the result. Every text must be done, and at least one must have a vector."""
        texts: list[Encoded] = []
        pairs: list[Encoded] = []
        for given, result in zip(self.texts, self.results, strict=True):
            if result is not None:
                (pairs if isinstance(given, PairInput) else texts).append(result)
        queued = [] if self.started_at is None else [Stage("queue", self.admitted_at, self.started_at)]
        return EncodedBatch(
            embeddings=np.array([text.vector for text in texts]),
            scores_P1=np.array([pair.vector for pair in pairs]),
            tokens=sum(encoded.tokens for encoded in (*texts, *pairs)),
            truncated=tuple(
                position for position, result in enumerate(self.results) if result is not None and result.truncated
            ),
            queue_s=0.0 if self.started_at is None else self.started_at - self.admitted_at,
            inference_s=self.inference_s,
            failed=dict(sorted(self.failed.items())),
            is_query_cut=any(pair.query_cut for pair in pairs),
            stages=() if self.stages is None else [*queued, *self.stages],
        )


class FairQueue:
    """Hands out one text of each job in turn, so that a large request does not hold up a small one.

    A request for a text that is already queued or being encoded joins it. Joining is the only way to jump the queue.
    Of a job at most `portion` distinct texts are in the queue; the others follow as these finish.
    """

    def __init__(self, *, portion: int) -> None:
        self.portion = portion
        self._turns: OrderedDict[Job, None] = OrderedDict()
        self._works: dict[tuple[Input, bool], Work] = {}  # waiting for a worker, or with one
        self.depth = 0  # texts that wait, equal ones counted each: each will take its place in an answer
        self.backlog = 0  # texts that follow, counted in the same way
        self.unstarted = 0  # distinct texts that no worker has taken: what is left to compute
        self.unstarted_of: Counter[Kind] = Counter()  # the same, by kind

    def added_by(self, job: Job) -> list[Input]:
        """Return the distinct texts that a job would add to the work."""
        missing = dict.fromkeys(job.texts[position] for position in job.missing)
        return [text for text in missing if (text, job.truncate) not in self._works]

    def push(self, job: Job) -> None:
        """Append a job that has at least one text without a result."""
        missing = job.missing
        for position in missing:
            job.backlog.setdefault(job.texts[position], []).append(position)
        self.backlog += len(missing)
        self.top_up(job)

    def top_up(self, job: Job) -> None:
        """Queue the texts that follow in a job, as far as its portion has room."""
        while job.backlog and len(job.works) < self.portion:
            text, positions = next(iter(job.backlog.items()))
            key = text, job.truncate
            work = self._works.get(key)
            if work is None:
                work = self._works[key] = Work(*key)
                self._count_unstarted(work, 1)
            work.positions[job] = positions
            job.works[work] = None
            if work.is_started:
                job.begin(job.admitted_at)
            else:
                job.to_start.append(work)
            self._count(work, len(positions))
            self.backlog -= len(positions)
            del job.backlog[text]  # last: `is_waiting` is read without the lock
        if job.to_start:
            self._turns[job] = None  # if it has a turn, it keeps it

    def first(self) -> Work:
        """Return the text whose turn it is. Requires `unstarted` > 0."""
        while True:
            job = next(iter(self._turns))
            while job.to_start and job.to_start[0].is_started:
                job.to_start.popleft()
            if job.to_start:
                return job.to_start[0]
            del self._turns[job]

    def pop(self) -> Work:
        """Take the text whose turn it is; its job moves to the back. Requires `unstarted` > 0."""
        work = self.first()
        job, _ = self._turns.popitem(last=False)
        job.to_start.popleft()
        if job.to_start:
            self._turns[job] = None
        self._count_unstarted(work, -1)
        self.depth -= work.waiting
        work.is_started = True
        self.depth += work.waiting
        now = time.monotonic()
        for waiting in work.positions:
            waiting.begin(now)
        return work

    def finish(self, work: Work) -> dict[Job, list[int]]:
        """Remove a started text. Return the positions that wait for it, by job."""
        del self._works[work.text, work.truncate]
        self.depth -= work.waiting
        for job in work.positions:
            del job.works[work]
        return work.positions

    def drop(self, job: Job) -> None:
        """Remove a job and its waiting texts, except those that other jobs want."""
        for work in job.works:
            self._count(work, -len(work.positions.pop(job)))
            if not work.wanted and not work.is_started:
                del self._works[work.text, work.truncate]
                self._count_unstarted(work, -1)
        job.works.clear()
        self.backlog -= sum(map(len, job.backlog.values()))
        job.backlog.clear()
        job.to_start.clear()  # breaks the cycle job -> text -> job: jobs are freed without the garbage collector
        self._turns.pop(job, None)

    def _count_unstarted(self, work: Work, more: int) -> None:
        self.unstarted += more
        self.unstarted_of[work.kind] += more

    def _count(self, work: Work, more: int) -> None:
        self.depth -= work.waiting
        work.wanted += more
        self.depth += work.waiting
