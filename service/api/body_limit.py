"""Limits on request bodies: their bytes, their values, their time, and the memory of all together. Parses no JSON.

Chunked bodies count too, and all requests share one budget. A compressed body counts by its decompressed size. A
complete body counts by its estimated parsed size, several times its bytes: three bytes of JSON, `[],`, become a Python
object of some sixty bytes, so that 4 MB can become 90 MB. Bodies with too many values are refused. A body with a
document a line is passed on while it arrives, and only its share of the budget is bounded.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.decompression import Decoder, decoder_of
from service.api.request import header, replayed
from service.api.responses import error_response
from service.api.routing import streams_lines
from service.errors import BodyTimeout, ClientGone, MalformedBody, Overloaded, TooLarge, UnknownEncoding
from service.process.memory import return_free_memory
from service.runtime import LONG_BYTES

LARGE_BYTES = 10_000_000  # return this much memory to the system at once; it takes milliseconds
RETRY_AFTER_S = 1  # bodies are freed when they are answered, within about a second
PIECE_BYTES = 16 * 1024  # compressed bytes at a time: they may become a thousand times as many
MAX_VALUES = 250_000  # 16 to 24 MB of Python objects
# Fitted to the peak memory of a 4 MB body, raw and parsed: text takes 4 times its bytes, numbers of one digit 13 times,
# of three digits 15 times, of five digits 11 times.
BYTE_BYTES = 4
COMMA_BYTES = 48  # per number or short string
VALUE_BYTES = 64
SLICE_BYTES = 64 * 1024


@dataclass
class _BufferedBody:
    """One request's body as it arrived, and the bytes it is charged for."""

    chunks: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


