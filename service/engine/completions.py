"""Hands finished requests to the event loop, in bursts while many requests wait."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

BURST = 32  # texts that complete together, and the number of waiting requests from which bursts are used
LONGEST_HOLD = 0.5  # as a share of the time the request has taken


@dataclass
class Completions:
    """Finished requests not yet handed to the event loop. Changed only under the pool's lock.

    Inference evicts Python's data from the CPU cache, so answering in bursts is cheaper
    (docs/adr/0007-answers-in-bursts.md). While few requests wait, none is held; nor is a request of many texts, whose
    answer takes memory.
    """

    _due_at: float = 0.0
    _texts: int = 0
    _held: list[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = field(default_factory=list)

    def add(
        self, loop: asyncio.AbstractEventLoop, finished: Callable[[], object], *, texts: int, since: float, now: float
    ) -> None:
        """Hold a finished request. finished: the callback for its loop.  texts: their number.  since: its start."""
        due_at = now + LONGEST_HOLD * (now - since)
        self._due_at = min(self._due_at, due_at) if self._held else due_at
        self._held.append((loop, finished))
        self._texts += texts

    def is_due(self, *, waiting: int, now: float) -> bool:
        """Return whether to deliver now. waiting: number of requests with texts not yet in a pass."""
        return self._texts >= BURST or waiting < BURST or now >= self._due_at

    def deliver(self) -> None:
        """Call all held callbacks, waking each loop once."""
        calls: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}
        for loop, finished in self._held:
            calls.setdefault(loop, []).append(finished)
        self._held.clear()
        self._texts = 0
        for loop, functions in calls.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_call_all, functions)


def _call_all(functions: list[Callable[[], object]]) -> None:
    for function in functions:
        function()
