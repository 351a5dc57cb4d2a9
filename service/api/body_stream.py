"""Passes a body on part by part, decompressed, as fast as the application takes it. Knows no lines and no JSON."""

import asyncio
from collections import deque

from starlette.types import Message, Receive, Scope

from service.api.decompression import Decoder
from service.api.headers import header
from service.errors import BodyTimeout, ClientGone, TooLarge

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
PIECE_BYTES = 16 * 1024  # compressed bytes at a time: they may become a thousand times as many


def is_ndjson(scope: Scope) -> bool:
    """Whether a request's body has a line of JSON a document."""
    return header(scope, b"content-type").partition(";")[0].strip().lower() in NDJSON


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
