"""Keeps the process under a memory ceiling: first frees caches, then refuses requests."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.errors import Overloaded, StartError, StorageFull, TooLarge
from service.process.memory import resident_bytes, return_free_memory

READ_INTERVAL_S = 0.02  # minimum time between two readings of the resident bytes
RELEASE_INTERVAL_S = 1.0  # returning memory takes milliseconds
RETRY_AFTER_S = 1  # bodies are freed when they are answered, within about a second
# Upper bounds, measured by `benchmarks/memory.py`.
CHARACTER_BYTES = 400  # tokenising: per character of text
DIMENSION_BYTES = 16  # an answer: per dimension of a vector, as a number and as decimals
# With less than this the service would refuse every request. It covers 10,000 characters, the code that the first
# requests map, and what earlier forward passes leave behind.
LEAST_ROOM_BYTES = 16_000_000
SERVING_SHARE = 4  # 1/4 of the memory left after the start is kept for requests, the rest is for documents

logger = logging.getLogger(__name__)


class MemoryBudget:
    """Compares resident plus requested memory with the ceiling. Thread-safe."""

    def __init__(
        self,
        limit_bytes: int,
        *,
        dim: int,
        release: Callable[[], object],
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """limit_bytes: 0 = no ceiling.  release: drops caches.  resident: returns the bytes in use now."""
        self._limit_bytes = limit_bytes
        self._dim = dim
        self._release = release
        self._resident = resident
        self._start_bytes = self._working_bytes = self._serving_bytes = 0
        self._tokenising: list[int] = []  # per request: bytes to tokenise its longest text
        self._lock = threading.Lock()
        self._read_at = self._released_at = float("-inf")
        self._last_bytes = 0
        self._unseen_bytes = 0  # bodies admitted since the last reading; they may not be resident yet
        self._least_bytes = math.inf  # the smallest reading so far

    def reserve(self, working_bytes: int) -> None:
        """Reserve memory for the workers; what is resident now becomes the minimum of all later readings.

        Call it once memory that only the start needed has been returned.

        Raises: StartError: the ceiling leaves no room for a request.
        """
        self._working_bytes = working_bytes
        taken_bytes = self._start_bytes = self._read()
        needed_bytes = working_bytes + LEAST_ROOM_BYTES
        if self._limit_bytes and taken_bytes + needed_bytes > self._limit_bytes:
            raise StartError(
                f"the service takes {taken_bytes} bytes after its start and its workers need {needed_bytes} more; "
                f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET)"
            )
        self._serving_bytes = max(0, self._limit_bytes - taken_bytes - working_bytes) // SERVING_SHARE

    def check_body(self, more_bytes: int, held_bytes: int = 0) -> None:
        """Admit `more_bytes` of a request's body, raw or parsed, beside the `held_bytes` it already takes.

        Raises: TooLarge: it would never fit.  Overloaded: it does not fit now.
        """
        if not (more_bytes and self._limit_bytes):  # a request without a body is always admitted
            return
        self._check(more_bytes, held_bytes + more_bytes, what="body needs", retry_after_s=RETRY_AFTER_S)
        with self._lock:
            self._unseen_bytes += more_bytes

    @contextmanager
    def texts(self, count: int, *, waiting: int, longest_chars: int, retry_after_s: int) -> Iterator[None]:
        """Admit texts to the queue, and reserve memory to tokenise the longest one until they are answered.

        Args:   waiting: texts queued already.  longest_chars: length of the longest text; long ones take turns.
        Raises: TooLarge: they would never fit.  Overloaded: they do not fit now.
        """
        text_bytes, vector_bytes = longest_chars * CHARACTER_BYTES, self._dim * DIMENSION_BYTES
        self._check(
            max(0, text_bytes - self._tokenising_bytes) + (waiting + count) * vector_bytes,
            text_bytes + count * vector_bytes,
            what="texts need",
            retry_after_s=retry_after_s,
        )
        with self._lock:
            self._tokenising.append(text_bytes)
        try:
            yield
        finally:
            with self._lock:
                self._tokenising.remove(text_bytes)

    def _check(self, wanted_bytes: int, alone_bytes: int, *, what: str, retry_after_s: int) -> None:
        total_bytes = self._over(wanted_bytes)
        if not total_bytes:
            return
        if self._least_bytes + self._working_bytes + alone_bytes > self._limit_bytes:
            raise TooLarge(
                f"the request's {what} {alone_bytes} bytes of memory, more than the service has when "
                f"idle; the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET): send fewer or shorter texts"
            )
        raise Overloaded(
            f"the service would take {total_bytes} bytes of memory; "
            f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET)",
            retry_after_s=retry_after_s,
        )

    def check_documents(self, growth_bytes: int) -> None:
        """Check that the index may grow by `growth_bytes` and still leave room to embed texts.

        Raises: StorageFull: it may not.
        """
        total_bytes = self._over(growth_bytes + self._serving_bytes)
        if total_bytes:
            raise StorageFull(
                f"with these documents and room for requests, the service would take {total_bytes} bytes of memory; "
                f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET); nothing was changed"
            )

    def _over(self, wanted_bytes: int) -> int:
        """Return the total if it exceeds the ceiling even after freeing caches, otherwise 0."""
        if not self._limit_bytes:
            return 0
        with self._lock:
            extra_bytes = self._working_bytes + self._tokenising_bytes + wanted_bytes
            now = time.monotonic()
            if now - self._read_at >= READ_INTERVAL_S:
                self._read_at, self._last_bytes, self._unseen_bytes = now, self._read(), 0
            total_bytes = self._last_bytes + self._unseen_bytes + extra_bytes
            if total_bytes > self._limit_bytes and now - self._released_at >= RELEASE_INTERVAL_S:
                self._released_at = now
                self._release()
                return_free_memory()
                self._read_at, self._last_bytes, self._unseen_bytes = now, self._read(), 0
                logger.warning("memory is short", extra={"resident_bytes": self._last_bytes})
                total_bytes = self._last_bytes + extra_bytes
        return total_bytes if total_bytes > self._limit_bytes else 0

    @property
    def _tokenising_bytes(self) -> int:
        return max(self._tokenising, default=0)

    def _read(self) -> int:
        taken_bytes = max(self._resident(), self._start_bytes)
        self._least_bytes = min(self._least_bytes, taken_bytes)
        return taken_bytes
