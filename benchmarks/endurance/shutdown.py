"""Sends SIGTERM under load: accepted requests must be answered, and the process must exit cleanly."""

import asyncio
import itertools
import math
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.endurance.process import ServiceProcess
from benchmarks.endurance.wire import SENTENCES, Connection, Known, Lost, Refused, batch_request

CLIENTS = 16
EXIT_TIMEOUT_S = 120  # for the last responses, and again for the exit of the process
READ_AFTER_S = 0.1  # after its last byte, a request counts as read, so the service must answer it


@dataclass
class Shutdown:
    """The results: responses that clients received, and responses that the service logged."""

    received: Counter[int] = field(default_factory=Counter)
    received_after: int = 0  # responses after the signal to requests read before it
    lost: int = 0  # requests without a response that were read, or that ended, before the signal
    wrong: int = 0
    logged: Counter[int] = field(default_factory=Counter)
    exit_code: int | None = None

    def failures(self) -> list[str]:
        """The checks that failed. A request sent just before the signal, or after it, may stay unanswered."""
        others = {status: count for status, count in self.logged.items() if status not in {200, 429}}
        checks = {
            f"other statuses than 200 and 429: {others}": bool(others),
            f"answered {dict(self.logged)}, but clients received {dict(self.received)}": self.logged != self.received,
            f"{self.lost} requests that were read before the signal got no response": bool(self.lost),
            f"{self.wrong} responses had wrong vectors": bool(self.wrong),
            "no request was in flight at the signal: this was no load": not (self.received_after or self.lost),
            f"the exit code is {self.exit_code}": self.exit_code != 0,
        }
        return [text for text, is_broken in checks.items() if is_broken]


async def shutdown(service: ServiceProcess, *, seconds: float) -> Shutdown:
    """Load the service with more clients than it has workers, terminate it after `seconds`, and count responses."""
    found = Shutdown()
    known = await Known.ask(service.port)
    before = await asyncio.to_thread(_logged, service, len(SENTENCES))
    numbers = itertools.count()
    signal_at = math.inf

    def was_read(connection: Connection) -> bool:
        return connection.written_at + READ_AFTER_S < signal_at

    async def client() -> None:
        connection = Connection(service.port)
        while True:
            number = next(numbers)
            try:
                answer = await connection.ask(batch_request(number))
            except (Lost, Refused):
                found.lost += time.monotonic() < signal_at or was_read(connection)
                return
            found.received[answer.status] += 1
            found.received_after += time.monotonic() > signal_at and was_read(connection)
            found.wrong += answer.status == 200 and not known.is_right(number, answer.body)

    clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
    await asyncio.sleep(seconds)
    signal_at = time.monotonic()
    service.terminate()
    _, waiting = await asyncio.wait(clients, timeout=EXIT_TIMEOUT_S)
    if waiting:
        service.process.kill()
    await asyncio.gather(*clients)
    with suppress(subprocess.TimeoutExpired):
        found.exit_code = await asyncio.to_thread(service.process.wait, EXIT_TIMEOUT_S)
    found.logged = service.logged_statuses("/embed") - before
    return found


def _logged(service: ServiceProcess, count: int) -> Counter[int]:
    """The logged responses, after waiting for `count` of them: the service logs a response after sending it."""
    latest = time.monotonic() + EXIT_TIMEOUT_S
    while (logged := service.logged_statuses("/embed")).total() < count and time.monotonic() < latest:
        time.sleep(0.01)
    return logged
