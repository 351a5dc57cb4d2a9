"""Tokenised texts that wait for a pass, so that those of one length may share it. Knows lengths; runs nothing."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from service.fair_queue import Job, Work
from service.tokenizer import TokenisedText

LOOK_AHEAD = 32  # texts; of so many sentences about three have the length of the oldest


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

    The oldest always goes with the next pass, so that none waits for long, whatever its length.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Work, Prepared] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def jobs(self) -> set[Job]:
        """The requests that wait for these texts."""
        return {job for work in self._waiting for job in work.positions}

    def add(self, prepared: Prepared) -> None:
        """Append a text."""
        self._waiting[prepared.work] = prepared

    def forget_unwanted(self) -> list[Work]:
        """Remove the texts that nobody waits for any more; gives them."""
        unwanted = [work for work in self._waiting if not work.wanted]
        for work in unwanted:
            del self._waiting[work]
        return unwanted

    def take(self, room: Callable[[int], int]) -> list[Prepared]:
        """The oldest text and the oldest of its length; none where none waits.  room: texts in a pass, by length."""
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None:
            return []
        alike = [one for one in self._waiting.values() if one.length == oldest.length][: room(oldest.length)]
        for one in alike:
            del self._waiting[one.work]
        return alike
