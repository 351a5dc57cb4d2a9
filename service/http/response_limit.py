"""Bounds what clients have not read of their answers, over all of them. Knows bytes; knows no route."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Overloaded
from service.http.responses import error_response

LARGE_BYTES = 64 * 1024  # of an answer; as much of one the server keeps without waiting for the client
RETRY_AFTER_S = 1  # who reads does so in less
THE_END: Message = {"type": "http.response.body"}  # the server takes it when the client has read what was before


class ResponseLimit:
    """Counts each large answer until its client has read it; one that would go over `max_unread_bytes` is refused.

    By itself the server takes an answer that is whole and calls the request done, so clients that ask and do not read
    would fill the memory. Small answers, those of all writes among them, are sent whatever waits, as files are, which
    are given as they are read; so is a large one alone.
    """

    def __init__(self, app: ASGIApp, *, max_unread_bytes: int) -> None:
        self._app = app
        self._max_unread_bytes = max_unread_bytes
        self._unread_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. It ends when its answer is read, or the connection lost."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counted_bytes = 0
        begin: Message | None = None

        async def counted_send(message: Message) -> None:
            nonlocal counted_bytes, begin
            if message["type"] == "http.response.start":
                begin = message  # whether the answer is whole, its body tells
                return
            if begin is not None:
                size_bytes = _large_bytes(message)
                together_bytes = self._unread_bytes + size_bytes
                if together_bytes > max(size_bytes, self._max_unread_bytes) and size_bytes:
                    await error_response(scope["path"], self._overloaded(size_bytes))(scope, receive, send)
                    return
                counted_bytes, self._unread_bytes = size_bytes, together_bytes
                await send(begin)
                begin = None
            if counted_bytes:
                await send({**message, "more_body": True})
                message = THE_END
            await send(message)

        try:
            await self._app(scope, receive, counted_send)
        finally:
            self._unread_bytes -= counted_bytes

    def _overloaded(self, size_bytes: int) -> Overloaded:
        return Overloaded(
            f"clients have not read {self._unread_bytes} bytes of their answers, and this one has {size_bytes}; "
            f"the limit is {self._max_unread_bytes} (CROSSLET_MAX_UNREAD_BYTES)",
            retry_after_s=RETRY_AFTER_S,
        )


def _large_bytes(body: Message) -> int:
    """The length of a large answer that is whole in its first part; 0: it is small, or a file, given as it is read."""
    size_bytes = 0 if body.get("more_body", False) else len(body.get("body", b""))
    return size_bytes if size_bytes > LARGE_BYTES else 0
