import asyncio
import threading

import pytest

from service.errors import Overloaded
from service.runtime import LookupPool

pytestmark = pytest.mark.anyio


async def test_queue_is_bounded_and_cancelled_look_ups_never_run() -> None:
    readers = LookupPool(1, max_waiting=2)
    begun, released = threading.Event(), threading.Event()
    made: list[str] = []

    def busy() -> str:
        begun.set()
        released.wait()
        return "busy"

    first = asyncio.create_task(readers.run(busy))
    waiting = [asyncio.create_task(readers.run(lambda name=name: made.append(name))) for name in ("a", "b")]
    await asyncio.to_thread(begun.wait)
    with pytest.raises(Overloaded, match=r"2 look-ups wait; the limit is 2 \(CROSSLET_MAX_QUEUE_READS\)"):
        await readers.run(lambda: None)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    third = asyncio.create_task(readers.run(lambda: made.append("c")))
    await asyncio.sleep(0)
    released.set()
    assert await first == "busy"
    await asyncio.gather(waiting[1], third)
    assert made == ["b", "c"]
    readers.shutdown()


async def test_an_error_comes_back_and_its_place_is_free_again() -> None:
    readers = LookupPool(1, max_waiting=1)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            await readers.run(lambda: 1 // 0)
    readers.shutdown()
