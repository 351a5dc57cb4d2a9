"""Tells event loops which requests are finished."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiter:
    """A request's coroutine, which waits on `loop` for `done`."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Event


def wake(waiters: Sequence[Waiter]) -> None:
    """Set the events of finished requests, waking each loop once. Call it from any thread."""
    done: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for waiter in waiters:
        done.setdefault(waiter.loop, []).append(waiter.done)
    for loop, events in done.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        event.set()
