"""What comes on a connection before a body: bounded in size and in time."""

import asyncio

import pytest
import uvicorn

from service import connection
from service.connection import MAX_HEAD_BYTES, Connection


async def hello(scope: object, receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]


async def answers(*parts: bytes, pause_s: float = 0.0) -> bytes:
    """All that a server says to a client that sends the parts and then waits for the end of the connection."""
    config = uvicorn.Config(hello, http=Connection, lifespan="off", timeout_keep_alive=1, log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause_s)
    said = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    server.close()
    return said


def test_several_requests_are_answered_on_one_connection_however_they_are_cut() -> None:
    request = b"POST / HTTP/1.1\r\ncontent-length: 3\r\nx: " + b"y" * 20_000 + b"\r\n\r\nabc"
    cut = [(request * 5)[start : start + 7001] for start in range(0, 5 * len(request), 7001)]
    assert asyncio.run(answers(*cut, pause_s=0.01)).count(b"HTTP/1.1 200 OK") == 5


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nx: ", b"GET /", b"GET / HTTP/1.1\r\n"])
def test_a_head_without_an_end_is_refused(begin: bytes) -> None:
    filler = b"a: b\r\n" * 20 if begin.endswith(b"\r\n") else b"a" * 120
    said = asyncio.run(answers(begin, *[filler * 100] * (MAX_HEAD_BYTES // 12_000 + 2), pause_s=0.001))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert f"more than {MAX_HEAD_BYTES} bytes".encode() in said


@pytest.mark.parametrize("parts", [[], [b"GET / HTTP/1.1\r\nx"], [b"GET / HTTP/1.1\r\n\r\n", b"GET"]])
def test_a_head_that_does_not_come_ends_the_connection(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.2)
    assert asyncio.run(answers(*parts, pause_s=0.05)).count(b"HTTP/1.1 ") == (len(parts) == 2)
