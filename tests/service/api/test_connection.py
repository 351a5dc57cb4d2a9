"""Limits and timeouts of a connection."""

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api import connection
from service.api.connection import MAX_HEAD_BYTES, MAX_WAITING_REQUESTS
from tests.service.api.connections import MUCH_BYTES, much, respond, serving


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await respond(send, body)


async def answers(*parts: bytes, pause_s: float = 0.0, app: ASGIApp = echo) -> bytes:
    """Send the parts, and return everything the server sends until it closes the connection."""
    async with serving(app) as address:
        reader, writer = await asyncio.open_connection(*address)
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        said = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return said


def test_requests_on_one_connection_are_all_answered() -> None:
    request = b"POST / HTTP/1.1\r\ncontent-length: 3\r\nx: " + b"y" * 20_000 + b"\r\n\r\nabc"
    cut = [(request * 5)[start : start + 7001] for start in range(0, 5 * len(request), 7001)]
    assert asyncio.run(answers(*cut, pause_s=0.01)).count(b"HTTP/1.1 200 OK") == 5


def test_bodies_of_tiny_chunks_that_come_at_once_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[bytes] = []
    take = HttpToolsProtocol.on_body
    monkeypatch.setattr(HttpToolsProtocol, "on_body", lambda self, body: parts.append(body) or take(self, body))
    begin = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    requests = [begin + b"1\r\n%b\r\n" % letter * 20_000 + b"0\r\n\r\n" for letter in (b"a", b"b", b"c")]
    said = asyncio.run(answers(b"".join(requests)))
    assert [said.count(letter * 20_000) for letter in (b"a", b"b", b"c")] == [1, 1, 1]
    assert b"".join(parts) == b"a" * 20_000 + b"b" * 20_000 + b"c" * 20_000
    assert len(parts) < 1000  # not one a chunk


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nx: ", b"GET /", b"GET / HTTP/1.1\r\n"])
def test_a_head_without_an_end_is_refused(begin: bytes) -> None:
    filler = b"a: b\r\n" * 20 if begin.endswith(b"\r\n") else b"a" * 120
    said = asyncio.run(answers(begin, *[filler * 100] * (MAX_HEAD_BYTES // 12_000 + 2), pause_s=0.001))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert f"more than {MAX_HEAD_BYTES} bytes".encode() in said


def test_a_long_url_that_comes_at_once_is_refused() -> None:
    whole = b"GET /documents?filter=" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n"
    said = asyncio.run(answers(whole))
    assert said.count(b"HTTP/1.1 ") == 1
    assert said.startswith(b"HTTP/1.1 431 ")
    assert f"more than {MAX_HEAD_BYTES} bytes".encode() in said


@pytest.mark.parametrize(
    "parts", [[b"no HTTP\r\n\r\n"], [b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"x"]]
)
def test_what_is_no_http_is_refused_in_json(parts: list[bytes]) -> None:
    head, body = asyncio.run(answers(*parts)).split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["error_type"] == "Validation"


@pytest.mark.parametrize("parts", [[], [b"GET / HTTP/1.1\r\nx"], [b"GET / HTTP/1.1\r\n\r\n", b"GET"]])
def test_a_head_that_does_not_come_ends_the_connection(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 1.0)
    assert asyncio.run(answers(*parts, pause_s=0.05)).count(b"HTTP/1.1 ") == (len(parts) == 2)


CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [(b"0\r\n", b"a: b\r\n"), (b"0\r\na: ", b"b"), (b"1;", b"x")],
    ids=["trailers", "a trailer", "behind a chunk's size"],
)
def test_endless_trailers_end_the_connection(begin: bytes, more: bytes) -> None:
    parts = [more * (10_000 // len(more))] * (MAX_HEAD_BYTES // 10_000 + 2)
    assert asyncio.run(answers(CHUNKED + begin, *parts, pause_s=0.005)) == b""


def test_a_large_body_in_small_chunks_is_taken() -> None:
    said = asyncio.run(answers(*[CHUNKED, *[b"1\r\na\r\n" * 5000] * 20, b"0\r\n\r\n"], pause_s=0.005))
    assert said.endswith(b"\r\n\r\n" + b"a" * 100_001)


@pytest.mark.parametrize(
    "body", [b"content-length: 1\r\n\r\na", b"transfer-encoding: chunked\r\n\r\n1;b=c\r\na\r\n0\r\n\r\n"]
)
def test_a_long_head_takes_nothing_from_what_its_body_may_have(body: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nx: " + b"y" * (MAX_HEAD_BYTES - 100) + b"\r\n"
    framing, _, rest = body.partition(b"\r\n\r\n")
    said = asyncio.run(answers(head, framing + b"\r\n\r\n", *rest.splitlines(keepends=True), pause_s=0.05))
    assert said.endswith(b"\r\n\r\na")


def test_a_trailer_is_no_header() -> None:
    async def names(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            pass
        await respond(send, b" ".join(name for name, _ in scope["headers"]))

    plain = b"GET / HTTP/1.1\r\nhost: b\r\n\r\n"
    said = asyncio.run(answers(CHUNKED + b"0\r\nauthorization: c\r\n\r\n" + plain, app=names))
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in said.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"transfer-encoding", b"host"]


@pytest.mark.parametrize("too_many", [0, 1])
def test_requests_that_wait_on_one_connection_are_bounded(too_many: int) -> None:
    requests = b"GET / HTTP/1.1\r\n\r\n" * (1 + MAX_WAITING_REQUESTS + too_many)
    try:
        said = asyncio.run(answers(requests))
    except ConnectionResetError:
        said = b""
    assert said.count(b" 200 OK") == (0 if too_many else 1 + MAX_WAITING_REQUESTS)


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nUpgrade: h2c\r\n"
FRAMED = {
    "by its length": b"content-length: 5\r\n\r\nhello",
    "in chunks": b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("framing", FRAMED)
def test_who_asks_for_another_protocol_is_answered_in_this_one(framing: str, step: int) -> None:
    asks, plain = (
        b"POST /a HTTP/1.1\r\n" + UPGRADE + FRAMED[framing],
        b"POST /b HTTP/1.1\r\ncontent-length: 2\r\n\r\nok",
    )
    stream = asks + plain + asks + b"GET /c HTTP/1.1\r\n" + UPGRADE + b"\r\n" + plain
    said = asyncio.run(answers(*[stream[start : start + step] for start in range(0, len(stream), step)]))
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in said.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"hello", b"ok", b"hello", b"", b"ok"]


JAVA = """
import java.net.URI;
import java.net.http.*;

public class Client {
  public static void main(String[] url) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofString("hello");
    HttpRequest request = HttpRequest.newBuilder(URI.create(url[0])).POST(body).build();
    for (int i = 0; i < 2; i++) System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
  }
}
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["curl", "--silent", "--http2", "--data", "hello", "{url}", "{url}"], id="curl"),
        pytest.param(["java", "-XX:TieredStopAtLevel=1", "{java}", "{url}"], id="java", marks=pytest.mark.slow),
    ],
)
def test_clients_that_ask_for_http2_keep_their_body(command: list[str], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (tmp_path / "Client.java").write_text(JAVA, encoding="utf-8")

    async def output() -> bytes:
        async with serving(echo) as (host, port):
            names = {"url": f"http://{host}:{port}/", "java": tmp_path / "Client.java"}
            client = await asyncio.create_subprocess_exec(*(part.format(**names) for part in command), stdout=PIPE)
            return (await asyncio.wait_for(client.communicate(), 60))[0]

    assert asyncio.run(output()) == b"hellohello"


def test_many_upgrades_that_come_at_once_are_all_answered() -> None:
    requests = b"POST /a HTTP/1.1\r\n" + UPGRADE + FRAMED["by its length"]
    assert asyncio.run(answers(requests * MAX_WAITING_REQUESTS)).count(b" 200 OK") == MAX_WAITING_REQUESTS


def test_connect_is_refused() -> None:
    said = asyncio.run(answers(b"CONNECT localhost:443 HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    assert said.startswith(b"HTTP/1.1 400 ")


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, b"", status=413)


@pytest.mark.parametrize("rest", [b"", b"c", b"cde", b"cdePOST / HTTP/1.1\r\ncontent-length: 9\r\n\r\na"])
def test_a_refused_body_that_does_not_end_ends_the_connection(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it arrives after the answer, although uvicorn cancels its own timeout at every byte."""
    monkeypatch.setattr(connection, "REST_TIMEOUT_S", 0.9)
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.9)
    head = b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"
    said = asyncio.run(asyncio.wait_for(answers(head, rest, pause_s=0.02, app=refuse), 30))
    assert said.count(b"HTTP/1.1 413 ") == 1 + rest.count(b"POST")


def test_a_request_after_a_refused_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    request = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nab"
    assert asyncio.run(answers(request[:-1], request[-1:] + request, pause_s=0.02, app=refuse)).count(b" 413 ") == 2


def test_a_body_behind_an_answered_request_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REST_TIMEOUT_S", 0.1)
    head = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n"
    assert asyncio.run(answers(head + b"ab" + head + b"a", b"b", pause_s=0.4)).count(b" 200 ") == 2


@pytest.mark.parametrize("is_read", [False, True])
def test_only_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch, is_read: bool) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT_S", 1.5)

    async def received_bytes() -> int:
        async with serving(much) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            received = 0
            for _ in range(8):  # 4.8 s: three times what a client has that reads nothing
                received += len(await reader.readexactly(2**21)) if is_read else 0
                await asyncio.sleep(0.6)
            try:
                while data := await reader.read(2**21):
                    received += len(data)
            except ConnectionError:
                pass
            writer.close()
            return received

    assert (asyncio.run(asyncio.wait_for(received_bytes(), 60)) >= MUCH_BYTES) == is_read


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://evil.example/documents", b"evil.example"),
        (b"HTTP://a@evil.example:81/?x", b"evil.example:81"),
        (b"http://[::1]:80/", b"[::1]:80"),
        (b"/http://evil.example/", b"localhost"),
    ],
)
def test_the_host_of_an_absolute_target_is_the_requests(target: bytes, host: bytes) -> None:
    async def hosts(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, b",".join(value for name, value in scope["headers"] if name == b"host"))

    said = asyncio.run(answers(b"GET " + target + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", app=hosts))
    assert said.partition(b"\r\n\r\n")[2] == host


@pytest.mark.parametrize("rest", [[], [b"cde"]])
def test_an_idle_connection_is_kept_as_long_as_is_set(rest: list[bytes]) -> None:
    """Also after a refused body, whose rest arrives later."""

    async def seconds() -> float:
        async with serving(refuse) as address:  # which keeps connections for a second
            reader, writer = await asyncio.open_connection(*address)
            started_at = asyncio.get_running_loop().time()
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (3 * len(rest)))
            await reader.readuntil(b"\r\n\r\n")
            if rest:
                await asyncio.sleep(0.1)
                started_at = asyncio.get_running_loop().time()
                writer.writelines(rest)
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            return asyncio.get_running_loop().time() - started_at

    assert 0.95 < asyncio.run(seconds()) < 10
