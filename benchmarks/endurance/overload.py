"""Overloads the service: it must answer only 200 and 429, with correct vectors, in flat memory, and recover quickly.

The load is open-loop: requests are sent at fixed times, whether or not earlier ones have been answered.
"""

import asyncio
import itertools
import math
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.endurance.process import NoService, ServiceProcess
from benchmarks.endurance.wire import BATCH_TEXTS, Connection, Known, Lost, Refused, batch_request

CAPACITY_CLIENTS = 4
MAX_CONNECTIONS = 1000  # open requests; beyond that the load waits for the service
SAMPLE_EVERY_S = 0.2
FACTOR = 5  # times the capacity that is sent
LEAST_FACTOR = 3  # times the capacity; less is not an overload
RECHECKED = 50  # responses whose vectors are all requested again
FLAT_BYTES = 8 << 20
RECOVERY_LIMIT_S = 2.0
USUAL_TIMES = 2  # recovered: a response takes at most this many times as long as before the load
GIVE_UP_S = 60


@dataclass
class Overload:
    capacity_texts_per_s: float = 0.0
    sent_texts: int = 0
    sending_s: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0  # requests without a response
    wrong: int = 0  # responses with a vector that differs from the idle service's
    rechecked: int = 0
    resident_bytes: list[int] = field(default_factory=list)
    recovery_s: float = 0.0
    client_cpu_share: float = 0.0

    @property
    def factor(self) -> float:
        """The actual load, in multiples of the service's capacity."""
        return self.sent_texts / self.sending_s / self.capacity_texts_per_s

    @property
    def growth_bytes(self) -> int:
        """Peak memory of the second half minus that of the first."""
        half = len(self.resident_bytes) // 2
        return max(self.resident_bytes[half:]) - max(self.resident_bytes[:half])

    def failures(self) -> list[str]:
        others = {status: count for status, count in self.statuses.items() if status not in {200, 429}}
        checks = {
            f"other statuses than 200 and 429: {others}": bool(others),
            f"only {self.factor:.1f} times the capacity was sent, not {LEAST_FACTOR}": self.factor < LEAST_FACTOR,
            "no request was refused: this was no overload": not self.statuses[429],
            f"{self.lost} requests got no response": bool(self.lost),
            f"{self.wrong} responses had wrong vectors": bool(self.wrong),
            f"memory grew by {self.growth_bytes / 2**20:.1f} MiB": self.growth_bytes > FLAT_BYTES,
            f"responses were still slow for {self.recovery_s:.2f} s after it": self.recovery_s > RECOVERY_LIMIT_S,
        }
        return [text for text, is_broken in checks.items() if is_broken]


async def overload(service: ServiceProcess, *, seconds: float) -> Overload:
    """Measure the service's capacity, send FACTOR times as much, and measure the effects.

    Raises: NoService: before the load, a request got no response, or no batch got its vectors.
    """
    found = Overload()
    try:
        known = await Known.ask(service.port)
        usual_s = statistics.median([await _timed(service.port, known, number) for number in range(5)])
        capacity_per_s = await _capacity(service.port, seconds=max(2.0, seconds / 10))
    except (Lost, Refused) as exc:
        raise NoService("a request got no response before the load began") from exc
    if not capacity_per_s or math.isinf(usual_s):
        raise NoService("no batch got its vectors before the load began")
    found.capacity_texts_per_s = BATCH_TEXTS * capacity_per_s
    watching = asyncio.create_task(_watch(service, found.resident_bytes))
    started, cpu_started_s = time.monotonic(), time.process_time()
    load = _Load(service.port, found, known)
    await load.offer(per_s=FACTOR * capacity_per_s, seconds=seconds)
    found.sending_s = time.monotonic() - started
    found.client_cpu_share = (time.process_time() - cpu_started_s) / (time.monotonic() - started)
    found.recovery_s = await _recovery(service.port, known, usual_s=usual_s)
    await load.finish()
    watching.cancel()
    await _recheck(service.port, found, load.good.kept)
    return found


