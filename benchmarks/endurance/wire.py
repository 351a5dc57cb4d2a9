# ruff: noqa: N818, RUF001 - an error is named after what happened; letters of several alphabets
"""A minimal HTTP/1.1 client that leaves the CPU to the service, and requests whose responses can be checked.

One text of each request is known, all others are new: requests share at most the known text, since the service may
compute equal texts in flight only once.
"""

import asyncio
import json
import math
import time
from contextlib import suppress
from dataclasses import dataclass

HOST = "127.0.0.1"
BATCH_TEXTS = 32
SENTENCES = (
    "The ferry to the islands leaves at seven and takes a little under two hours.",
    "Ich habe den Schlüssel gestern bei der Nachbarin im dritten Stock abgegeben.",
    "La bibliothèque reste ouverte pendant les travaux, mais l'entrée est derrière.",
    "El mercado abre temprano y a las diez ya no queda pan.",
    "Toplantı yarın sabah dokuza alındı, lütfen geç kalmayın.",
    "سيصل القطار متأخرا نصف ساعة بسبب الأمطار.",
    "请把窗户关上，外面开始下雨了。",
    "Short one.",
)


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
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def _content_length(head: bytes) -> int:
    _, _, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0])


def batch_request(number: int) -> bytes:
    """A request with BATCH_TEXTS texts: a known text chosen by number, then new ones."""
    new = [f"{SENTENCES[(number + place) % len(SENTENCES)]} {number}-{place}" for place in range(1, BATCH_TEXTS)]
    return request_bytes("POST", "/embed", {"inputs": [SENTENCES[number % len(SENTENCES)], *new]})


class Known:
    """The known texts' vectors, as the idle service returned them."""

    def __init__(self, vectors: list[bytes]) -> None:
        self._vectors = vectors

    @classmethod
    async def ask(cls, port: int) -> "Known":
        connection = Connection(port)
        answers = [await connection.ask(request_bytes("POST", "/embed", {"inputs": text})) for text in SENTENCES]
        await connection.close()
        return cls([answer.body[1:-1] for answer in answers])  # [[..]] -> [..]

    def is_right(self, number: int, body: bytes) -> bool:
        """Whether a response has all vectors of its batch, and the known one to the last digit."""
        known = b"[" + self._vectors[number % len(SENTENCES)] + b",["
        return body.startswith(known) and body.count(b"],[") == BATCH_TEXTS - 1
