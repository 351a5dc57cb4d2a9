"""Runs blocking look-ups on a few threads behind a bounded queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.errors import Overloaded

T = TypeVar("T")
RETRY_S = 1


class LookupPool:
    """Threads for look-ups. Call `run` on one event loop."""

    def __init__(self, threads: int, *, max_waiting: int) -> None:
        """max_waiting: maximum number of queued look-ups."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="reader")
        self._threads = threads
        self._max_waiting = max_waiting
        self._pending = 0  # queued or running

    @property
    def waiting(self) -> int:
        """The number of queued look-ups."""
        return max(0, self._pending - self._threads)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on a thread and return its result. Cancelled while queued, it never runs.

        Raises: Overloaded: too many look-ups wait.
        """
        if self.waiting >= self._max_waiting:
            raise Overloaded(
                f"{self.waiting} look-ups wait; the limit is {self._max_waiting} (CROSSLET_MAX_QUEUE_READS)",
                retry_after_s=RETRY_S,
            )
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        finally:
            self._pending -= 1

    def shutdown(self) -> None:
        """Finish queued and running look-ups. Blocks."""
        self._executor.shutdown()
