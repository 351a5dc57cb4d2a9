"""Takes finished requests back to the event loop, in bursts while many wait. Knows loops; knows nothing about texts."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

BURST = 32  # texts whose answers leave together, and how many requests must wait for that
LONGEST_HOLD = 0.5  # of the time that an answer has taken


@dataclass
class Completions:
    """Finished requests that the event loop has not heard of. Changed only under the pool's lock.

    Beside the model, each lone answer finds the caches full of the model's data: in a row they cost the event loop two
    thirds of what they cost one by one (docs/adr/0007-answers-in-bursts.md). Where few requests wait, none is held; nor
    one of many texts, for its answer takes memory.
    """

    _due_at: float = 0.0
    _texts: int = 0
    _held: list[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = field(default_factory=list)

    def add(
        self, loop: asyncio.AbstractEventLoop, finished: Callable[[], object], *, texts: int, since: float, now: float
    ) -> None:
        """Hold what a loop is to call when a request, of so many texts and asked `since`, has its vectors."""
        due_at = now + LONGEST_HOLD * (now - since)
        self._due_at = min(self._due_at, due_at) if self._held else due_at
        self._held.append((loop, finished))
        self._texts += texts

    def is_due(self, *, waiting: int, now: float) -> bool:
        """Whether to deliver. waiting: requests with texts that are in no pass yet."""
        return self._texts >= BURST or waiting < BURST or now >= self._due_at

    def deliver(self) -> None:
        """Wake each loop once for all that it is to call."""
        calls: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}
        for loop, finished in self._held:
            calls.setdefault(loop, []).append(finished)
        self._held.clear()
        self._texts = 0
        for loop, functions in calls.items():
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(_call_all, functions)


def _call_all(functions: list[Callable[[], object]]) -> None:
    for function in functions:
        function()
