"""The load generator against a real server of a few lines, on a free port."""

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from benchmarks.serving.client import Tally, request_bytes, run_load

Answer = Callable[[bytes], bytes]
SECONDS = 2.0  # a busy machine may stand still for most of one
REQUESTS = [request_bytes("/embed", body) for body in (b'"a"', b'"b"', b'"c"')]


def whole(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


class Counted:
    """What a server saw."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.connections = 0
        self.port = 0


@contextmanager
def serving(answer: Answer) -> Iterator[Counted]:
    """Answer each request after a millisecond, in a thread with an event loop of its own."""
    seen, started, loop = Counted(), threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                seen.bodies.append(await reader.readexactly(length))
                await asyncio.sleep(0.001)
                reply = answer(seen.bodies[-1])
                if not reply:
                    break
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        seen.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended.wait()
        server.close()
        # Every connection ends when its client leaves; one that outlived the loop would warn in a later test.
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    started.wait()
    try:
        yield seen
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def test_requests_are_sent_in_turn_and_each_answer_is_timed() -> None:
    with serving(lambda body: whole("200 OK", body)) as seen:
        tally = run_load(seen.port, REQUESTS, clients=4, seconds=SECONDS)
    assert len(tally.latency_ms) == len(seen.bodies) > 4
    assert seen.connections == 4
    assert set(seen.bodies) == {b'"a"', b'"b"', b'"c"'}
    assert not tally.failed
    assert tally.elapsed_s > 0
    assert min(tally.latency_ms) >= 1  # what the server waits
    assert tally.p50_ms <= tally.p99_ms


def test_there_is_no_p99_of_fewer_than_a_hundred_answers() -> None:
    assert math.isnan(Tally(latency_ms=[1.0] * 99).p99_ms)
    assert Tally(latency_ms=[1.0] * 100).p99_ms == 1.0


def test_a_chunked_answer_is_one_answer() -> None:
    with serving(chunked) as seen:
        tally = run_load(seen.port, REQUESTS, clients=1, seconds=SECONDS)
    assert len(tally.latency_ms) == len(seen.bodies) > 0


@pytest.mark.parametrize("status", ["429 Too Many Requests", "500 Internal Server Error"])
def test_a_refusal_is_counted_by_status_and_is_no_latency(status: str) -> None:
    with serving(lambda body: whole(status, b"") if body == b'"b"' else whole("200 OK", body)) as seen:
        tally = run_load(seen.port, REQUESTS, clients=1, seconds=SECONDS)
    assert tally.failed == {int(status[:3]): seen.bodies.count(b'"b"')}
    assert len(tally.latency_ms) == len(seen.bodies) - seen.bodies.count(b'"b"')


def test_broken_connection_is_a_failed_request() -> None:
    with serving(lambda body: b"") as seen:
        tally = run_load(seen.port, REQUESTS, clients=3, seconds=SECONDS)
    assert tally.failed == {0: 3}
    assert tally.latency_ms == []


def test_the_wait_for_an_answer_that_never_came_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.serving.client.GRACE_S", 0.2)
    answers = iter([whole("200 OK", b"")] * 3)
    with serving(lambda body: next(answers, b"HTTP/1.1 ")) as seen:  # the fourth never ends
        tally = run_load(seen.port, REQUESTS, clients=1, seconds=SECONDS)
    assert len(tally.latency_ms) == 3
    assert tally.failed == {0: 1}
    assert tally.elapsed_s >= SECONDS + 0.1
