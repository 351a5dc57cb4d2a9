"""Holds the process under a ceiling: frees what it can, then refuses. Knows bytes; knows no text and no document."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.errors import Overloaded, StartError, StorageFull, TooLarge
from service.process.memory import resident_bytes, return_free_memory

READ_INTERVAL_S = 0.02  # resident bytes are read at most so often
RELEASE_INTERVAL_S = 1.0  # giving memory back takes milliseconds
RETRY_AFTER_S = 1  # bodies leave memory with their answers, within a second or so
# At most, as `benchmarks/memory.py` measures them: the tokenizer's share for a character of its text, and an answer's
# share for one dimension of a vector, as a number and as decimals.
CHARACTER_BYTES = 400
DIMENSION_BYTES = 16
# A service that starts without would refuse all requests: 10,000 characters, code that the first ones map, and what the
# passes before have left.
LEAST_ROOM_BYTES = 16_000_000
SERVING_SHARE = 4  # one part in so many of what the start leaves is for searches, not for documents

logger = logging.getLogger(__name__)


class MemoryBudget:
    """Compares what is resident, and what is asked for, with the ceiling. Safe to call from many threads at once."""

    def __init__(
        self,
        limit_bytes: int,
        *,
        dim: int,
        release: Callable[[], object],
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """limit_bytes: 0 = no ceiling.  release: drops what can be computed again.  resident: what is taken now."""
        self._limit_bytes = limit_bytes
        self._dim = dim
        self._release = release
        self._resident = resident
        self._start_bytes = self._working_bytes = self._serving_bytes = 0
        self._tokenising: list[int] = []  # what the longest text of each request takes when its turn comes
        self._lock = threading.Lock()
        self._read_at = self._released_at = float("-inf")
        self._last_bytes = 0
        self._unseen_bytes = 0  # of bodies let in since: they may not be taken yet
        self._least_bytes = math.inf  # that the process has been seen to take

    def reserve(self, working_bytes: int) -> None:
        """Keep this much for the workers from now on, and count what is taken now as taken even while it is not mapped.

        Call it when what the start alone needed is given back.

        Raises: StartError: the ceiling leaves no room for a request beside that and what is taken already.
        """
        self._working_bytes = working_bytes
        taken_bytes = self._start_bytes = self._read()
        needed_bytes = working_bytes + LEAST_ROOM_BYTES
        if self._limit_bytes and taken_bytes + needed_bytes > self._limit_bytes:
            raise StartError(
                f"the service takes {taken_bytes} bytes at its start and its workers need {needed_bytes} more; "
                f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET)"
            )
        self._serving_bytes = max(0, self._limit_bytes - taken_bytes - working_bytes) // SERVING_SHARE

    def check_body(self, more_bytes: int, held_bytes: int = 0) -> None:
        """Let so much of a request's body into memory, or of what it is parsed to. held_bytes: of it already.

        Raises: TooLarge: it would never fit.  Overloaded: it would not fit now.
        """
        if not (more_bytes and self._limit_bytes):  # what has no body is never refused for others'
            return
        self._check(more_bytes, held_bytes + more_bytes, what="body needs", retry_after_s=RETRY_AFTER_S)
        with self._lock:
            self._unseen_bytes += more_bytes

    @contextmanager
    def texts(self, count: int, *, waiting: int, longest_chars: int, retry_after_s: int) -> Iterator[None]:
        """Let texts into the queue, and keep memory to tokenise the longest until they are answered.

        Args:   waiting: texts that are in it.  longest_chars: of those to tokenise; long ones take turns.
        Raises: TooLarge: they would never fit.  Overloaded: they would not fit now.
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
                f"the request's {what} {alone_bytes} bytes of memory, more than the service has when it is "
                f"idle; the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET): send fewer texts, or shorter ones"
            )
        raise Overloaded(
            f"the service would take {total_bytes} bytes of memory; "
            f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET)",
            retry_after_s=retry_after_s,
        )

    def check_documents(self, growth_bytes: int) -> None:
        """Let vectors into the index, so that texts can still be embedded beside it.

        Raises: StorageFull: they would not fit.
        """
        total_bytes = self._over(growth_bytes + self._serving_bytes)
        if total_bytes:
            raise StorageFull(
                f"with these documents, and room for requests, the service would take {total_bytes} bytes of memory; "
                f"the limit is {self._limit_bytes} (CROSSLET_MEMORY_BUDGET); nothing was changed"
            )

    def _over(self, wanted_bytes: int) -> int:
        """What would be taken, if that is over the ceiling even after everything was freed; otherwise 0."""
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
