"""Which texts the event loop encodes itself."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from service import lone
from service.cache import VectorCache
from service.encoder import Encoded, TextInput, load_encoder
from service.errors import InferenceFailed, NotReady
from service.fair_queue import EncodedBatch, InputError
from service.lone import SHORT_CHARS
from service.pool import EncoderPool

LONG = "x" * (SHORT_CHARS + 1)


class Threads:
    """An encoder that remembers which thread each text came to, and may let something happen meanwhile."""

    def __init__(self) -> None:
        self.of: dict[TextInput, int] = {}
        self.meanwhile: Callable[[], object] = lambda: None

    def encode(self, text: TextInput, truncate: bool) -> Encoded:
        self.of[text] = threading.get_ident()
        self.meanwhile()
        if text == "crash":
            raise ZeroDivisionError
        return Encoded(np.full(2, len(text), np.float32), tokens=1, full_length=1)

    def on_loop(self, text: TextInput) -> bool:
        return self.of[text] == threading.get_ident()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def pool(threads: Threads) -> Iterator[EncoderPool]:
    pool = EncoderPool(threads.encode, workers=2, max_queue_texts=100, on_loop_s=10.0)
    pool.start()
    yield pool
    pool.close()


def run(awaitable: Awaitable[EncodedBatch]) -> EncodedBatch:
    async def wait() -> EncodedBatch:
        return await awaitable

    return asyncio.run(wait())


def test_a_short_text_alone_is_encoded_on_the_event_loop(pool: EncoderPool, threads: Threads) -> None:
    batch = run(pool.encode(["one"]))
    assert threads.on_loop("one")
    assert batch.embeddings.tolist() == [[3.0, 3.0]]
    assert batch.tokens == 1
    assert batch.inference_s > 0
    assert batch.queue_s == 0


@pytest.mark.parametrize("texts", [[LONG], ["one", "two"], [tuple(range(SHORT_CHARS))]], ids=["long", "two", "ids"])
def test_workers_have_what_is_long_or_many(pool: EncoderPool, threads: Threads, texts: list[TextInput]) -> None:
    run(pool.encode(texts))
    assert not any(map(threads.on_loop, texts))


def test_texts_that_come_one_after_the_other_stay_on_it(pool: EncoderPool, threads: Threads) -> None:
    async def three() -> None:
        for text in ("one", "two", "three"):
            await pool.encode([text])

    asyncio.run(three())
    assert all(map(threads.on_loop, threads.of))


def test_requests_that_came_together_are_not_alone_nor_what_comes_at_once_after(
    pool: EncoderPool, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def requests() -> None:
        monkeypatch.setattr(lone, "ALONE_S", 1000.0)
        await asyncio.gather(pool.encode(["one", "two"]), pool.encode(["three"]))
        await pool.encode(["four"])
        monkeypatch.setattr(lone, "ALONE_S", 0.0)
        await pool.encode(["five"])

    asyncio.run(requests())
    assert [threads.on_loop(text) for text in ("three", "four", "five")] == [False, False, True]


def test_a_request_that_came_while_the_loop_stood_still_is_not_alone(pool: EncoderPool, threads: Threads) -> None:
    """Two clients would otherwise find themselves alone in turn, one core idle."""
    second: list[asyncio.Task[EncodedBatch]] = []

    async def first() -> None:
        loop = asyncio.get_running_loop()

        def arrive() -> None:
            threads.meanwhile = lambda: None
            loop.call_soon(lambda: second.append(asyncio.create_task(pool.encode(["second"]))))

        threads.meanwhile = arrive
        await pool.encode(["first"])
        await second[0]

    asyncio.run(first())
    assert threads.on_loop("first")
    assert not threads.on_loop("second")


@pytest.mark.parametrize("limit_s", [0.0, 1e-9])
def test_workers_have_texts_of_a_slow_model(threads: Threads, limit_s: float) -> None:
    pool = EncoderPool(threads.encode, workers=1, max_queue_texts=100, on_loop_s=limit_s)
    pool.start()
    run(pool.encode(["one"]))
    pool.close()
    assert not threads.on_loop("one")


def test_its_failure_is_that_of_its_request_and_names_the_text(pool: EncoderPool) -> None:
    with pytest.raises(InputError) as failed:
        run(pool.encode(["crash"]))
    assert failed.value.position == 0
    assert isinstance(failed.value.cause, InferenceFailed)
    run(pool.encode(["one"]))


def test_its_vector_is_cached(threads: Threads) -> None:
    cache = VectorCache(10_000, fingerprint="a", dim=2)
    pool = EncoderPool(threads.encode, workers=1, max_queue_texts=100, cache=cache, on_loop_s=10.0)
    pool.start()
    first = run(pool.encode(["one"]))
    threads.of.clear()
    second = run(pool.encode(["one"]))
    pool.close()
    assert not threads.of
    assert first.embeddings.tolist() == second.embeddings.tolist()


def test_a_pool_that_closes_takes_none(pool: EncoderPool) -> None:
    pool.close()
    with pytest.raises(NotReady):
        run(pool.encode(["one"]))


def test_its_vector_is_the_workers_to_the_bit(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    pools = [
        EncoderPool(encoder.encode, workers=1, max_queue_texts=100, sharing=encoder, on_loop_s=limit_s)
        for limit_s in (0.0, 10.0)
    ]
    for text in ("Guten Morgen", "안녕하세요", "नमस्ते दुनिया", "مرحبا"):
        found = []
        for pool in pools:
            if not pool._threads[0].is_alive():
                pool.start()
            found.append(run(pool.encode([text])).embeddings)
        np.testing.assert_array_equal(*found)
    for pool in pools:
        pool.close()
