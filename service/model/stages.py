"""Times the stages of what a thread does, for traces. Where nobody collects them, a stage costs half a microsecond."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
StageName = Literal["queue", "tokenise", "inference", "search", "store"]


@dataclass(frozen=True)
class Stage:
    """A part of the work for a request; times of `time.monotonic`."""

    name: StageName
    started_at: float
    ended_at: float


class _Thread(threading.local):
    stages: list[Stage] | None = None  # where to collect


_thread = _Thread()


class StageTimer:
    """A context in which the thread is at a stage."""

    __slots__ = ("_name", "_started_at")

    def __init__(self, name: StageName) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._started_at = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if _thread.stages is not None:
            _thread.stages.append(Stage(self._name, self._started_at, time.monotonic()))


def collecting(stages: list[Stage], call: Callable[[], T]) -> T:
    """Return what `call` returns; append its stages in this thread, also if it raises."""
    _thread.stages = stages
    try:
        return call()
    finally:
        _thread.stages = None
