# ruff: noqa: N818 - an error is named after what happened
"""A minimal HTTP/1.1 client that leaves the CPU to the service."""

import asyncio
import json
import math
import time
from contextlib import suppress
from dataclasses import dataclass

HOST = "127.0.0.1"


class Refused(Exception):
    """Nothing listens on the port."""


class Lost(Exception):
    """The connection ended before the response was complete."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def request_bytes(method: str, path: str, content: object = None) -> bytes:
    """A complete request, to be built before timing starts."""
    body = b"" if content is None else json.dumps(content, ensure_ascii=False).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A keep-alive connection with one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.written_at = math.inf  # time.monotonic() when the last request was fully sent

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the response.

        Raises: Refused: nothing listens.  Lost: the connection ended; the request may or may not have been read.
        """
        self.written_at = math.inf
        if self._streams is not None and self._streams[0].at_eof():  # the server closed the idle connection
            await self.close()
        if self._streams is None:
            try:
                self._streams = await asyncio.open_connection(HOST, self._port)
            except OSError as exc:
                raise Refused from exc
            self._streams[1].transport.set_write_buffer_limits(0)  # drain() waits until all is written
        reader, writer = self._streams
        try:
            writer.write(request)
            await writer.drain()
            self.written_at = time.monotonic()
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = await reader.readexactly(_content_length(head))
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            await self.close()
            raise Lost from exc
        if b"\r\nconnection: close" in head:
            await self.close()
        return Answer(int(head[9:12]), body)

    async def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def _content_length(head: bytes) -> int:
    _, _, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0])
