"""What the endurance scenarios must find: a service, a writer and a disk that break their promises."""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.endurance import full_disk
from benchmarks.endurance.crash import crash
from benchmarks.endurance.overload import CAPACITY_CLIENTS, _capacity, overload
from benchmarks.endurance.process import NoService
from benchmarks.endurance.shutdown import CLIENTS, shutdown

VECTOR = b"[1.0,0.5]"


class FakeService:
    """Answers one text at once and a batch after `delay_s`, with `status`; 0: ends the connection instead.

    At SIGTERM it drops so many of the batches under way and answers the others.
    """

    def __init__(self, *, delay_s: float = 0.0, status: int = 200, dropped: int = 0) -> None:
        self._delay_s, self._status, self._dropped = delay_s, status, dropped
        self._logged: Counter[int] = Counter()
        self._under_way: list[asyncio.StreamWriter] = []
        self._has_batch = asyncio.Event()
        self._is_over = False
        self.process = SimpleNamespace(wait=lambda timeout_s: 0)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Any]:
        """Serves meanwhile."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._server.close()
            # Every connection ends when its client leaves; one that outlived the loop would warn in a later test.
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    def logged_statuses(self, _: str) -> Counter[int]:
        return Counter(self._logged)

    def terminate(self) -> None:
        self._is_over = True
        self._server.close()
        self.drop(self._dropped)

    def drop(self, count: int) -> None:
        for writer in self._under_way[:count]:
            writer.transport.abort()

    async def drop_the_first(self) -> None:
        await self._has_batch.wait()
        self.drop(1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not self._is_over:
                head = await reader.readuntil(b"\r\n\r\n")
                inputs = json.loads(await reader.readexactly(int(head.split(b"content-length: ")[1])))["inputs"]
                await (self._one(writer) if isinstance(inputs, str) else self._batch(writer, len(inputs)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _one(self, writer: asyncio.StreamWriter) -> None:
        await self._answer(writer, 1)
        self._logged[200] += 1

    async def _batch(self, writer: asyncio.StreamWriter, texts: int) -> None:
        self._under_way.append(writer)
        self._has_batch.set()
        await asyncio.sleep(self._delay_s)
        self._under_way.remove(writer)
        if self._status and not writer.is_closing():
            self._logged[self._status] += 1
            await self._answer(writer, texts, self._status)
        else:
            writer.transport.abort()

    async def _answer(self, writer: asyncio.StreamWriter, texts: int, status: int = 200) -> None:
        body = b"[" + b",".join([VECTOR] * texts) + b"]"
        writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()


@pytest.mark.parametrize("dropped", [0, 1, CLIENTS - 1, CLIENTS])
def test_a_service_that_drops_read_requests_at_sigterm_fails(dropped: int) -> None:
    async def failures() -> list[str]:
        async with FakeService(delay_s=1.5, dropped=dropped).listening() as service:
            return (await shutdown(service, seconds=1)).failures()

    assert asyncio.run(failures()) == lost(dropped)


def test_an_answer_that_is_lost_before_sigterm_is_a_failure() -> None:
    async def failures() -> list[str]:
        async with FakeService(delay_s=0.4).listening() as service:
            dropping = asyncio.create_task(service.drop_the_first())
            found = await shutdown(service, seconds=0.7)
            await dropping
            return found.failures()

    assert asyncio.run(failures()) == lost(1)


def test_a_service_that_neither_answers_nor_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.endurance.shutdown.EXIT_TIMEOUT_S", 0.3)

    def wait(timeout_s: float) -> int:
        raise subprocess.TimeoutExpired("service", timeout_s)

    async def failures() -> list[str]:
        async with FakeService(delay_s=3).listening() as service:
            service.process = SimpleNamespace(wait=wait, kill=lambda: service.drop(CLIENTS))
            found = await shutdown(service, seconds=0.5)
            await asyncio.sleep(3)  # until the batches that nobody waits for have ended
            return found.failures()

    assert asyncio.run(failures()) == [*lost(CLIENTS), "the exit code is None"]


def lost(count: int) -> list[str]:
    return [f"{count} requests that were read before the signal got no response"] if count else []


@pytest.mark.parametrize(("status", "reason"), [(429, "its vectors"), (0, "got no response")])
def test_a_service_that_answers_nothing_has_no_capacity(status: int, reason: str) -> None:
    async def scenario() -> None:
        async with FakeService(delay_s=0.01, status=status).listening() as service:
            await overload(service, seconds=1)

    with pytest.raises(NoService, match=reason):
        asyncio.run(scenario())


def test_the_capacity_counts_the_answers_to_all_clients() -> None:
    async def scenario() -> None:
        async with FakeService(delay_s=0.1).listening() as service:
            started = time.monotonic()
            capacity_per_s = await _capacity(service.port, seconds=0.5)
            answered = service.logged_statuses("/embed")[200]
            assert answered >= CAPACITY_CLIENTS
            assert answered / (time.monotonic() - started) <= capacity_per_s <= answered / 0.5

    asyncio.run(scenario())


def test_a_writer_that_hangs_while_it_opens_the_store_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr("benchmarks.endurance.crash.START_TIMEOUT_S", 0.01)
    assert crash(tmp_path / "store", rounds=1).faults == [
        "the writer of seed 0 had not opened the store after 0.01 s",
        "no change was acknowledged: nothing was tested",
    ]


def test_a_service_that_accepts_a_read_only_store_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_disk, "REFUSAL_TIMEOUT_S", 0.01)
    disk: Any = SimpleNamespace(folder=tmp_path, read_only=nullcontext)
    assert full_disk.read_only(disk) == ["no refusal: the service still ran after 0.01 s"]
