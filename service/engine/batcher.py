"""Tokenised texts that wait for a pass, so that some may share it. Knows lengths; runs nothing."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Set
from dataclasses import dataclass
from itertools import islice

from service.engine.fair_queue import Job, Work
from service.model.tokenizer import TokenisedText

LOOK_AHEAD = 64  # texts; of so many sentences some have about the length of the oldest
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


class Batcher:
    """The texts that were taken from the queue, oldest first. Changed only under the pool's lock.

    Requests lead passes in turn, each with its oldest text, whatever its length: neither a rare length nor a request of
    one text beside one of hundreds waits for long.
    """

    def __init__(self) -> None:
        self._expected: set[Work] = set()  # all that are here or being tokenised
        self._chars = 0  # theirs
        self._waiting: dict[Work, Prepared] = {}  # ready for a pass
        self._by_length: defaultdict[int, dict[Work, Prepared]] = defaultdict(dict)  # the same
        self._turns: OrderedDict[Job, dict[Work, Prepared]] = OrderedDict()  # the same, by the requests that want them

    def __len__(self) -> int:
        """How many texts are ready for a pass."""
        return len(self._waiting)

    @property
    def jobs(self) -> Set[Job]:
        """The requests that wait for these texts."""
        return self._turns.keys()

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
        work = prepared.work
        self._waiting[work] = self._by_length[prepared.length][work] = prepared
        for job in work.positions:
            self._turns.setdefault(job, {})[work] = prepared

    def join(self, job: Job) -> None:
        """Let a request take turns that came later and wants texts that are here."""
        for work in job.works:
            if work in self._waiting:
                self._turns.setdefault(job, {})[work] = self._waiting[work]

    def leave(self, job: Job) -> list[Work]:
        """Forget a request that was dropped, and the texts that nobody else waits for: these."""
        unwanted = [work for work in self._turns.pop(job, {}) if not work.wanted]
        for work in unwanted:
            self.remove(work)
        return unwanted

    def remove(self, work: Work) -> None:
        """Forget an expected text."""
        self._expected.remove(work)
        self._chars -= work.size
        if work not in self._waiting:
            return
        length = self._waiting.pop(work).length
        del self._by_length[length][work]
        if not self._by_length[length]:
            del self._by_length[length]
        for job in work.positions:
            del self._turns[job][work]
            if not self._turns[job]:
                del self._turns[job]

    def take(self, room: Callable[[int], int], *, mixed: bool, most: int) -> list[Prepared]:
        """The text whose turn it is, and which go along; none where none waits.

        Args: room: how many texts of at most so many tokens a pass takes.
              mixed: whether others than those of its length go along: then the nearest first, of one length the oldest.
              most: texts in all.
        """
        if not self._turns:
            return []
        lead = next(iter(next(iter(self._turns.values())).values()))
        for job in lead.work.positions:
            self._turns.move_to_end(job)
        together, longest = [lead], lead.length
        nearest = sorted(self._by_length, key=lambda length: abs(length - lead.length)) if mixed else [lead.length]
        for length in nearest:
            others = (one for one in self._by_length[length].values() if one is not lead)
            found = list(islice(others, max(0, min(most, room(max(longest, length))) - len(together))))
            if found:
                together, longest = together + found, max(longest, length)
        for one in together:
            self.remove(one.work)
        return together
