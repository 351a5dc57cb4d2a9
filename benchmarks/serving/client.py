"""Load generator: sends prebuilt HTTP/1.1 requests and times the responses.

Runs in the callbacks of one uvloop protocol, without a task, future or body object for each request. So it takes little
of the cores it shares with the server.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httptools
import uvloop

from benchmarks.serving.results import MOST_FEW, percentile

LOOPBACK = "127.0.0.1"
GRACE_S = 60  # for the last responses of a load


@dataclass
class Tally:
    """The results of a load: latencies of successful responses, statuses of the others."""

    latency_ms: list[float] = field(default_factory=list)
    failed: Counter[int] = field(default_factory=Counter)  # 0: no response
    elapsed_s: float = 0.0
    generator_cpu_s: float = 0.0

    @property
    def p50_ms(self) -> float:
        return percentile(self.latency_ms, 0.50)

    @property
    def p99_ms(self) -> float:
        """99th percentile latency of successful responses; nan for fewer than 100."""
        return percentile(self.latency_ms, 0.99) if len(self.latency_ms) > MOST_FEW else math.nan


def request_bytes(path: str, body: bytes, *, method: str = "POST") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {LOOPBACK}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run_load(port: int, requests: Sequence[bytes], *, clients: int, seconds: float) -> Tally:
    """Keep `clients` requests in flight for `seconds`, then wait for the last responses.

    The clients take requests in turn from one list, repeatedly. `elapsed_s` includes the last response, so that every
    response counts, or the wait for one that never came.
    """
    gc.collect()
    cpu_started = time.process_time()
    tally: Tally = uvloop.run(_run(port, requests, clients, seconds))
    tally.generator_cpu_s = time.process_time() - cpu_started
    return tally


async def _run(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Tally:
    loop = asyncio.get_running_loop()
    feed = _Feed(requests)
    started = time.perf_counter()
    feed.deadline = started + seconds
    connections = [(await loop.create_connection(lambda: _Client(feed), LOOPBACK, port))[1] for _ in range(clients)]
    ends = [client.ended for client in connections]
    await asyncio.wait(ends, timeout=seconds + GRACE_S)
    for client in connections:
        client.abandon()
    ended = feed.last_answer_at if feed.last_answer_at and not feed.tally.failed[0] else time.perf_counter()
    feed.tally.elapsed_s = ended - started
    return feed.tally


class _Feed:
    """Hands out the next request to any free client, until the deadline."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests
        self._sent = 0
        self.deadline = 0.0
        self.last_answer_at = 0.0
        self.tally = Tally()

    def next(self, now: float) -> bytes | None:
        if now >= self.deadline:
            return None
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        return request


class _Client(asyncio.Protocol):
    """A keep-alive connection with one request in flight."""

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._sent_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send(time.perf_counter())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Called by the parser when a response is complete."""
        now = time.perf_counter()
        status = self._parser.get_status_code()
        if status == 200 and self._sent_at is not None:
            self._feed.tally.latency_ms.append((now - self._sent_at) * 1000)
        else:
            self._feed.tally.failed[status] += 1
        self._feed.last_answer_at = now
        self._sent_at = None
        self._send(now)

    def connection_lost(self, exc: Exception | None) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Count the request as unanswered, and close."""
        if self.ended.done():
            return
        if self._sent_at is not None:
            self._feed.tally.failed[0] += 1
        self._end()

    def _send(self, now: float) -> None:
        request = self._feed.next(now)
        if request is None:
            self._end()
            return
        self._sent_at = now
        self._transport.write(request)  # type: ignore[attr-defined]  # a transport that writes

    def _end(self) -> None:
        self.ended.set_result(None)
        self._transport.close()
