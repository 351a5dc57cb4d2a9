"""Reads request bodies within limits, before any route sees them. Counts bytes; parses no JSON.

Chunked bodies count too, and all requests share one budget. A compressed body counts by its decompressed size. A
complete body counts by its estimated parsed size, several times its bytes. Bodies with too many values are refused.
A body with a document a line is passed on while it arrives, and only its share of the budget is bounded.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.body_stream import BodyStream, is_ndjson
from service.api.decompression import Decoder, decoder_of
from service.api.headers import header
from service.api.json_size import LONG_BYTES, MAX_VALUES, parsed_bytes, values_of
from service.api.policy import Body
from service.api.responses import error_response
from service.errors import BodyTimeout, ClientGone, MalformedBody, Overloaded, TooLarge, UnknownEncoding
from service.process.memory import return_free_memory

LARGE_BYTES = 10_000_000  # return this much memory to the system at once; it takes milliseconds
RETRY_AFTER_S = 1  # bodies are freed when they are answered, within about a second


@dataclass
class _Held:
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
        if scope["route_match"].policy.body is Body.LINES and is_ndjson(scope):
            await self._stream(scope, receive, send)
            return
        held = _Held()

        async def observed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._let_go(held, down_to=sum(map(len, held.chunks)))
            await send(message)

        try:
            await self._read(scope, receive, held)
            more_bytes = sum(map(parsed_bytes, held.chunks)) - held.size_bytes
            self._check_memory(more_bytes, held.size_bytes)
            self._hold(min(more_bytes, max(0, self._max_inflight_bytes // 2 - held.size_bytes)), held)
            held.chunks[:] = [b"".join(held.chunks)]  # drops the chunks: the body is in memory only once
            await _check_values(held.chunks[0])
            await self._app(scope, _Replay(held.chunks[0], receive), observed_send)
        except (BodyTimeout, MalformedBody, TooLarge, Overloaded, UnknownEncoding) as exc:
            # Keep the connection open: a client that is still sending would miss the answer if it were closed. The
            # server discards the rest of the body as it arrives.
            await error_response(scope["path"], exc)(scope, receive, send)
        except ClientGone:
            return
        finally:
            self._let_go(held, down_to=0)
            held.chunks.clear()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a body of any length on while it arrives; charge it two largest bodies: a line, and what is stored."""
        held, share_bytes = _Held(), min(2 * self._max_body_bytes, self._max_inflight_bytes // 2)
        try:
            if self._streamed_bytes + share_bytes > max(share_bytes, self._max_inflight_bytes // 2):
                raise Overloaded(
                    f"uploads would take {self._streamed_bytes + share_bytes} bytes of memory; the limit is "
                    f"{self._max_inflight_bytes // 2}, half of CROSSLET_MAX_INFLIGHT_BYTES",
                    retry_after_s=RETRY_AFTER_S,
                )
            self._check_memory(share_bytes, 0)
            self._hold(share_bytes, held)
            self._streamed_bytes += share_bytes
            decoder = decoder_of(header(scope, b"content-encoding"))
            stream = BodyStream(receive, decoder, max_piece_bytes=self._max_body_bytes, timeout_s=self._body_timeout_s)
            await self._app(scope, stream, send)
        except (TooLarge, Overloaded, UnknownEncoding) as exc:  # what the stream raises, the application answers
            await error_response(scope["path"], exc)(scope, receive, send)
        finally:
            self._streamed_bytes -= held.size_bytes
            self._let_go(held, down_to=0)

    async def _read(self, scope: Scope, receive: Receive, held: _Held) -> None:
        decoder = decoder_of(header(scope, b"content-encoding"))
        declared = header(scope, b"content-length")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            raise self._too_large(f"{declared} bytes")
        try:
            async with asyncio.timeout(self._body_timeout_s):
                await self._read_chunks(receive, decoder, held)
        except TimeoutError as exc:
            raise BodyTimeout(
                f"the body did not arrive completely within {self._body_timeout_s:g} s (CROSSLET_BODY_TIMEOUT_S)"
            ) from exc

    async def _read_chunks(self, receive: Receive, decoder: Decoder, held: _Held) -> None:
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
            self._check_memory(len(chunk), held.size_bytes)
            self._hold(len(chunk), held)
            held.chunks.append(chunk)
        decoder.end()

    def _hold(self, more_bytes: int, held: _Held) -> None:
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
        held.size_bytes += more_bytes

    def _let_go(self, held: _Held, *, down_to: int) -> None:
        freed_bytes = held.size_bytes - down_to
        self._inflight_bytes -= freed_bytes
        held.size_bytes = down_to
        if freed_bytes > LARGE_BYTES:
            asyncio.get_running_loop().call_soon(return_free_memory)  # otherwise the C heap keeps it

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(f"the body has {size}; the limit is {self._max_body_bytes} (CROSSLET_MAX_BODY_BYTES)")


async def _check_values(body: bytes) -> None:
    values = values_of(body) if len(body) <= LONG_BYTES else await asyncio.to_thread(values_of, body)
    if values > MAX_VALUES:
        raise TooLarge(f"the body has {values} lists, objects and strings; the limit is {MAX_VALUES} in one request")


class _Replay:
    """Replays the body to the application, then passes on the client's next message (a disconnect)."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
