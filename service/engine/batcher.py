"""Batches tokenised texts for shared forward passes, by their lengths. Runs nothing."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from service.engine.fair_queue import Job, Work
from service.model.tokenizer import TokenisedText

LOOK_AHEAD = 64  # texts tokenised ahead: among so many, some are about as long as the oldest
LOOK_AHEAD_CHARS = 4096  # their total: later texts wait for them, and long texts gain little from sharing


@dataclass(frozen=True)
class Prepared:
    """A text that is ready for a forward pass. took_s: the time to tokenise it."""

    work: Work
    tokens: TokenisedText
    took_s: float

    @property
    def length(self) -> int:
        """The number of its tokens."""
        return len(self.tokens.input_ids)


class Batcher:
    """The texts taken from the queue, oldest first.

    Requests take turns: the oldest text of the next request leads a pass, and texts of similar length join it. So
    neither a rare length nor a small request beside a large one waits long.
    """

    def __init__(self) -> None:
        self._expected: set[Work] = set()  # being tokenised or ready
        self._chars = 0  # total characters of `_expected`
        self._waiting: dict[Work, Prepared] = {}  # ready for a pass
        self._by_length: defaultdict[int, dict[Work, Prepared]] = defaultdict(dict)  # `_waiting` by length
        self._turns: OrderedDict[Job, dict[Work, Prepared]] = OrderedDict()  # `_waiting` by request, next first

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, work: Work) -> bool:
        """Return whether a text may be taken from the queue. An empty batcher takes any text."""
        is_within = len(self._expected) < LOOK_AHEAD and self._chars + work.size <= LOOK_AHEAD_CHARS
        return is_within or not self._expected

    def expect(self, work: Work) -> None:
        """Reserve room for a text that is being tokenised."""
        self._expected.add(work)
        self._chars += work.size

    def add(self, prepared: Prepared) -> None:
        """Add an expected text that is tokenised now."""
        work = prepared.work
        self._waiting[work] = self._by_length[prepared.length][work] = prepared
        for job in work.positions:
            self._turns.setdefault(job, {})[work] = prepared

    def join(self, job: Job) -> None:
        """Let a later request take turns with those of its texts that are ready already."""
        for work in job.works:
            if work in self._waiting:
                self._turns.setdefault(job, {})[work] = self._waiting[work]

    def leave(self, job: Job) -> list[Work]:
        """Remove a dropped request. Remove and return those of its texts that no other request wants."""
        unwanted = [work for work in self._turns.pop(job, {}) if not work.wanted]
        for work in unwanted:
            self.remove(work)
        return unwanted

    def remove(self, work: Work) -> None:
        """Remove an expected or ready text."""
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
        """Take the texts of the next pass: the one whose turn it is, and those that join it. Empty if none is ready.

        Args: room: length in tokens -> how many texts up to that length fit in a pass.
              mixed: whether other lengths may join, the nearest first, and of each length the oldest.
              most: maximum number of texts.
        """
        if not self._turns:
            return []
        lead = next(iter(next(iter(self._turns.values())).values()))
        for job in lead.work.positions:
            self._turns.move_to_end(job)
        together, longest = [lead], lead.length
        nearest = sorted(self._by_length, key=lambda length: abs(length - lead.length)) if mixed else [lead.length]
        for length in nearest:
            others = (text for text in self._by_length[length].values() if text is not lead)
            joining = list(islice(others, max(0, min(most, room(max(longest, length))) - len(together))))
            if joining:
                together, longest = together + joining, max(longest, length)
        for text in together:
            self.remove(text.work)
        return together
