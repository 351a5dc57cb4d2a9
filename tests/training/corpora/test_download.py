"""Against a server on this machine that answers as told: request by request, from a script."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from training.corpora.download import Patience, download
from training.errors import FetchError

BODY = bytes(range(256)) * 4_000  # about a megabyte
HALF = len(BODY) // 2
EAGER = Patience(attempts=3, pause_s=0.0)

Answer = Callable[[BaseHTTPRequestHandler], None]


class ScriptedServer(ThreadingHTTPServer):
    """Gives the next answer of a path's script to each request for it; the last one again and again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts: dict[str, list[Answer]] = {}
        self.ranges: list[str | None] = []  # that were asked for, in order

    def url(self, *answers: Answer, path: str = "/file.zip") -> str:
        self.scripts[path] = list(answers)
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_GET(self) -> None:
        self.server.ranges.append(self.headers["Range"])
        script = self.server.scripts.get(self.path, [status(404)])
        answer = script.pop(0) if len(script) > 1 else script[0]
        answer(self)

    def log_message(self, *_: object) -> None:
        pass


def reply(handler: BaseHTTPRequestHandler, code: int, body: bytes, **headers: object) -> None:
    handler.send_response(code)
    handler.send_header("Connection", "close")  # said: a client that follows a redirect would ask again on this one
    for name, value in {"Content_Length": len(body), **headers}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def status(code: int, **headers: object) -> Answer:
    return lambda handler: reply(handler, code, b"no", **headers)


def whole(body: bytes = BODY, **headers: object) -> Answer:
    """All of it, whatever part was asked for."""
    return lambda handler: reply(handler, 200, body, **headers)


