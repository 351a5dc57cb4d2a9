"""One client's connection: uvicorn's, with bounds on what comes before a body. Knows HTTP/1.1; knows no route."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024  # a URL and headers; what the system gives at once, 256 KiB at most, is read all the same
HEAD_TIMEOUT_S = 30.0  # until the first request, or the end of a head that has begun
TOO_LARGE = b'{"error":"the URL and the headers have more than %d bytes","error_type":"Validation"}' % MAX_HEAD_BYTES
REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(TOO_LARGE), TOO_LARGE)
)


class Connection(HttpToolsProtocol):
    """Ends a connection whose head is too long or does not come: what bounds bodies and requests sees neither."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_in_head = True
        self._head_bytes = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, not for ever."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it to the parser, and count what belongs to a head that is not whole."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.write(REFUSAL)
                self.transport.close()
            elif self._patience is None and self._head_bytes:
                self._wait_for_head()

    def on_headers_complete(self) -> None:
        """A request begins."""
        self._is_in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Whatever comes next is another head."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
