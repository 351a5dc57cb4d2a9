"""Tokenised texts that wait for a pass, so that those of one length may share it. Knows lengths; runs nothing."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from service.fair_queue import Job, Work
from service.tokenizer import TokenisedText

LOOK_AHEAD = 64  # texts; of so many sentences about three have the length of the oldest
LOOK_AHEAD_CHARS = 4096  # of them all: what comes later waits for them, and long ones gain little by company


@dataclass(frozen=True)
class Prepared:
    """A text that is ready for a pass.  took_s: what tokenising it took."""

    work: Work
    tokens: TokenisedText
    took_s: float

    @property
    def length(self) -> int:
        """In tokens."""
        return len(self.tokens.input_ids)


class Window:
    """The texts that were taken from the queue, oldest first. Changed only under the pool's lock.

    Requests lead passes in turn, each with its oldest text, whatever its length: neither a rare length nor a request of
    one text beside one of hundreds waits for long.
    """

    def __init__(self) -> None:
        self._expected: set[Work] = set()  # all that are here or being tokenised
        self._chars = 0  # theirs
        self._waiting: OrderedDict[Work, Prepared] = OrderedDict()
        self._passes = 1

    def __len__(self) -> int:
        """How many texts are ready for a pass."""
        return len(self._waiting)

    @property
    def jobs(self) -> set[Job]:
        """The requests that wait for these texts."""
        return {job for work in self._waiting for job in work.positions}

    def has_room(self, work: Work) -> bool:
        """Whether a text may be taken from the queue; one is always let in."""
        is_within = len(self._expected) < LOOK_AHEAD and self._chars + work.size <= LOOK_AHEAD_CHARS
        return is_within or not self._expected

    def expect(self, work: Work) -> None:
        """Keep room for a text that is being tokenised."""
        self._expected.add(work)
        self._chars += work.size

    def add(self, prepared: Prepared) -> None:
        """Append an expected text."""
        self._waiting[prepared.work] = prepared

    def remove(self, work: Work) -> None:
        """Forget an expected text."""
        self._expected.remove(work)
        self._chars -= work.size
        self._waiting.pop(work, None)

    def unwanted(self) -> list[Work]:
        """The texts that nobody waits for any more."""
        return [work for work in self._waiting if not work.wanted]

    def take(self, room: Callable[[int], int]) -> list[Prepared]:
        """The text whose turn it is and the oldest of its length; none where none waits.  room: texts, by length."""
        if not self._waiting:
            return []
        for job in self.jobs:  # some have joined a text that was here
            job.turn = job.turn or self._passes
        self._passes += 1
        lead = min(self._waiting.values(), key=_turn)
        for job in lead.work.positions:
            job.turn = self._passes
        others = [one for one in self._waiting.values() if one.length == lead.length and one is not lead]
        together = [lead, *others[: room(lead.length) - 1]]
        for one in together:
            self.remove(one.work)
        return together


def _turn(prepared: Prepared) -> int:
    return min((job.turn for job in prepared.work.positions), default=sys.maxsize)
