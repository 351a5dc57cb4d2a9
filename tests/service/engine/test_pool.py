import asyncio
import gc
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.cache import VectorCache
from service.engine.fair_queue import EncodedBatch, FairQueue, InputError, Job, Work
from service.engine.pool import EncoderPool
from service.errors import InferenceFailed, InvalidInput, NotReady, Overloaded
from service.model.encoder import Encoded, Encoder, TextInput, load_encoder
from tests.service.api.test_load import until
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio

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
    pool = EncoderPool(encoder.encode, encoder, workers=2, max_queue_texts=1000)
    pool.start()
    yield pool
    pool.close()


class Gate:
    """An encoder that blocks until it is released, and records the texts it saw."""

    def __init__(self) -> None:
        self.opened, self.entered = threading.Event(), threading.Event()
        self.seen: list[TextInput] = []
        self.pools: list[EncoderPool] = []

    def pool(self, *, workers: int = 1, max_queue_texts: int = 100, **options: Any) -> EncoderPool:
        """Make a pool over this encoder, which is closed after the test."""
        self.pools.append(pool_over(self.encode, workers=workers, max_queue_texts=max_queue_texts, **options))
        return self.pools[-1]

    def started_pool(self, **options: Any) -> EncoderPool:
        pool = self.pool(**options)
        pool.start()
        return pool

    async def busy_pool(self, **options: Any) -> tuple[EncoderPool, asyncio.Task[EncodedBatch]]:
        """Make a pool whose worker has the text `busy`."""
        pool = self.started_pool(**options)
        (busy,) = ask(pool, ["busy"])
        await until(self.entered.is_set)
        return pool, busy

    def encode(self, text: TextInput, truncate: bool) -> Encoded:
        self.entered.set()
        assert self.opened.wait(100)
        self.seen.append(text)
        if text == "bad":
            raise InvalidInput("is bad")
        if text == "crash":
            raise ZeroDivisionError
        return Encoded(np.full(2, len(text), np.float32), tokens=1, full_length=1)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()
    for pool in gate.pools:
        pool.close()


def ask(pool: EncoderPool, *requests: Sequence[str]) -> list[asyncio.Task[EncodedBatch]]:
    return [asyncio.create_task(pool.encode(texts)) for texts in requests]


def sizes_of(batches: Sequence[EncodedBatch]) -> list[int]:
    return [len(batch.embeddings) for batch in batches]


