import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.allocator import answered_load, embed


@contextmanager
def server(statuses: list[HTTPStatus]) -> Iterator[int]:
    """Serves these responses, then repeats the last one; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def test_a_load_with_a_failed_request_gives_no_figures() -> None:
    with server([HTTPStatus.OK]) as port:
        assert answered_load(port, [embed("a")], clients=1, seconds=1.0).latency_ms
    with (
        server([HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.OK]) as port,
        pytest.raises(RuntimeError, match=r"1 requests failed.*\{429: 1\}"),
    ):
        answered_load(port, [embed("a")], clients=1, seconds=1.0)
