"""Reads request bodies within limits, before anything else looks at them. Knows bytes; parses no JSON.

Differs from a check in each route: chunked bodies count too, and all requests together stay under one budget. Of a
compressed body, the bytes it stands for are counted. A body that would be many times its size when parsed is refused.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.answers import error_response
from service.decompression import Decoder, decoder_of
from service.errors import BodyTimeout, ClientGone, MalformedBody, Overloaded, TooLarge, UnknownEncoding
from service.headers import header
from service.json_size import MAX_VALUES, values_of

RETRY_AFTER_S = 1  # bodies leave memory with their answers, within a second or so


class BodyLimit:
    """Holds one request's body up to `max_body_bytes`, and all bodies together up to `max_inflight_bytes`.

    A body has `body_timeout_s` to arrive: clients that stop half-way must not keep the memory of all others.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, max_inflight_bytes: int, body_timeout_s: float) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_inflight_bytes = max_inflight_bytes
        self._body_timeout_s = body_timeout_s
        self._inflight_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, pass the request on with it, and count it until the answer is sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chunks: list[bytes] = []
        try:
            await self._read(scope, receive, chunks)
            chunks[:] = [b"".join(chunks)]  # in memory once, not twice, while the application works
            _check_values(chunks[0])
            await self._app(scope, _Replay(chunks[0], receive), send)
        except (BodyTimeout, MalformedBody, TooLarge, Overloaded, UnknownEncoding) as exc:
            # The connection stays open: closed under a client that still sends, the answer would be lost to it. The
            # server throws the rest of the body away as it arrives.
            await error_response(scope["path"], exc)(scope, receive, send)
        except ClientGone:
            return
        finally:
            self._inflight_bytes -= sum(map(len, chunks))
            chunks.clear()

    async def _read(self, scope: Scope, receive: Receive, chunks: list[bytes]) -> None:
        decoder = decoder_of(header(scope, b"content-encoding"))
        declared = header(scope, b"content-length")
        if declared.isdigit() and int(declared) > self._max_body_bytes:
            raise self._too_large(f"{declared} bytes")
        try:
            async with asyncio.timeout(self._body_timeout_s):
                await self._read_chunks(receive, decoder, chunks)
        except TimeoutError as exc:
            raise BodyTimeout(
                f"the body did not arrive whole in {self._body_timeout_s:g} s (CROSSLET_BODY_TIMEOUT_S)"
            ) from exc

    async def _read_chunks(self, receive: Receive, decoder: Decoder, chunks: list[bytes]) -> None:
        size_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client left while sending its body")
            room_bytes = self._max_body_bytes - size_bytes
            chunk = decoder.add(message.get("body", b""), at_most_bytes=room_bytes + 1)  # + 1: to see what is over it
            more = message.get("more_body", False)
            size_bytes += len(chunk)
            if size_bytes > self._max_body_bytes:
                raise self._too_large(f"more than {self._max_body_bytes} bytes")
            self._hold(chunk, chunks)
        decoder.end()

    def _hold(self, chunk: bytes, chunks: list[bytes]) -> None:
        wanted = self._inflight_bytes + len(chunk)
        if wanted > self._max_inflight_bytes:
            raise Overloaded(
                f"request bodies would take {wanted} bytes of memory; "
                f"the limit is {self._max_inflight_bytes} (CROSSLET_MAX_INFLIGHT_BYTES)",
                retry_after_s=RETRY_AFTER_S,
            )
        self._inflight_bytes = wanted
        chunks.append(chunk)

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(f"the body has {size}; the limit is {self._max_body_bytes} (CROSSLET_MAX_BODY_BYTES)")


def _check_values(body: bytes) -> None:
    values = values_of(body)
    if values > MAX_VALUES:
        raise TooLarge(f"the body has {values} lists, objects and strings; the limit is {MAX_VALUES} in one request")


class _Replay:
    """Hands out the body that was read, then what the client does next (it leaves)."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