def numbered(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


@settings(max_examples=60)
@given(texts=st.lists(LANGUAGES, min_size=1, max_size=12))
async def test_vector_is_bit_identical_in_any_company(pool: EncoderPool, encoder: Encoder, texts: list[str]) -> None:
    forward, backward, _ = await asyncio.gather(pool.encode(texts), pool.encode(texts[::-1]), pool.encode(["吉他"] * 5))
    alone = np.stack([encoder.encode(text).vector for text in texts])
    assert forward.embeddings.tobytes() == backward.embeddings[::-1].tobytes() == alone.tobytes()


async def test_cut_texts_are_reported_by_position(pool: EncoderPool) -> None:
    batch = await pool.encode(["short", "guitar " * 50, "short", "guitar " * 60])
    assert batch.truncated == (1, 3)


async def test_full_queue_refuses_with_both_numbers(gate: Gate) -> None:
    pool, busy = await gate.busy_pool(max_queue_texts=2)
    waiting = ask(pool, ["b", "c"])
    await until(lambda: pool.depth == 2)
    with pytest.raises(Overloaded, match=r"2 texts wait; requests are accepted while fewer than 2 do") as caught:
        await pool.encode(["d", "e"])
    assert caught.value.retry_after_s >= 1
    gate.opened.set()
    assert sizes_of(await asyncio.gather(busy, *waiting)) == [1, 2]
    assert sorted(map(str, gate.seen)) == ["b", "busy", "c"]


async def test_small_requests_do_not_keep_a_large_one_out(gate: Gate) -> None:
    pool, busy = await gate.busy_pool(max_queue_texts=3)
    small = ask(pool, ["b"], ["c"])
    await until(lambda: pool.depth == 2)
    large = ask(pool, list("defgh"))
    await until(lambda: pool.depth == 7)
    gate.opened.set()
    assert sizes_of(await asyncio.gather(busy, *small, *large)) == [1, 1, 1, 5]


@pytest.mark.parametrize(("text", "cause"), [("bad", InvalidInput), ("crash", InferenceFailed)])
async def test_failing_text_fails_each_of_its_requests_by_place(gate: Gate, text: str, cause: type[Exception]) -> None:
    pool = gate.started_pool()
    tasks = ask(pool, ["ok", text], [text, "ok"], ["ok", "fine"])
    await until(lambda: pool.depth == 5)
    gate.opened.set()
    *failed, fine = await asyncio.gather(*tasks, return_exceptions=True)
    for position, error in zip([1, 0], failed, strict=True):
        assert isinstance(error, InputError)
        assert error.position == position
        assert isinstance(error.cause, cause)
    assert isinstance(fine, EncodedBatch)
    assert sizes_of([await pool.encode(["after"])]) == [1]
    assert pool.depth == 0
    assert pool.trouble(stall_timeout_s=60) is None


async def test_skip_failed_gives_the_other_vectors_and_the_errors(gate: Gate) -> None:
    pool = gate.started_pool(workers=2)
    gate.opened.set()
    batch = await pool.encode(["a", "bad", "bbb", "crash", "bad", "cc"], skip_failed=True)
    assert batch.embeddings[:, 0].tolist() == [1, 3, 2]
    assert list(batch.failed) == [1, 3, 4]
    assert [type(error) for error in batch.failed.values()] == [InvalidInput, InferenceFailed, InvalidInput]
    assert batch.tokens == 3
    for texts in (["bad"], ["bad", "crash"]):
        with pytest.raises(InputError) as caught:
            await pool.encode(texts, skip_failed=True)
        assert caught.value.position == 0
    assert not (await pool.encode(["a"], skip_failed=True)).failed
    assert pool.depth == 0


async def test_closing_finishes_what_was_admitted_and_refuses_the_rest(gate: Gate) -> None:
    pool = gate.started_pool()
    (admitted,) = ask(pool, ["a", "b", "c"])
    await until(lambda: pool.depth == 2)
    closing = asyncio.create_task(asyncio.to_thread(pool.close))
    await until(lambda: pool._schedule._is_closing)
    with pytest.raises(NotReady, match="shutting down"):
        await pool.encode(["late"])
    gate.opened.set()
    assert sizes_of([await admitted]) == [3]
    await closing


async def test_texts_that_wait_without_progress_are_trouble(gate: Gate) -> None:
    pool = gate.started_pool()
    (job,) = ask(pool, ["a", "b"])
    await until(lambda: pool.depth == 1)
    await asyncio.sleep(0.05)
    assert pool.trouble(stall_timeout_s=60) is None
    assert "1 texts wait" in str(pool.trouble(stall_timeout_s=0.01))
    gate.opened.set()
    await job
    pool.close()
    assert "1 of 1 encoder workers are not running" in str(pool.trouble(stall_timeout_s=60))


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_requests_take_turns_text_by_text(sizes: list[int]) -> None:
    queue = FairQueue(portion=5)
    jobs = [Job(numbered(str(number), size), True) for number, size in enumerate(sizes)]
    for job in jobs:
        queue.push(job)
    order: list[Job] = []
    while queue.depth:
        work = queue.pop()
        order.extend(work.positions)
        for job in queue.finish(work):
            queue.top_up(job)
    assert len(order) == sum(sizes)
    for job, size in zip(jobs, sizes, strict=True):
        last = max(position for position, popped in enumerate(order) if popped is job)
        assert last < sum(min(other, size) for other in sizes)


TEXTS_OF_A_QUEUE = st.sampled_from(["a", "b", "c", "d", "e", 501 * "f", 502 * "g"])


@given(
    requests=st.lists(st.lists(TEXTS_OF_A_QUEUE, min_size=1, max_size=9), min_size=1, max_size=6),
    steps=st.lists(st.tuples(st.sampled_from(["pop", "finish", "drop"]), st.integers(0, 5)), max_size=40),
    portion=st.integers(1, 7),
)
def test_the_counts_of_the_queue_are_what_waits_in_it(
    requests: list[list[str]], steps: list[tuple[str, int]], portion: int
) -> None:
    queue = FairQueue(portion=portion)
    jobs = [Job(list(texts), True) for texts in requests]
    for job in jobs:
        queue.push(job)
    alive = dict.fromkeys(jobs)
    started: list[Work] = []
    for step, number in steps:
        if step == "pop" and queue.unstarted:
            started.append(queue.pop())
        elif step == "finish" and started:
            for job in queue.finish(started.pop(number % len(started))):
                queue.top_up(job)
                if not job.is_waiting:
                    del alive[job]
        elif step == "drop" and jobs[number % len(jobs)] in alive:
            queue.drop(jobs[number % len(jobs)])
            del alive[jobs[number % len(jobs)]]
        works = {work for job in alive for work in job.works}
        assert queue.unstarted == sum(not work.is_started for work in works)
        assert queue.unstarted_of["long text"] == sum(len(work.text) > 500 for work in works if not work.is_started)
        assert queue.depth == sum(work.waiting for work in works)
        assert queue.backlog == sum(len(positions) for job in alive for positions in job.backlog.values())
        assert all(len(job.works) <= portion for job in alive)
    while started or queue.unstarted:
        work = queue.pop() if queue.unstarted else started.pop()
        assert not set(work.positions) - set(alive)
        for job in queue.finish(work):
            queue.top_up(job)
    assert queue.depth == queue.backlog == 0
    assert not any(job.is_waiting for job in alive)


async def test_equal_texts_in_flight_are_computed_once(gate: Gate) -> None:
    pool, busy = await gate.busy_pool()
    waiting = ask(pool, ["a", "bb", "a"], ["bb", "a"], ["busy", "a"])
    await until(lambda: pool.depth == 7)
    gate.opened.set()
    first, second, third = await asyncio.gather(*waiting)
    await busy
    pool.close()
    assert gate.seen == ["busy", "a", "bb"]
    assert first.embeddings[:, 0].tolist() == [1, 2, 1]
    assert second.embeddings[:, 0].tolist() == [2, 1]
    assert third.embeddings[:, 0].tolist() == [4, 1]
    assert (first.tokens, second.tokens, third.tokens) == (3, 2, 2)


async def test_equal_texts_with_other_truncation_are_kept_apart(pool: EncoderPool) -> None:
    text = "guitar " * 50
    cut, refused = await asyncio.gather(
        pool.encode([text]), pool.encode([text], truncate=False), return_exceptions=True
    )
    assert isinstance(cut, EncodedBatch)
    assert cut.truncated == (0,)
    assert isinstance(refused, InputError)


@pytest.mark.parametrize("sharing", [["x", "y"], ["y", "x", "y"]])
async def test_leaving_request_takes_no_text_from_others(gate: Gate, sharing: list[str]) -> None:
    pool, busy = await gate.busy_pool()
    (leaving,) = ask(pool, ["x", "only", "y"])
    await until(lambda: pool.depth == 3)
    (staying,) = ask(pool, sharing)
    await until(lambda: pool.depth == 3 + len(sharing))
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert pool.depth == len(sharing)
    gate.opened.set()
    assert sizes_of(await asyncio.gather(busy, staying)) == [1, len(sharing)]
    assert sorted(map(str, gate.seen)) == ["busy", "x", "y"]


async def test_texts_that_wait_too_long_are_dropped_by_name(gate: Gate) -> None:
    pool, busy = await gate.busy_pool(request_timeout_s=2)
    with pytest.raises(Overloaded, match=r"3 of the request's 3 .* 2 s \(CROSSLET_REQUEST_T") as caught:
        await pool.encode(["late", "later", "latest"])
    assert caught.value.retry_after_s >= 1
    assert pool.depth == 0
    assert not busy.done()
    gate.opened.set()
    assert sizes_of([await busy]) == [1]  # a worker had it: it is not thrown away
    pool.close()
    assert gate.seen == ["busy"]


async def test_what_could_not_be_answered_in_time_is_refused_at_once(gate: Gate) -> None:
    """Requests in a fair queue finish together: admitted anyway, each would be computed in part and time out."""
    pool = gate.pool(max_queue_texts=10_000, request_timeout_s=10)  # first guess: 2 ms a text
    (alone,) = ask(pool, numbered("long", 4000))  # nobody else's time
    await until(lambda: pool.depth == 2500)  # a fourth of the queue
    with pytest.raises(Overloaded, match=r"and 5 of the request .* most 5 s .* half of CROSSLET_REQUEST_TIMEOUT_S"):
        await pool.encode(numbered("late", 5))
    assert pool.depth == 2500
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)
    assert pool.depth == 0


