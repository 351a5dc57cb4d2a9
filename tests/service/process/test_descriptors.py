"""Connections at the limit of open files."""

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.errors import StartError
from service.process.descriptors import AWAITED, RESERVE, connection_limit, raise_limit
from tests.service.process.test_process import documents, running

REQUEST = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"


async def asked(port: int, connections: int) -> list[tuple[bytes, socket.socket]]:
    """Open connections together, ask on each, and read an answer from each; they stay open."""
    loop = asyncio.get_running_loop()

    async def one() -> tuple[bytes, socket.socket]:
        client = socket.socket()
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        with suppress(ConnectionError):  # it may be refused already, with its answer on the way
            await loop.sock_sendall(client, REQUEST)
        answer = b""
        while not is_whole(answer) and (part := await loop.sock_recv(client, 65_536)):
            answer += part
        return answer, client

    return await asyncio.gather(*(one() for _ in range(connections)))


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    return bool(end) and len(body) == int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


@pytest.mark.parametrize(("files", "connections"), [(90, 60), (256, 400)])
def test_connections_are_answered_and_the_store_keeps_its_files(
    files: int, connections: int, tiny_model: Path, tmp_path: Path
) -> None:
    limited = ["sh", "-c", f'ulimit -Sn {files // 2} && ulimit -Hn {files} && exec "$@"', "sh"]
    with running(tiny_model, tmp_path / "data", prefix=limited) as service:  # its client holds a connection, too

        async def hold() -> list[bytes]:
            asked_all = await asked(service.address[1], connections)
            put = await asyncio.to_thread(service.client.put, "/documents", json={"documents": documents()})
            found = await asyncio.to_thread(service.client.post, "/search", json={"query": "hallo"})
            assert (put.status_code, found.status_code) == (200, 200)
            for _, client in asked_all:
                client.close()
            return [answer for answer, _ in asked_all]

        answers = asyncio.run(hold())
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
        assert 0 < len(refused) < connections
        assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers if answer not in refused)
        for answer in refused:
            head, body = answer.split(b"\r\n\r\n")
            assert b"retry-after: 1" in head
            assert json.loads(body)["error_type"] == "Overloaded"
            assert "ulimit -n" in json.loads(body)["error"]
        assert service.metric("crosslet_refused_connections_total") == len(refused)
        assert (tmp_path / "service.log").read_text().count("connections refused") == 1  # once a minute


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Give the limits on open files, and restore them after the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_to_the_hard_one(limits: tuple[int, int]) -> None:
    soft, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 2**20)


def test_connections_leave_the_reserve(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limits[1]))
    assert 1 <= connection_limit(lambda: None).most < 300 - RESERVE - AWAITED
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVE, limits[1]))
    with pytest.raises(StartError, match="ulimit -n"):
        connection_limit(lambda: None)