def resumable(body: bytes = BODY, etag: str = '"1"', stop: int | None = None) -> Answer:
    """Honours Range as RFC 9110 says; breaks off at byte `stop` of the file."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked, validator = handler.headers["Range"], handler.headers["If-Range"]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and validator == etag else 0
        headers: dict[str, object] = {"ETag": etag, "Content_Length": len(body) - start}
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        reply(handler, 206 if start else 200, body[start:stop], **headers)

    return answer


@pytest.fixture(scope="module")
def running() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(running: ScriptedServer) -> ScriptedServer:
    running.scripts.clear()
    running.ranges.clear()
    return running


def fetched(url: str, folder: Path, **options: object) -> bytes:
    download(url, folder / "file.zip", patience=EAGER, **options)
    assert [path.name for path in folder.iterdir()] == ["file.zip"]  # nothing else is left
    return (folder / "file.zip").read_bytes()


def test_a_file_comes_whole(server: ScriptedServer, tmp_path: Path) -> None:
    assert fetched(server.url(whole()), tmp_path) == BODY
    assert fetched(server.url(whole(b"")), tmp_path) == b""


def test_a_later_call_resumes_an_earlier_download(server: ScriptedServer, tmp_path: Path) -> None:
    url = server.url(resumable(stop=HALF))
    with pytest.raises(FetchError, match=r"could not be downloaded: .*; run again to resume"):
        download(url, tmp_path / "file.zip", patience=EAGER)
    assert not (tmp_path / "file.zip").exists()
    server.ranges.clear()
    assert fetched(server.url(resumable()), tmp_path) == BODY
    assert server.ranges == [f"bytes={HALF}-"]


def other_part(handler: BaseHTTPRequestHandler) -> None:
    reply(handler, 206, BODY[7:], ETag='"1"', Content_Range=f"bytes 7-{len(BODY) - 1}/{len(BODY)}")


FROM_HALF = f"bytes={HALF}-"
NEW = {"body": BODY[::-1], "etag": '"2"'}
INTERRUPTED = {  # answers to each request, what is asked for in each, and the file at the end
    "dropped": (
        [resumable(stop=HALF), resumable(stop=HALF + 1_000), resumable()],
        [None, FROM_HALF, f"bytes={HALF + 1_000}-"],
        BODY,
    ),
    "changed": (
        [resumable(stop=HALF), resumable(**NEW, stop=HALF), resumable(**NEW)],
        [None, FROM_HALF, FROM_HALF],
        NEW["body"],
    ),
    "without ranges": ([resumable(stop=HALF), whole(ETag='"1"')], [None, FROM_HALF], BODY),
    "weak validator": ([resumable(etag='W/"1"', stop=HALF), resumable(etag='W/"1"')], [None, None], BODY),
    "no validator": ([resumable(etag="", stop=HALF), resumable(etag="")], [None, None], BODY),
    "wrong part": ([resumable(stop=HALF), other_part, resumable()], [None, FROM_HALF, None], BODY),
    "no such part": ([resumable(stop=HALF), status(416), resumable()], [None, FROM_HALF, None], BODY),
}


@pytest.mark.parametrize(("answers", "ranges", "body"), INTERRUPTED.values(), ids=INTERRUPTED)
def test_a_broken_transfer_ends_in_the_servers_file(
    server: ScriptedServer, tmp_path: Path, answers: list[Answer], ranges: list[str | None], body: bytes
) -> None:
    assert fetched(server.url(*answers), tmp_path) == body
    assert server.ranges == ranges


def test_a_length_that_is_too_long_never_makes_a_finished_file(server: ScriptedServer, tmp_path: Path) -> None:
    url = server.url(whole(Content_Length=len(BODY) + 10, ETag='"1"'))
    with pytest.raises(FetchError, match="could not be downloaded"):
        download(url, tmp_path / "file.zip", patience=EAGER)
    assert not (tmp_path / "file.zip").exists()
    assert len(server.ranges) == EAGER.attempts


def test_a_length_that_is_too_short_is_found_by_the_checksum(server: ScriptedServer, tmp_path: Path) -> None:
    url = server.url(whole(Content_Length=HALF))
    with pytest.raises(FetchError, match=r"has the checksum [0-9a-f]{64}, the catalogue [0-9a-f]{64}"):
        download(url, tmp_path / "file.zip", sha256=hashlib.sha256(BODY).hexdigest(), patience=EAGER)
    assert not list(tmp_path.iterdir())
    assert fetched(server.url(whole()), tmp_path, sha256=hashlib.sha256(BODY).hexdigest()) == BODY


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_busy_server_is_retried(server: ScriptedServer, tmp_path: Path, code: int) -> None:
    assert fetched(server.url(status(code, Retry_After=0), status(code), whole()), tmp_path) == BODY
    with pytest.raises(FetchError, match=f"could not be downloaded: the server answered {code}"):
        download(server.url(status(code)), tmp_path / "other.zip", patience=EAGER)


@pytest.mark.parametrize("code", [404, 403, 410])
def test_a_refusal_is_final(server: ScriptedServer, tmp_path: Path, code: int) -> None:
    with pytest.raises(FetchError, match=rf"file\.zip cannot be downloaded: the server answered {code} "):
        download(server.url(status(code)), tmp_path / "file.zip", patience=EAGER)
    assert len(server.ranges) == 1
    assert not list(tmp_path.iterdir())


def test_a_redirect_is_followed(server: ScriptedServer, tmp_path: Path) -> None:
    target = server.url(whole(), path="/elsewhere.zip")
    assert fetched(server.url(status(302, Location=target)), tmp_path) == BODY


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:9/file.zip", "http://[bad/file.zip", "gopher://127.0.0.1/file.zip"):
        with pytest.raises(FetchError, match=r"file\.zip (could not|cannot) be downloaded: "):
            download(url, tmp_path / "file.zip", patience=EAGER)


def test_a_part_that_is_a_link_is_not_written_through(server: ScriptedServer, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (".file.zip.partial", ".file.zip.partial.mark"):
        (tmp_path / name).symlink_to(victim)
    download(server.url(whole(ETag='"1"')), tmp_path / "file.zip", patience=EAGER)
    assert (tmp_path / "file.zip").read_bytes() == BODY
    assert victim.read_text() == "precious"