async def test_a_large_request_takes_a_fourth_of_the_queue(gate: Gate) -> None:
    pool, texts = gate.started_pool(), numbered("large", 90)
    (large,) = ask(pool, texts)
    await until(gate.entered.is_set)
    assert pool.depth + 1 == 100 // 4  # a worker has one
    assert pool.backlog == 90 - 25
    gate.opened.set()
    assert (await large).embeddings[:, 0].tolist() == list(map(len, texts))
    assert pool.depth == pool.backlog == 0
    assert gate.seen == texts


async def test_large_requests_do_not_keep_a_small_one_out(gate: Gate) -> None:
    pool = gate.started_pool()
    large = ask(pool, *(numbered(name, 300) for name in "abc"))
    await until(lambda: pool.depth == 3 * 25 - 1)
    small = ask(pool, ["small"])
    await until(lambda: pool.depth == 3 * 25)
    gate.opened.set()
    await asyncio.gather(*small, *large)
    assert gate.seen.index("small") <= 4  # after the one being encoded and one of each
    assert len(gate.seen) == 901


async def test_a_large_request_waits_for_all_of_other_large_ones(gate: Gate) -> None:
    pool = gate.pool(request_timeout_s=20)  # 5000 texts may wait
    waiting = ask(pool, numbered("first", 4000))
    await until(lambda: pool.depth == 25)
    with pytest.raises(Overloaded, match=r"and 1001 of the request would take about 10 s; at most 10 s"):
        await pool.encode(numbered("second", 1001))
    waiting += ask(pool, numbered("small", 25))
    await until(lambda: pool.depth == 50)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert pool.depth == pool.backlog == 0