async def _capacity(port: int, *, seconds: float) -> float:
    """Successful requests a second for a few clients, each with one request in flight."""
    numbers, started, done = itertools.count(-(10**9)), time.monotonic(), 0

    async def client() -> None:
        nonlocal done
        connection = Connection(port)
        while time.monotonic() < started + seconds:
            answer = await connection.ask(batch_request(next(numbers)))
            done += answer.status == 200
        await connection.close()

    await asyncio.gather(*(client() for _ in range(CAPACITY_CLIENTS)))
    return done / (time.monotonic() - started)


class Reservoir:
    """A uniform random sample of a stream of responses ("Algorithm R", Vitter 1985)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen = 0
        self._draw = random.Random(0)
        self.kept: list[tuple[int, bytes]] = []  # request number, response body

    def add(self, number: int, body: bytes) -> None:
        self._seen += 1
        if len(self.kept) < self._size:
            self.kept.append((number, body))
        elif (place := self._draw.randrange(self._seen)) < self._size:
            self.kept[place] = (number, body)


class _Load:
    """Sends requests at fixed times, and checks responses as they arrive."""

    def __init__(self, port: int, found: Overload, known: Known) -> None:
        self._port = port
        self._found = found
        self._known = known
        self._idle: list[Connection] = []
        self._waiting: set[asyncio.Task[None]] = set()
        self.good = Reservoir(RECHECKED)

    async def offer(self, *, per_s: float, seconds: float) -> None:
        """Send requests; some are still in flight on return."""
        started = time.monotonic()
        for number in range(int(seconds * per_s)):
            await asyncio.sleep(max(0.0, started + number / per_s - time.monotonic()))
            while len(self._waiting) >= MAX_CONNECTIONS:
                await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
            connection = self._idle.pop() if self._idle else Connection(self._port)
            task = asyncio.create_task(self._ask(number, connection))
            self._waiting.add(task)
            self._found.sent_texts += BATCH_TEXTS
            task.add_done_callback(self._waiting.discard)

    async def finish(self) -> None:
        await asyncio.gather(*self._waiting)
        await asyncio.gather(*(connection.close() for connection in self._idle))

    async def _ask(self, number: int, connection: Connection) -> None:
        try:
            answer = await connection.ask(batch_request(number))
        except (Lost, Refused):
            self._found.lost += 1
            return
        self._idle.append(connection)
        self._found.statuses[answer.status] += 1
        if answer.status == 200:
            self._found.wrong += not self._known.is_right(number, answer.body)
            self.good.add(number, answer.body)


async def _watch(service: ServiceProcess, resident_bytes: list[int]) -> None:
    while True:
        resident_bytes.append(service.resident_bytes)
        await asyncio.sleep(SAMPLE_EVERY_S)


async def _recovery(port: int, known: Known, *, usual_s: float) -> float:
    """Seconds until a batch gets correct vectors in about the usual time."""
    started, took_s = time.monotonic(), math.inf
    while took_s > USUAL_TIMES * usual_s and time.monotonic() < started + GIVE_UP_S:
        took_s = await _timed(port, known, 0)
        await asyncio.sleep(0.01)
    return time.monotonic() - started


async def _timed(port: int, known: Known, number: int) -> float:
    """Seconds for one batch on a new connection; infinite if it is refused, lost or wrong."""
    connection, started = Connection(port), time.monotonic()
    try:
        answer = await connection.ask(batch_request(number))
    except (Lost, Refused):
        return math.inf
    await connection.close()
    is_right = answer.status == 200 and known.is_right(number, answer.body)
    return time.monotonic() - started if is_right else math.inf


async def _recheck(port: int, found: Overload, kept: list[tuple[int, bytes]]) -> None:
    connection = Connection(port)
    for number, body in kept:
        try:
            found.wrong += (await connection.ask(batch_request(number))).body != body
            found.rechecked += 1
        except (Lost, Refused):
            found.lost += 1
    await connection.close()
