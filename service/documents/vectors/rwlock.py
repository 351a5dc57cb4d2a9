"""A lock that many readers share and one writer holds alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """A waiting writer takes precedence over new readers, so that readers cannot starve it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writers = 0  # waiting or active
        self._is_writing = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._writers += 1
            self._changed.wait_for(lambda: not self._readers and not self._is_writing)
            self._is_writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._is_writing = False
                self._changed.notify_all()
