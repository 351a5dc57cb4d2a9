"""The thread that keeps what is derived in order: folds a store's log, and renews indexes, one at a time."""

import threading
from collections.abc import Callable

RETRY_S = 5.0  # after a step that is to be repeated
FOLD_S = 30.0  # between folds of the store's log: soon after the last write its file is whole


class Upkeep:
    """A thread for all collections of a store. It runs while there is a step."""

    def __init__(self, fold_log: Callable[[], None]) -> None:
        self._fold_log = fold_log
        self._steps: list[Callable[[], bool]] = []
        self._due = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, step: Callable[[], bool]) -> None:
        """Call `step` now and then, and after `wake`. It never raises; it returns whether to call it again soon."""
        self._steps = [*self._steps, step]
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="index", daemon=True)
            self._thread.start()

    def remove(self, step: Callable[[], bool]) -> None:
        """Do not begin `step` again. After the last one, wait until the thread has ended."""
        self._steps = [one for one in self._steps if one != step]
        if not self._steps and self._thread is not None:
            self._due.set()
            self._thread.join()
            self._thread = None

    def wake(self) -> None:
        """A step has something to do."""
        self._due.set()

    def _run(self) -> None:
        wait_s = FOLD_S
        while self._steps:
            self._due.wait(wait_s)
            self._due.clear()
            if self._steps:
                self._fold_log()
            is_unfinished = [step() for step in self._steps]
            wait_s = RETRY_S if any(is_unfinished) else FOLD_S
