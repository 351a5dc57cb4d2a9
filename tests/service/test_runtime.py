import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from service.errors import Overloaded
from service.runtime import LookupPool, Preparation, Steps

PATIENCE_S = 60


def endless(counted: list[int]) -> Steps[None]:
    while True:
        counted[0] += 1
        yield


@pytest.fixture
def preparation() -> Iterator[Preparation]:
    made = Preparation()
    yield made
    made.shutdown()


def test_a_short_request_gets_its_turn_beside_a_long_one(preparation: Preparation) -> None:
    is_over = []

    def until_over() -> Steps[str]:
        latest = time.monotonic() + PATIENCE_S
        while not is_over and time.monotonic() < latest:
            yield
        return "done" if is_over else "never had company"

    async def scenario() -> str:
        long = asyncio.create_task(preparation.run(until_over()))
        await asyncio.sleep(0)  # it is the first
        await preparation.call(lambda: is_over.append(True))
        return await long

    assert asyncio.run(scenario()) == "done"


def test_steps_end_at_their_time_limit_and_free_the_thread(preparation: Preparation) -> None:
    async def scenario() -> str:
        with pytest.raises(TimeoutError):
            await preparation.run(endless([0]), limit_s=0.05)
        return await asyncio.wait_for(preparation.call(lambda: "free"), PATIENCE_S)

    assert asyncio.run(scenario()) == "free"


def test_the_turns_of_others_do_not_count_as_time(preparation: Preparation) -> None:
    def two_steps() -> Steps[str]:
        time.sleep(0.03)  # longer than a turn
        yield
        return "done"

    async def scenario() -> str:
        busy = asyncio.create_task(preparation.call(lambda: time.sleep(2)))
        waiting = asyncio.create_task(preparation.run(two_steps(), limit_s=1.5))
        await busy
        return await waiting

    assert asyncio.run(scenario()) == "done"


def test_cancelled_steps_end_with_their_turn(preparation: Preparation) -> None:
    counted = [0]

    async def scenario() -> tuple[int, int]:
        running = asyncio.create_task(preparation.run(endless(counted)))
        await asyncio.sleep(0)  # its first turn is handed over
        await preparation.call(lambda: None)  # and taken
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        first = await preparation.call(lambda: counted[0])
        return first, await preparation.call(lambda: counted[0])

    first, later = asyncio.run(scenario())
    assert 0 < first == later


def test_an_error_of_a_step_comes_back(preparation: Preparation) -> None:
    def fails() -> Steps[None]:
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(preparation.run(fails()))


@pytest.mark.anyio
async def test_look_ups_are_bounded_and_cancelled_look_ups_never_run() -> None:
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


@pytest.mark.anyio
async def test_a_failed_look_up_says_why_and_frees_its_place() -> None:
    readers = LookupPool(1, max_waiting=1)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            await readers.run(lambda: 1 // 0)
    readers.shutdown()
