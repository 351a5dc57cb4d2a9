"""Which texts the event loop encodes itself."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from service.api.app import create_app
from service.engine import pool as pool_module
from service.engine.cache import VectorCache
from service.engine.fair_queue import EncodedBatch, InputError
from service.engine.pool import SHORT_CHARS, Encode, EncoderPool
from service.errors import InferenceFailed, NotReady, Overloaded
from service.model.encoder import Encoded, TextInput, load_encoder
from service.runtime import load_runtime
from service.settings import Settings
from tests.service.api.connections import serving
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio

LONG = "x" * (SHORT_CHARS + 1)
Start = Callable[..., EncoderPool]


class Threads:
    """An encoder that records the thread of each text, and can run a callback meanwhile."""

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


def wait_for_rest(pool: EncoderPool) -> None:
    """Wait until the pool's workers are idle."""
    latest = time.monotonic() + 60
    while not pool._schedule.is_at_rest:
        assert time.monotonic() < latest
        time.sleep(0.001)


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a pool, whose workers are idle then; it is closed after the test."""
    pools: list[EncoderPool] = []

    def start(encode: Encode, *, workers: int = 1, on_loop_s: float = 10.0, **options: Any) -> EncoderPool:
        pools.append(pool_over(encode, workers=workers, max_queue_texts=100, on_loop_s=on_loop_s, **options))
        pools[-1].start()
        wait_for_rest(pools[-1])
        return pools[-1]

    yield start
    for pool in pools:
        pool.close()


@pytest.fixture
def pool(threads: Threads, start: Start) -> EncoderPool:
    return start(threads.encode, workers=2)


async def test_a_short_text_alone_is_encoded_on_the_event_loop(pool: EncoderPool, threads: Threads) -> None:
    batch = await pool.encode(["one"])
    assert threads.on_loop("one")
    assert batch.embeddings.tolist() == [[3.0, 3.0]]
    assert batch.tokens == 1
    assert batch.inference_s > 0
    assert batch.queue_s == 0


@pytest.mark.parametrize("texts", [[LONG], ["one", "two"], [tuple(range(SHORT_CHARS))]], ids=["long", "two", "ids"])
async def test_workers_have_what_is_long_or_many(pool: EncoderPool, threads: Threads, texts: list[TextInput]) -> None:
    await pool.encode(texts)
    assert not any(map(threads.on_loop, texts))


async def test_texts_that_come_one_after_the_other_stay_on_it(pool: EncoderPool, threads: Threads) -> None:
    for text in ("one", "two", "three"):
        await pool.encode([text])
    assert all(map(threads.on_loop, threads.of))


async def test_overlapping_requests_are_not_alone_nor_the_next_one(
    pool: EncoderPool, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "ALONE_S", 1000.0)
    await asyncio.gather(pool.encode(["one", "two"]), pool.encode(["three"]))
    await pool.encode(["four"])
    monkeypatch.setattr(pool_module, "ALONE_S", 0.0)
    await asyncio.to_thread(wait_for_rest, pool)
    await pool.encode(["five"])
    assert [threads.on_loop(text) for text in ("three", "four", "five")] == [False, False, True]


async def test_request_that_came_while_the_loop_stood_is_not_alone(pool: EncoderPool, threads: Threads) -> None:
    """Otherwise two alternating clients each look alone, and one core idles."""
    second: list[asyncio.Task[EncodedBatch]] = []
    loop = asyncio.get_running_loop()

    def arrive() -> None:
        threads.meanwhile = lambda: None
        loop.call_soon(lambda: second.append(asyncio.create_task(pool.encode(["second"]))))

    threads.meanwhile = arrive
    await pool.encode(["first"])
    await second[0]
    assert threads.on_loop("first")
    assert not threads.on_loop("second")


async def test_its_failure_is_that_of_its_request_and_names_the_text(pool: EncoderPool, threads: Threads) -> None:
    with pytest.raises(InputError) as failed:
        await pool.encode(["crash"])
    assert threads.on_loop("crash")
    assert failed.value.position == 0
    assert isinstance(failed.value.cause, InferenceFailed)
    await pool.encode(["one"])


async def test_its_vector_is_cached(threads: Threads, start: Start) -> None:
    pool = start(threads.encode, cache=VectorCache(10_000, fingerprint="a", dim=2))
    first = await pool.encode(["one"])
    assert threads.on_loop("one")
    threads.of.clear()
    second = await pool.encode(["one"])
    assert not threads.of
    assert first.embeddings.tolist() == second.embeddings.tolist()


async def test_a_pool_that_closes_takes_none(pool: EncoderPool) -> None:
    pool.close()
    with pytest.raises(NotReady):
        await pool.encode(["one"])


async def test_its_vector_is_the_workers_to_the_bit(tiny_model: Path, start: Start) -> None:
    encoder, texts = load_encoder(tiny_model), ("Guten Morgen", "안녕하세요", "नमस्ते दुनिया", "مرحبا")
    found = []
    for limit_s in (0.0, 10.0):
        threads = Threads()

        def encode(text: TextInput, truncate: bool, threads: Threads = threads) -> Encoded:
            threads.encode(text, truncate)
            return encoder.encode(text, truncate)

        pool = start(encode, on_loop_s=limit_s)
        found.append([(await pool.encode([text])).embeddings for text in texts])
        assert all(threads.on_loop(text) == (limit_s > 0) for text in texts)
    np.testing.assert_array_equal(*found)


async def test_a_model_that_turns_out_slow_goes_to_the_workers(threads: Threads, start: Start) -> None:
    threads.meanwhile = lambda: time.sleep(0.02)
    pool = start(threads.encode, on_loop_s=0.003)
    for number in range(20):
        await pool.encode([f"text {number}"])
    assert threads.on_loop("text 0")
    assert not threads.on_loop("text 19")


async def test_who_leaves_or_is_refused_is_counted_no_more(
    pool: EncoderPool, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = asyncio.create_task(pool.encode(["leaving"]))
    threads.meanwhile = leaving.cancel
    with pytest.raises(asyncio.CancelledError):
        await leaving
    threads.meanwhile = lambda: None
    monkeypatch.setattr(pool._schedule, "_max_queue_texts", 0)
    with pytest.raises(Overloaded):
        await pool.encode(["one", "two"])
    await pool.encode(["after"])
    assert threads.on_loop("leaving")
    assert threads.on_loop("after")


async def test_text_is_not_alone_beside_an_abandoned_one(pool: EncoderPool, threads: Threads) -> None:
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        taken.set()
        assert release.wait(100)

    threads.meanwhile = hold
    leaving = asyncio.create_task(pool.encode(["left", "behind"]))
    await asyncio.to_thread(taken.wait)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    threads.meanwhile = lambda: None
    later = asyncio.create_task(pool.encode(["later"]))
    await asyncio.sleep(0.01)
    release.set()
    await later
    assert not threads.on_loop("later")


async def test_company_counts_until_it_ends(
    pool: EncoderPool, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when it arrives."""
    times = iter([100.0, 200.0, 200.0, 200.0, 200.0])
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: next(times, 200.0))
    lone_texts = pool._inline
    with lone_texts.request():
        with lone_texts.request():
            pass
        assert lone_texts._company_at == 200.0


