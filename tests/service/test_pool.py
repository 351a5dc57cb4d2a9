import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encoder import Encoded, Encoder, TextInput, load_encoder
from service.errors import InferenceFailed, InvalidInput, NotReady, Overloaded
from service.pool import EncoderPool, FairQueue, InputError, Job

LANGUAGES = st.text(
    alphabet=st.characters(blacklist_categories=["Cs"]) | st.sampled_from("güneşçığ吉他مرحبا Привет😀\x00\u202e"),
    min_size=1,
    max_size=60,
)


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_encoder(tiny_model)


@pytest.fixture(scope="module")
def pool(encoder: Encoder) -> Iterator[EncoderPool]:
    pool = EncoderPool(encoder.encode, workers=2, max_queue_texts=1000)
    pool.start()
    yield pool
    pool.close()


class Gate:
    """An encoder that waits until it is let through, and remembers what it saw."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.seen: list[TextInput] = []

    def encode(self, text: TextInput, truncate: bool) -> Encoded:
        assert self.opened.wait(10)
        self.seen.append(text)
        if text == "bad":
            raise InvalidInput("is bad")
        if text == "crash":
            raise ZeroDivisionError
        return Encoded(np.full(2, len(text), np.float32), tokens=1, full_length=1)


def gated_pool(gate: Gate, *, max_queue_texts: int = 100, workers: int = 1) -> EncoderPool:
    pool = EncoderPool(gate.encode, workers=workers, max_queue_texts=max_queue_texts)
    pool.start()
    return pool


async def until(condition: object) -> None:
    assert callable(condition)
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never happened")


@settings(deadline=None, max_examples=60)
@given(texts=st.lists(LANGUAGES, min_size=1, max_size=12))
def test_a_vector_is_the_same_to_the_bit_alone_and_in_any_company(
    pool: EncoderPool, encoder: Encoder, texts: list[str]
) -> None:
    async def together() -> list[np.ndarray]:
        batches = await asyncio.gather(pool.encode(texts), pool.encode(texts[::-1]), pool.encode(["吉他"] * 5))
        return [batches[0].embeddings, batches[1].embeddings[::-1]]

    alone = np.stack([encoder.encode(text).vector for text in texts])
    for embeddings in asyncio.run(together()):
        assert embeddings.tobytes() == alone.tobytes()


def test_results_keep_the_order_of_the_inputs(pool: EncoderPool, encoder: Encoder) -> None:
    texts = [f"guitar {number}" for number in range(50)]
    batch = asyncio.run(pool.encode(texts))
    for text, vector in zip(texts, batch.embeddings, strict=True):
        assert np.array_equal(vector, encoder.encode(text).vector)


def test_cut_texts_are_reported_by_position(pool: EncoderPool) -> None:
    batch = asyncio.run(pool.encode(["short", "guitar " * 50, "short", "guitar " * 60]))
    assert batch.truncated == (1, 3)


def test_a_full_queue_refuses_with_both_numbers_and_loses_nothing() -> None:
    async def scenario() -> None:
        gate = Gate()
        pool = gated_pool(gate, max_queue_texts=3)
        first = asyncio.create_task(pool.encode(["a"]))
        await until(lambda: pool.depth == 0)  # the worker holds it
        second = asyncio.create_task(pool.encode(["b", "c"]))
        await until(lambda: pool.depth == 2)
        with pytest.raises(Overloaded, match=r"holds 2 texts and the request adds 2; the limit is 3") as caught:
            await pool.encode(["d", "e"])
        assert caught.value.retry_after_s >= 1
        gate.opened.set()
        assert len((await first).embeddings) == 1
        assert len((await second).embeddings) == 2
        pool.close()
        assert sorted(map(str, gate.seen)) == ["a", "b", "c"]

    asyncio.run(scenario())


def test_a_cancelled_request_leaves_the_queue() -> None:
    async def scenario() -> None:
        gate = Gate()
        pool = gated_pool(gate)
        first = asyncio.create_task(pool.encode(["a"]))
        await until(lambda: pool.depth == 0)
        dropped = asyncio.create_task(pool.encode(["x"] * 50))
        await until(lambda: pool.depth == 50)
        dropped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dropped
        assert pool.depth == 0
        gate.opened.set()
        await first
        pool.close()
        assert gate.seen == ["a"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("text", "cause"), [("bad", InvalidInput), ("crash", InferenceFailed)])
def test_a_failing_text_fails_its_own_request_only(text: str, cause: type[Exception]) -> None:
    async def scenario() -> None:
        gate = Gate()
        gate.opened.set()
        pool = gated_pool(gate, workers=2)
        good = asyncio.create_task(pool.encode(["ok"] * 20))
        with pytest.raises(InputError) as caught:
            await pool.encode(["fine", text, "fine"])
        assert caught.value.position == 1
        assert isinstance(caught.value.cause, cause)
        assert len((await good).embeddings) == 20
        assert len((await pool.encode(["after"])).embeddings) == 1
        assert pool.trouble(stall_timeout_s=60) is None
        pool.close()

    asyncio.run(scenario())


def test_closing_finishes_what_was_admitted_and_refuses_the_rest() -> None:
    async def scenario() -> None:
        gate = Gate()
        pool = gated_pool(gate)
        admitted = asyncio.create_task(pool.encode(["a", "b", "c"]))
        await until(lambda: pool.depth == 2)
        closing = asyncio.create_task(asyncio.to_thread(pool.close))
        await asyncio.sleep(0.05)
        with pytest.raises(NotReady, match="shutting down"):
            await pool.encode(["late"])
        gate.opened.set()
        assert len((await admitted).embeddings) == 3
        await closing

    asyncio.run(scenario())


def test_texts_that_wait_without_progress_are_trouble() -> None:
    async def scenario() -> None:
        gate = Gate()
        pool = gated_pool(gate)
        job = asyncio.create_task(pool.encode(["a", "b"]))
        await until(lambda: pool.depth == 1)
        await asyncio.sleep(0.05)
        assert pool.trouble(stall_timeout_s=60) is None
        assert "1 texts wait" in str(pool.trouble(stall_timeout_s=0.01))
        gate.opened.set()
        await job
        pool.close()
        assert "1 of 1 encoder workers are not running" in str(pool.trouble(stall_timeout_s=60))

    asyncio.run(scenario())


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_no_request_waits_for_more_than_one_text_of_each_other_per_own_text(sizes: list[int]) -> None:
    queue = FairQueue()
    jobs = [Job(["x"] * size, True, finished=lambda: None) for size in sizes]
    for job in jobs:
        queue.push(job)
    order = []
    while queue.depth:
        order.append(queue.pop()[0])
    assert len(order) == sum(sizes)
    for job, size in zip(jobs, sizes, strict=True):
        last = max(position for position, popped in enumerate(order) if popped is job)
        assert last < sum(min(other, size) for other in sizes)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), taken=st.integers(0, 20), data=st.data())
def test_the_depth_is_what_can_still_be_popped(sizes: list[int], taken: int, data: st.DataObject) -> None:
    queue = FairQueue()
    jobs = [Job(["x"] * size, True, finished=lambda: None) for size in sizes]
    for job in jobs:
        queue.push(job)
    for _ in range(min(taken, queue.depth)):
        queue.pop()
    queue.discard(data.draw(st.sampled_from(jobs)))
    expected = queue.depth
    popped = 0
    while queue.depth:
        queue.pop()
        popped += 1
    assert popped == expected