class BodyLimit:
    """Limits one body to `max_body_bytes`, and the memory of all bodies together to `max_inflight_bytes`.

    A body must arrive within `body_timeout_s`, so that clients which stop half-way do not hold memory. Once complete,
    it is charged its estimated parsed size until its answer begins, capped at half the budget so that it can get in.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body_bytes: int,
        max_inflight_bytes: int,
        body_timeout_s: float,
        check_memory: Callable[[int, int], None] = lambda more_bytes, held_bytes: None,
    ) -> None:
        """check_memory(more_bytes, held_bytes): raises Overloaded or TooLarge if the process has no room for more."""
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_inflight_bytes = max_inflight_bytes
        self._body_timeout_s = body_timeout_s
        self._check_memory = check_memory
        self._inflight_bytes = 0
        self._streamed_bytes = 0  # of them, of uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, pass the request on, and count the body until the answer is sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if streams_lines(scope):
            await self._stream(scope, receive, send)
            return
        body = _BufferedBody()

        async def observed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._release(body, down_to=sum(map(len, body.chunks)))
            await send(message)

        try:
            await self._read(scope, receive, body)
            more_bytes = sum(map(parsed_bytes, body.chunks)) - body.size_bytes
            self._check_memory(more_bytes, body.size_bytes)
            self._charge(min(more_bytes, max(0, self._max_inflight_bytes // 2 - body.size_bytes)), body)
            body.chunks[:] = [b"".join(body.chunks)]  # drops the chunks: the body is in memory only once
            await _check_values(body.chunks[0])
            message = {"type": "http.request", "body": body.chunks[0], "more_body": False}
            await self._app(scope, replayed(message, receive), observed_send)
        except (BodyTimeout, MalformedBody, TooLarge, Overloaded, UnknownEncoding) as exc:
            # Keep the connection open: a client that is still sending would miss the answer if it were closed. The
            # server discards the rest of the body as it arrives.
            await error_response(scope["path"], exc)(scope, receive, send)
        except ClientGone:
            return
        finally:
            self._release(body, down_to=0)
            body.chunks.clear()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a body of any length on while it arrives; charge it two largest bodies: a line, and what is stored."""
        body, share_bytes = _BufferedBody(), min(2 * self._max_body_bytes, self._max_inflight_bytes // 2)
        try:
            if self._streamed_bytes + share_bytes > max(share_bytes, self._max_inflight_bytes // 2):
                raise Overloaded(
                    f"uploads would take {self._streamed_bytes + share_bytes} bytes of memory; the limit is "
                    f"{self._max_inflight_bytes // 2}, half of CROSSLET_MAX_INFLIGHT_BYTES",
                    retry_after_s=RETRY_AFTER_S,
                )
            self._check_memory(share_bytes, 0)
            self._charge(share_bytes, body)
            self._streamed_bytes += share_bytes
            decoder = decoder_of(header(scope, b"content-encoding"))
            stream = BodyStream(receive, decoder, max_piece_bytes=self._max_body_bytes, timeout_s=self._body_timeout_s)
            await self._app(scope, stream, send)
        except (TooLarge, Overloaded, UnknownEncoding) as exc:  # what the stream raises, the application answers
            await error_response(scope["path"], exc)(scope, receive, send)
        finally:
            self._streamed_bytes -= body.size_bytes
            self._release(body, down_to=0)

    async def _read(self, scope: Scope, receive: Receive, body: _BufferedBody) -> None:
        decoder = decoder_of(header(scope, b"content-encoding"))
        declared = header(scope, b"content-length")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            raise self._too_large(f"{declared} bytes")
        try:
            async with asyncio.timeout(self._body_timeout_s):
                await self._read_chunks(receive, decoder, body)
        except TimeoutError as exc:
            raise BodyTimeout(
                f"the body did not arrive completely within {self._body_timeout_s:g} s (CROSSLET_BODY_TIMEOUT_S)"
            ) from exc

    async def _read_chunks(self, receive: Receive, decoder: Decoder, body: _BufferedBody) -> None:
        size_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client left while sending its body")
            room_bytes = self._max_body_bytes - size_bytes
            chunk = decoder.add(message.get("body", b""), at_most_bytes=room_bytes + 1)  # + 1: to notice an excess
            more = message.get("more_body", False)
            size_bytes += len(chunk)
            if size_bytes > self._max_body_bytes:
                raise self._too_large(f"more than {self._max_body_bytes} bytes")
            self._check_memory(len(chunk), body.size_bytes)
            self._charge(len(chunk), body)
            body.chunks.append(chunk)
        decoder.end()

    def _charge(self, more_bytes: int, body: _BufferedBody) -> None:
        if not more_bytes:  # a request without a body is always admitted
            return
        wanted = self._inflight_bytes + more_bytes
        if wanted > self._max_inflight_bytes:
            raise Overloaded(
                f"request bodies would take {wanted} bytes of memory; "
                f"the limit is {self._max_inflight_bytes} (CROSSLET_MAX_INFLIGHT_BYTES)",
                retry_after_s=RETRY_AFTER_S,
            )
        self._inflight_bytes = wanted
        body.size_bytes += more_bytes

    def _release(self, body: _BufferedBody, *, down_to: int) -> None:
        freed_bytes = body.size_bytes - down_to
        self._inflight_bytes -= freed_bytes
        body.size_bytes = down_to
        if freed_bytes > LARGE_BYTES:
            asyncio.get_running_loop().call_soon(return_free_memory)  # otherwise the C heap keeps it

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(f"the body has {size}; the limit is {self._max_body_bytes} (CROSSLET_MAX_BODY_BYTES)")


async def _check_values(body: bytes) -> None:
    values = values_of(body) if len(body) <= LONG_BYTES else await asyncio.to_thread(values_of, body)
    if values > MAX_VALUES:
        raise TooLarge(f"the body has {values} lists, objects and strings; the limit is {MAX_VALUES} in one request")


class BodyStream:
    """The application's `receive`. Each part must arrive within `timeout_s`; no limit on all of them together.

    Raises, when called: BodyTimeout, ClientGone.  MalformedBody: the body is not in its encoding.
        TooLarge: a piece decompresses to more than `max_piece_bytes`.
    """

    def __init__(self, receive: Receive, decoder: Decoder, *, max_piece_bytes: int, timeout_s: float) -> None:
        self._receive = receive
        self._decoder = decoder
        self._max_piece_bytes = max(max_piece_bytes, PIECE_BYTES)
        self._timeout_s = timeout_s
        self._pieces: deque[bytes] = deque()
        self._is_complete = self._is_passed_on = False

    async def __call__(self) -> Message:
        """Return the next piece, or what the client sends after the body."""
        if self._is_passed_on:
            return await self._receive()
        while not self._pieces and not self._is_complete:
            await self._await_part()
        if not self._pieces:  # only now: what is there of a body that breaks off was passed on
            self._decoder.end()
            self._is_passed_on = True
            return {"type": "http.request", "body": b"", "more_body": False}
        body = self._decoder.add(self._pieces.popleft(), at_most_bytes=self._max_piece_bytes + 1)
        if len(body) > self._max_piece_bytes:
            raise TooLarge(
                f"{PIECE_BYTES} bytes of the body decompress to more than {self._max_piece_bytes} "
                "(CROSSLET_MAX_BODY_BYTES); compress it less, or not at all"
            )
        return {"type": "http.request", "body": body, "more_body": True}

    async def _await_part(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                message = await self._receive()
        except TimeoutError as exc:
            raise BodyTimeout(
                f"no further part of the body arrived within {self._timeout_s:g} s (CROSSLET_BODY_TIMEOUT_S)"
            ) from exc
        if message["type"] == "http.disconnect":
            raise ClientGone("the client left while sending its body")
        part, self._is_complete = message.get("body", b""), not message.get("more_body", False)
        self._pieces += [part[start : start + PIECE_BYTES] for start in range(0, len(part), PIECE_BYTES)]


def values_of(body: bytes) -> int:
    """Return the number of lists, objects and strings (keys too): an upper bound up to `MAX_VALUES`, exact above.

    Numbers are not counted here; `parsed_bytes` charges them by their commas.
    """
    at_most = _values_at_most(body)
    if at_most <= MAX_VALUES:
        return at_most
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes, values = 0, 0
    for start in range(0, len(unescaped), SLICE_BYTES):
        parts = unescaped[start : start + SLICE_BYTES].split(b'"')
        outside = b"".join(parts[quotes % 2 :: 2])  # brackets in a string are text
        values += outside.count(b"[") + outside.count(b"{")
        quotes += len(parts) - 1
    return values + math.ceil(quotes / 2)


def parsed_bytes(body: bytes) -> int:
    """Estimate the bytes of memory a body takes until it is answered; rather too high than too low."""
    return BYTE_BYTES * len(body) + COMMA_BYTES * body.count(b",") + VALUE_BYTES * _values_at_most(body)


def _values_at_most(body: bytes) -> int:
    return body.count(b'"') // 2 + body.count(b"[") + body.count(b"{")