def test_two_clients_of_the_service_are_noticed(tiny_model: Path, tmp_path: Path, start: Start) -> None:
    """Over sockets, through the whole stack: two concurrent clients use the workers, not the loop in turn."""
    runtime = load_runtime(Settings(model=tiny_model, data=tmp_path, workers=2))
    encoder, threads, asked = load_encoder(tiny_model), Threads(), 60

    def encode(text: TextInput, truncate: bool) -> Encoded:
        threads.encode(text, truncate)
        time.sleep(0.002)
        return encoder.encode(text, truncate)

    runtime = replace(runtime, pool=start(encode, workers=2))
    runtime.lifecycle.is_started = True

    async def client(address: tuple[str, int], name: bytes) -> None:
        reader, writer = await asyncio.open_connection(*address)
        for number in range(asked):
            body = b'{"inputs": ["%b %d"]}' % (name, number)
            writer.write(b"POST /embed HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            (length,) = re.findall(rb"content-length: (\d+)", answer)
            await reader.readexactly(int(length))
        writer.close()

    async def both() -> None:
        async with serving(create_app(runtime)) as address:
            await asyncio.to_thread(lambda: asyncio.run(two(address)))

    async def two(address: tuple[str, int]) -> None:
        await asyncio.gather(client(address, b"a"), client(address, b"b"))

    uvloop.run(both())
    runtime.close()
    assert len(threads.of) == 2 * asked
    assert sum(map(threads.on_loop, threads.of)) < asked / 2
