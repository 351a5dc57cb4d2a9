"""Unread answers are bounded, and clients that read are not affected."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from service.api.response_limit import LARGE_BYTES, ResponseLimit
from tests.service.api.connections import MUCH_BYTES, much, respond, serving

pytestmark = pytest.mark.anyio


class Client:
    """A connection that has asked for a path, and reads when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, path: str) -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())

    async def answer(self) -> tuple[bytes, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, await self.reader.readexactly(size)


@asynccontextmanager
async def asking(address: tuple[str, int], path: str) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection(*address))
    client.ask(path)
    yield client
    client.writer.close()


async def status(address: tuple[str, int], path: str) -> int:
    async with asking(address, path) as client:
        head, _ = await client.answer()
        return int(head.split()[1])


async def by_path(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/much":
        await much(scope, receive, send)
        return
    size = LARGE_BYTES if scope["path"] == "/small" else LARGE_BYTES + 1
    await respond(send, bytes(size))


@pytest.mark.parametrize("way", ["read", "closed"])
async def test_large_answers_wait_until_others_are_read(way: str) -> None:
    limit = ResponseLimit(by_path, max_unread_bytes=MUCH_BYTES + LARGE_BYTES)
    async with serving(limit) as address, asking(address, "/much") as unread:
        await unread.reader.readexactly(1)  # the rest waits for the client
        async with asking(address, "/large") as client:
            head, body = await client.answer()
        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1\r\n" in head
        refusal = json.loads(body)
        assert refusal["error_type"] == "Overloaded"
        assert f"the limit is {MUCH_BYTES + LARGE_BYTES} (CROSSLET_MAX_UNREAD_BYTES)" in refusal["error"]
        assert await status(address, "/small") == 200
        if way == "read":
            assert len((await unread.answer())[1]) == MUCH_BYTES
        else:
            unread.writer.transport.abort()
            while await status(address, "/large") != 200:
                pass  # until the server has noticed
        assert await status(address, "/large") == 200


async def test_a_lone_answer_may_be_of_any_size() -> None:
    limit = ResponseLimit(by_path, max_unread_bytes=1)
    async with serving(limit) as address, asking(address, "/much") as client:
        for _ in range(2):
            head, body = await client.answer()
            assert head.startswith(b"HTTP/1.1 200 ")
            assert len(body) == MUCH_BYTES
            client.ask("/much")


async def test_a_file_that_is_given_as_it_is_read_keeps_no_answer_back() -> None:
    async def file(scope: Scope, receive: Receive, send: Send) -> None:
        size = b"%d" % (64 * LARGE_BYTES)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        for left in range(63, -1, -1):
            await send({"type": "http.response.body", "body": bytes(LARGE_BYTES), "more_body": left > 0})

    async def by_kind(scope: Scope, receive: Receive, send: Send) -> None:
        await (file if scope["path"] == "/file" else by_path)(scope, receive, send)

    limit = ResponseLimit(by_kind, max_unread_bytes=2 * LARGE_BYTES)
    async with serving(limit) as address, asking(address, "/file") as unread:
        await unread.reader.readexactly(1)
        assert await status(address, "/large") == 200
        assert len((await unread.answer())[1]) == 64 * LARGE_BYTES


async def test_an_answer_that_fails_is_not_counted_for_ever() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, bytes(1_000_000))
        raise ZeroDivisionError

    sent: list[int] = []

    async def send(message: dict[str, object]) -> None:
        sent.extend([message["status"]] if "status" in message else [])  # type: ignore[list-item]

    limit = ResponseLimit(broken, max_unread_bytes=1_500_000)
    scope: Scope = {"type": "http", "path": "/embed", "headers": []}
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await limit(scope, None, send)  # type: ignore[arg-type]
    assert sent == [200, 200, 200]
