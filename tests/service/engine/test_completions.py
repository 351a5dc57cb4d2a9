"""Completions: few leave at once, many in bursts, and none is lost or held for long."""

import asyncio
import threading

import numpy as np
import pytest

from service.engine.completions import BURST, Completions
from service.engine.fair_queue import LONG_TEXT
from service.engine.pool import EncoderPool
from service.model.encoder import Encoded, TextInput


def test_a_loop_hears_of_all_that_was_held_in_order_and_once() -> None:
    async def main() -> None:
        completions, heard = Completions(), list[int]()
        for number in range(3):
            completions.add(
                asyncio.get_running_loop(), lambda number=number: heard.append(number), texts=1, since=-1.0, now=0.0
            )
        for _ in range(2):
            completions.deliver()
            await asyncio.sleep(0)
        assert heard == [0, 1, 2]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("held", "texts", "waiting", "now", "due"),
    [
        (1, 1, BURST - 1, 0.0, True),  # few wait: nothing is held
        (1, 1, BURST, 0.0, False),
        (BURST - 1, 1, 1000, 0.0, False),
        (BURST, 1, 1000, 0.0, True),
        (2, BURST // 2, 1000, 0.0, True),  # many texts in few answers,
        (1, 1, 1000, 0.9, False),
        (1, 1, 1000, 1.0, True),  # the first took 2 s: it waits for 1 s
    ],
)
def test_when_a_burst_is_due(held: int, texts: int, waiting: int, now: float, due: bool) -> None:
    completions, loop = Completions(), asyncio.new_event_loop()
    for _ in range(held):
        completions.add(loop, lambda: None, texts=texts, since=-2.0, now=0.0)
    loop.close()
    assert completions.is_due(waiting=waiting, now=now) is due


def test_a_loop_that_has_ended_is_passed_over() -> None:
    completions, loop = Completions(), asyncio.new_event_loop()
    loop.close()
    completions.add(loop, lambda: None, texts=1, since=-1.0, now=0.0)
    completions.deliver()


def test_many_requests_are_all_answered_and_those_before_a_long_text_do_not_wait_for_it() -> None:
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

    pool = EncoderPool(encode, workers=1, max_queue_texts=1000)
    asyncio.run(main(pool))
    pool.close()
    assert sorted(answered) == list(range(before_long + 1 + after_long))
    assert were_answered == [True]


def test_none_is_held_for_longer_than_the_quickest_of_a_burst_allows() -> None:
    completions, loop = Completions(), asyncio.new_event_loop()
    completions.add(loop, list, texts=1, since=0.0, now=10.0)
    completions.add(loop, list, texts=1, since=9.9, now=10.0)
    completions.add(loop, list, texts=1, since=5.0, now=10.0)
    assert not completions.is_due(waiting=BURST, now=10.04)
    assert completions.is_due(waiting=BURST, now=10.06)
    loop.close()
