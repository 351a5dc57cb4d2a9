"""Bounds the bytes of answers that clients have not read yet, over all clients."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.responses import error_response
from service.errors import Overloaded

LARGE_BYTES = 64 * 1024  # answers up to this size are not counted; uvicorn's write buffer takes as much
RETRY_AFTER_S = 1  # a client that reads does so within a second
THE_END: Message = {"type": "http.response.body"}  # uvicorn accepts it once the client has read the part before


class ResponseLimit:
    """Counts each large answer until its client has read it; refuses one that would exceed `max_unread_bytes`.

    uvicorn buffers a complete answer and ends the request, so clients that never read could fill the memory. Three
    kinds of answer are always sent: small ones (all writes'), files, which are streamed, and a large one if no other is
    waiting.
    """

    def __init__(self, app: ASGIApp, *, max_unread_bytes: int) -> None:
        self._app = app
        self._max_unread_bytes = max_unread_bytes
        self._unread_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. It ends when the client has read its answer or disconnected."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counted_bytes = 0
        begin: Message | None = None

        async def counted_send(message: Message) -> None:
            nonlocal counted_bytes, begin
            if message["type"] == "http.response.start":
                begin = message  # held back: the body tells whether the answer is large
                return
            if begin is not None:
                size_bytes = 0 if message.get("more_body") else len(message.get("body", b""))  # a file is streamed
                size_bytes = size_bytes if size_bytes > LARGE_BYTES else 0
                together_bytes = self._unread_bytes + size_bytes
                if together_bytes > max(size_bytes, self._max_unread_bytes) and size_bytes:
                    error = Overloaded(
                        f"clients have not yet read {self._unread_bytes} bytes of answers, and this answer has "
                        f"{size_bytes}; the limit is {self._max_unread_bytes} (CROSSLET_MAX_UNREAD_BYTES)",
                        retry_after_s=RETRY_AFTER_S,
                    )
                    await error_response(scope["path"], error)(scope, receive, send)
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