async def test_the_time_limit_is_one_for_all_of_a_large_request(gate: Gate) -> None:
    pool = gate.started_pool(request_timeout_s=1)
    with pytest.raises(Overloaded, match=r"284 of the request's 300 .* 1 s \(CROSSLET_REQUEST_T.*send fewer"):
        await pool.encode(numbered("large", 300))
    assert pool.depth == pool.backlog == 0
    gate.opened.set()
    pool.close()
    assert gate.seen == ["large 0"]


async def test_equal_texts_of_a_large_request_are_computed_once(gate: Gate) -> None:
    pool = gate.started_pool(workers=2)
    gate.opened.set()
    batch = await pool.encode([*numbered("large", 200), "twice"] * 2)
    assert len(gate.seen) == 201
    assert batch.embeddings[200, 0] == batch.embeddings[401, 0] == len("twice")


async def test_a_text_that_fails_late_in_a_large_request_is_named(gate: Gate) -> None:
    pool, texts = gate.started_pool(), [*numbered("large", 150), "bad", *numbered("more", 150)]
    gate.opened.set()
    with pytest.raises(InputError) as caught:
        await pool.encode(texts)
    assert caught.value.position == 150
    assert pool.depth == pool.backlog == 0
    batch = await pool.encode(texts, skip_failed=True)
    assert list(batch.failed) == [150]
    assert len(batch.embeddings) == 300


