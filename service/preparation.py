"""Prepares requests on one thread: parses long bodies, splits documents.

Work of many steps takes turns, so that a long request delays no other. Searches have their own threads.
"""

import asyncio
import math
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

TURN_S = 0.02
LONG_BYTES = 64 * 1024  # of a body that is parsed on the thread, not on the event loop: 4 MB may take a second

T = TypeVar("T")
Steps = Generator[None, None, T]  # yields every few milliseconds


class Preparation:
    """The thread. Call it on one event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="preparation")

    async def call(self, call: Callable[[], T]) -> T:
        """Run `call` on the thread and return its result. Cancelled while it waits, it never runs."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def run(self, steps: Steps[T], *, limit_s: float = math.inf) -> T:
        """Run steps turn by turn and return their result. Cancelled, they end with the turn.

        Raises: TimeoutError: they took more than `limit_s`, without the turns of others.
        """
        results: list[T] = []

        def turn() -> float:
            started_at = time.monotonic()
            try:
                while time.monotonic() < started_at + TURN_S:
                    next(steps)
            except StopIteration as stop:
                results.append(stop.value)
            return time.monotonic() - started_at

        while not results:
            if limit_s <= 0:
                raise TimeoutError
            limit_s -= await self.call(turn)
        return results[0]

    def shutdown(self) -> None:
        """Finish what was handed over. Blocks."""
        self._thread.shutdown()
