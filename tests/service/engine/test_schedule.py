"""Completions: every request hears of its own, and a loop is woken once for all of a pass."""

import asyncio
import threading

import numpy as np
import pytest

from service.engine.fair_queue import LONG_TEXT
from service.engine.pool import EncoderPool
from service.engine.schedule import Waiter, wake
from service.model.encoder import Encoded, TextInput
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts the calls from other threads."""

    calls = 0

    def call_soon_threadsafe(self, *args: object, **options: object) -> asyncio.Handle:  # type: ignore[override]
        self.calls += 1
        return super().call_soon_threadsafe(*args, **options)  # type: ignore[arg-type]


def test_all_requests_of_a_loop_are_told_with_one_call() -> None:
    async def main() -> None:
        loop, events = asyncio.get_running_loop(), [asyncio.Event() for _ in range(3)]
        assert isinstance(loop, CountedLoop)
        before = loop.calls
        wake([Waiter(loop, event) for event in events])
        assert loop.calls == before + 1
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in events)), timeout=60)

    with asyncio.Runner(loop_factory=CountedLoop) as runner:
        runner.run(main())


async def test_a_loop_that_has_ended_is_passed_over() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    waiter = Waiter(asyncio.get_running_loop(), asyncio.Event())
    wake([Waiter(ended, asyncio.Event()), waiter])
    await asyncio.wait_for(waiter.done.wait(), timeout=60)


def test_many_requests_do_not_wait_for_a_later_long_text() -> None:
    before_long, after_long = 100, 100
    answered: list[int] = []
    all_before = threading.Event()
    were_answered: list[bool] = []

    def encode(text: TextInput, truncate: bool) -> Encoded:
        if len(text) > LONG_TEXT:
            were_answered.append(all_before.wait(timeout=60))
        return Encoded(np.ones(1, np.float32), 1, 1)

    async def main(pool: EncoderPool) -> None:
        async def ask(number: int) -> None:
            await pool.encode(["x" * (LONG_TEXT + 1) if number == before_long else f"{number}"])
            answered.append(number)
            if len(answered) == before_long:
                all_before.set()

        requests = [asyncio.ensure_future(ask(number)) for number in range(before_long + 1 + after_long)]
        await asyncio.sleep(0)  # all of them wait before the worker starts
        pool.start()
        await asyncio.wait_for(asyncio.gather(*requests), timeout=100)

    pool = pool_over(encode, workers=1, max_queue_texts=1000)
    asyncio.run(main(pool))
    pool.close()
    assert sorted(answered) == list(range(before_long + 1 + after_long))
    assert were_answered == [True]
