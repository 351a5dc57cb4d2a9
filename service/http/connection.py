"""One client's connection: uvicorn's, with bounds on how long it waits for heads, bodies, readers. Knows no route."""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.process.descriptors import AWAITED, ConnectionLimit

MAX_HEAD_BYTES = 64 * 1024  # a URL and headers; what the system gives at once, 256 KiB at most, is read all the same
MAX_WAITING_REQUESTS = 256  # sent on one connection before the answers to those before them
HEAD_TIMEOUT_S = 30.0  # until the first request, or the end of a head that has begun
REST_TIMEOUT_S = 30.0  # until the end of a body whose request is answered already: it is refused, and thrown away
REFUSED_TIMEOUT_S = 1.0  # for the request of a connection too many
READ_TIMEOUT_S = 60.0  # for a client to read of its answers, as the system tells: a megabyte or so at a time
REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\n%bcontent-length: %d\r\n\r\n%b"


class Connection(HttpToolsProtocol):
    """Ends a connection that keeps the service waiting where what bounds bodies and requests does not see it.

    That is one whose head is too long or does not come, whose refused body does not end, that has ever more to say
    around its chunks or sends ever more requests before it has answers, or whose client does not read: answers that
    nobody reads would stay in memory. Trailers, headers behind a body in chunks, are thrown away.

    A request that asks for another protocol is answered in this one (RFC 9110, section 7.8), as Java's client expects,
    which asks for HTTP/2. The parser stops at such a head, so another one goes on with the body.
    """

    def __init__(self, *args: Any, limit: ConnectionLimit | None = None, **options: Any) -> None:
        """limit: of connections; None: there is none."""
        super().__init__(*args, **options)
        self._limit = limit
        self._is_too_many = False
        self.parser = _Parser(self, self._go_on)
        self._is_in_head = True
        self._head_bytes = 0
        self._patience: asyncio.TimerHandle | None = None  # with what the client has to send
        self._reader_patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, not for ever."""
        super().connection_made(transport)
        excess = len(self.connections) - self._limit.most if self._limit is not None else 0
        if excess <= 0:
            self._wait(HEAD_TIMEOUT_S)
        elif excess <= AWAITED:  # more are answered at once
            self._is_too_many = True
            self._patience = self.loop.call_later(REFUSED_TIMEOUT_S, self._refuse_too_many)
        else:
            self._refuse_too_many()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it to the parser, and count what belongs to a head that is not whole, or to no body."""
        if self._is_too_many:
            self._refuse_too_many()
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            if self._is_in_head:
                sentence = b"the URL and the headers have more than %d bytes" % MAX_HEAD_BYTES
                self._refuse(b"431 Request Header Fields Too Large", sentence)
            else:  # trailers, or what a chunk's size may have behind it: its request may be answered already
                self.transport.close()
        elif self._is_in_head and self._patience is None and self._head_bytes:
            self._wait(HEAD_TIMEOUT_S)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of a head; or a trailer."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= MAX_WAITING_REQUESTS:
            self.transport.abort()
            raise OverflowError  # stops the parser
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """What bodies may have is bounded elsewhere."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Whatever comes next is another head, or the body after one at which the parser stopped."""
        if self.parser.should_upgrade():
            return
        self._is_in_head = True
        self._head_bytes = 0
        self._stop_waiting()
        super().on_message_complete()
        if self.cycle.response_complete:  # uvicorn has stopped counting when the rest of the body came
            self._wait(HEAD_TIMEOUT_S)

    def on_response_complete(self) -> None:
        """A request is answered; one that was refused may have a body to come still."""
        super().on_response_complete()
        is_last = self.cycle.response_complete  # else another request has begun behind it
        if is_last and not self._is_in_head and not self.transport.is_closing():
            self._wait(REST_TIMEOUT_S)

    def pause_writing(self) -> None:
        """The client has more to read than it reads."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has read most of it."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        if not self.transport.is_closing():
            self._refuse(b"400 Bad Request", b"what came is not an HTTP/1.1 request")

    def _refuse(self, status: bytes, sentence: bytes, kind: bytes = b"Validation", headers: bytes = b"") -> None:
        body = b'{"error":"%b","error_type":"%b"}' % (sentence, kind)
        self.transport.write(REFUSAL % (status, headers, len(body), body))
        self.transport.close()

    def _refuse_too_many(self) -> None:
        if self._limit is not None and not self.transport.is_closing():
            self._stop_waiting()
            sentence = self._limit.refuse().encode()
            self._refuse(b"503 Service Unavailable", sentence, b"Overloaded", b"retry-after: 1\r\n")

    def _go_on(self, data: bytes) -> None:
        """Parse what follows the head of a request that asked for another protocol."""
        framing = [header for header in self.headers if header[0] in {b"content-length", b"transfer-encoding"}]
        self.parser = _Parser(_AfterHead(self), self._go_on)
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % header for header in framing))
        self.parser.feed_data(data)

    def _wait(self, timeout_s: float) -> None:
        self._patience = self.loop.call_later(timeout_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _wait_for_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._reader_patience = self.loop.call_later(READ_TIMEOUT_S, self._end_unless_read, unread_bytes)

    def _end_unless_read(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._wait_for_reader()
        else:
            self.transport.abort()  # `close` would wait for the reader

    def _stop_waiting_for_reader(self) -> None:
        if self._reader_patience is not None:
            self._reader_patience.cancel()
            self._reader_patience = None


class _Parser(httptools.HttpRequestParser):
    """httptools' parser; gives away what follows a head that asks for another protocol."""

    def __init__(self, protocol: object, go_on: Callable[[bytes], None]) -> None:
        super().__init__(protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._go_on = go_on

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # uvicorn gives it nothing else
        """Parse the data, or its beginning."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self._go_on(data[stopped.args[0] :])


class _AfterHead:
    """What a parser calls that is given a head again: the connection, which knows it, hears of what comes after it."""

    def __init__(self, connection: Connection) -> None:
        self._is_again = True
        self.on_message_begin = self._unless_again(connection.on_message_begin)
        self.on_url = self._unless_again(connection.on_url)
        self.on_header = self._unless_again(connection.on_header)
        self._on_headers_complete = connection.on_headers_complete
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete

    def on_headers_complete(self) -> None:
        """From here on everything is news."""
        if self._is_again:
            self._is_again = False
        else:
            self._on_headers_complete()

    def _unless_again(self, callback: Callable[..., None]) -> Callable[..., None]:
        def call(*data: bytes) -> None:
            if not self._is_again:
                callback(*data)

        return call
