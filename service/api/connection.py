"""One client's connection: uvicorn's protocol, with limits and timeouts for heads, bodies and slow readers."""

import asyncio
import re
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.process.descriptors import AWAITED, ConnectionLimit

MAX_HEAD_BYTES = 64 * 1024  # URL and headers; checked after each read from the socket (at most 256 KiB)
MAX_WAITING_REQUESTS = 256  # requests pipelined on one connection
HEAD_TIMEOUT_S = 30.0  # until the first request begins, or a head is complete
REST_TIMEOUT_S = 30.0  # until a refused body, which is discarded, has been sent completely
REFUSED_TIMEOUT_S = 1.0  # for the request on an excess connection
READ_TIMEOUT_S = 60.0  # for a client to read some of its answers; the kernel reports about a megabyte at a time
ABSOLUTE_TARGET = re.compile(rb"[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]*)", re.IGNORECASE)
REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\n%bcontent-length: %d\r\n\r\n%b"


class Connection(HttpToolsProtocol):
    """Closes connections that stall or flood the service where the limits on bodies do not apply.

    It closes a connection if
    - the head is too long or does not arrive,
    - a refused body does not end,
    - chunk extensions or trailers are too long (trailers are discarded),
    - the client pipelines too many requests,
    - the client does not read: its answers would stay in memory.

    A request to upgrade the protocol is answered in HTTP/1.1 (RFC 9110, section 7.8). Java's HttpClient by default and
    `curl --http2` ask for HTTP/2 with each POST; uvicorn would drop the body.
    """

    def __init__(self, *args: Any, limit: ConnectionLimit | None = None, **options: Any) -> None:
        """limit: on the number of connections; None: no limit."""
        super().__init__(*args, **options)
        self._limit = limit
        self._is_too_many = False
        self.parser = _Parser(self)
        self._is_in_head = True
        self._head_bytes = 0
        self._body: list[bytes] = []  # of the data received last
        self._client_timeout: asyncio.TimerHandle | None = None  # timeout of what the client sends
        self._reader_timeout: asyncio.TimerHandle | None = None  # timeout of what the client reads

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request, or refuse an excess connection."""
        super().connection_made(transport)
        excess = len(self.connections) - self._limit.most if self._limit is not None else 0
        if excess <= 0:
            self._wait(HEAD_TIMEOUT_S)
        elif excess <= AWAITED:  # beyond these, refuse at once
            self._is_too_many = True
            self._client_timeout = self.loop.call_later(REFUSED_TIMEOUT_S, self._refuse_too_many)
        else:
            self._refuse_too_many()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeouts."""
        self._stop_waiting()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and count bytes of an incomplete head or outside of a body."""
        if self._is_too_many:
            self._refuse_too_many()
            return
        self._head_bytes += len(data)
        super().data_received(data)
        self._pass_on_body()
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            if self._is_in_head:
                self._refuse_head()
            else:  # trailers or chunk extensions; the request may have been answered already
                self.transport.close()
        elif self._is_in_head and self._client_timeout is None and self._head_bytes:
            self._wait(HEAD_TIMEOUT_S)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop a trailer."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request; abort a connection with too many of them, and refuse too long a URL that came at once."""
        if self.parser.should_upgrade():  # the parser stops here, and the head is parsed again
            return
        if len(self.pipeline) >= MAX_WAITING_REQUESTS:
            self.transport.abort()
            raise OverflowError  # stops the parser
        if len(self.url) >= MAX_HEAD_BYTES:
            self._refuse_head()
            raise OverflowError
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        if target := ABSOLUTE_TARGET.match(self.url):  # it wins over Host (RFC 9112, section 3.2.2)
            self.headers[:] = [(name, target[1] if name == b"host" else value) for name, value in self.headers]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the body's chunks: data may hold tens of thousands, and each takes uvicorn a microsecond or two."""
        self._head_bytes = 0
        self._body.append(body)

    def _pass_on_body(self) -> None:
        """Pass the body on; `BodyLimit` bounds it."""
        if self._body:
            body, self._body = b"".join(self._body), []
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect another head next."""
        if self.parser.should_upgrade():
            return
        self._pass_on_body()
        self._is_in_head = True
        self._head_bytes = 0
        self._stop_waiting()
        super().on_message_complete()
        if self.cycle.response_complete:  # uvicorn cancelled its keep-alive timeout when the rest of the body arrived
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Finish a request; if it was refused before its body was complete, wait for the rest."""
        super().on_response_complete()
        is_last = self.cycle.response_complete  # False: a pipelined request has begun
        if is_last and not self._is_in_head and not self.transport.is_closing():
            self._wait(REST_TIMEOUT_S)

    def pause_writing(self) -> None:
        """The write buffer is full: start the reader's timeout."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """The client has read most of the buffer: cancel the timeout."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        if not self.transport.is_closing():
            self._refuse(b"400 Bad Request", b"this is not an HTTP/1.1 request")

    def _refuse(self, status: bytes, sentence: bytes, kind: bytes = b"Validation", headers: bytes = b"") -> None:
        body = b'{"error":"%b","error_type":"%b"}' % (sentence, kind)
        self.transport.write(REFUSAL % (status, headers, len(body), body))
        self.transport.close()

    def _refuse_head(self) -> None:
        sentence = b"the URL and the headers have more than %d bytes" % MAX_HEAD_BYTES
        self._refuse(b"431 Request Header Fields Too Large", sentence)

    def _refuse_too_many(self) -> None:
        if self._limit is not None and not self.transport.is_closing():
            self._stop_waiting()
            sentence = self._limit.refuse().encode()
            self._refuse(b"503 Service Unavailable", sentence, b"Overloaded", b"retry-after: 1\r\n")

    def ignore_upgrade(self) -> tuple["_Parser", bytes]:
        """Return a new parser, and the head at which the last one stopped, without the header `Upgrade`.

        Raises: httptools.HttpParserError: the method is CONNECT; what follows is no HTTP.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("CONNECT is for proxies")
        headers = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        self.parser = _Parser(self)
        return self.parser, b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, headers)

    def _wait(self, timeout_s: float) -> None:
        self._client_timeout = self.loop.call_later(timeout_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._client_timeout is not None:
            self._client_timeout.cancel()
            self._client_timeout = None

    def _wait_for_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()

        def end_unless_read() -> None:
            if self.transport.get_write_buffer_size() < unread_bytes:
                self._wait_for_reader()
            else:
                self.transport.abort()  # `close` would wait for the client to read

        self._reader_timeout = self.loop.call_later(READ_TIMEOUT_S, end_unless_read)

    def _stop_waiting_for_reader(self) -> None:
        if self._reader_timeout is not None:
            self._reader_timeout.cancel()
            self._reader_timeout = None


class _Parser(httptools.HttpRequestParser):
    """httptools' parser, which stops behind a head that asks for another protocol: has it parsed without asking."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
        self._connection = connection

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # uvicorn only passes bytes
        """Parse the data, of any number of requests."""
        parser = self
        while True:
            try:
                return super(_Parser, parser).feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                rest = data[stopped.args[0] :]
                parser, head = self._connection.ignore_upgrade()
                data = head + rest