async def test_known_and_repeated_texts_add_no_time_to_the_estimate(gate: Gate) -> None:
    pool = gate.pool(max_queue_texts=10_000, request_timeout_s=20)  # 5000 texts may wait
    texts = numbered("a", 2000)
    waiting = ask(pool, texts, texts, ["b"] * 3001, [*texts, "c", *["d"] * 9])
    await until(lambda: pool.depth == 9011)
    with pytest.raises(Overloaded, match=r"and 3000 of the request"):
        await pool.encode([*texts, *numbered("e", 3000)])
    gate.opened.set()
    pool.start()
    assert sizes_of(await asyncio.gather(*waiting)) == [2000, 2000, 3001, 2010]
    assert len(gate.seen) == 2003


async def test_what_long_texts_took_is_not_expected_of_short_ones(encoder: Encoder) -> None:
    def encode(text: TextInput, truncate: bool) -> Encoded:
        time.sleep(0.05 if len(text) > 500 else 0)
        return encoder.encode(text[:8], truncate)

    pool = pool_over(encode, workers=1, max_queue_texts=1000, request_timeout_s=25)
    pool.start()
    for number in range(40):
        await pool.encode([f"{number}" + "x" * 501])
    await asyncio.gather(*(pool.encode([f"{number}"]) for number in range(300)))  # 300 times 50 ms would be refused
    pool.close()


async def test_cached_vector_is_bit_identical_and_needs_no_worker(encoder: Encoder) -> None:
    cache = VectorCache(10**6, fingerprint="f", dim=16)
    seen: list[TextInput] = []

    def encode(text: TextInput, truncate: bool) -> Encoded:
        seen.append(text)
        return encoder.encode(text, truncate)

    pool = pool_over(encode, workers=1, max_queue_texts=10, cache=cache)
    pool.start()
    first = await pool.encode(["guitar", "guitar " * 50])
    again = await pool.encode(["guitar " * 50, "gitarre", "guitar"])
    pool.close()
    assert seen == ["guitar", "guitar " * 50, "gitarre"]
    assert again.embeddings[[2, 0]].tobytes() == first.embeddings.tobytes()
    assert again.truncated == (0,)
    assert (cache.hits, cache.misses) == (2, 3)


def test_finished_request_leaves_no_garbage_cycle(encoder: Encoder) -> None:
    def jobs() -> int:
        return sum(type(thing) is Job for thing in gc.get_objects())

    async def main(pool: EncoderPool) -> None:
        for number in range(20):
            await pool.encode([f"text {number}", "another"])
            await asyncio.gather(*(pool.encode([f"same {number}", f"own {asker}"]) for asker in range(3)))

    gc.collect()
    gc.disable()
    try:
        before = jobs()
        pool = EncoderPool(encoder.encode, encoder, workers=2, max_queue_texts=1000)
        pool.start()
        asyncio.run(main(pool))
        pool.close()
        assert jobs() == before
    finally:
        gc.enable()


async def test_each_request_notes_the_stages_of_its_texts(encoder: Encoder) -> None:
    requests = [["guitar"], ["gitarre", "guitar", "x " * 300], ["吉他"] * 40 + ["guitar"]]
    pool = EncoderPool(encoder.encode, encoder, workers=2, max_queue_texts=1000, notes_stages=True)
    asked = [asyncio.create_task(pool.encode(texts)) for texts in requests]
    await asyncio.sleep(0)  # all are queued before a worker starts
    pool.start()
    try:
        for batch in await asyncio.gather(*asked):
            assert {stage.name for stage in batch.stages} == {"queue", "tokenise", "inference"}
            first_s, *others_s = [stage.started_at for stage in batch.stages]
            assert all(first_s < other_s for other_s in others_s)
            assert batch.stages[0].ended_at - first_s == pytest.approx(batch.queue_s)
    finally:
        pool.close()


async def test_a_pool_notes_no_stages_unless_told(pool: EncoderPool) -> None:
    assert list((await pool.encode(["guitar", "gitarre"])).stages) == []
