import asyncio
import gzip
import json
import tracemalloc
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, lists, recursive, text
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.body_limit import BodyLimit, values_of
from service.api.policy import Access, Policy
from service.api.responses import error_response
from service.api.routing import RouteMatch
from service.errors import Overloaded
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

pytestmark = pytest.mark.anyio
JSON = {"content-type": "application/json"}
GZIP = JSON | {"content-encoding": "gzip"}
SCOPE: Scope = {
    "type": "http",
    "path": "/embed",
    "headers": [],
    "route_match": RouteMatch(None, "/embed", frozenset(), Policy(Access.READ)),
}


def test_a_declared_body_over_the_limit_is_413_with_both_numbers(serve: Serve) -> None:
    response = serve(max_body_bytes=100).post("/embed", content=b"x" * 101)
    assert_refused(response, 413, "TooLarge", "101 bytes; the limit is 100 (CROSSLET_MAX_BODY_BYTES)")


def test_openais_clients_are_told_to_come_back() -> None:
    answer = error_response("/v1/embeddings", Overloaded("full", retry_after_s=3))
    assert json.loads(bytes(answer.body))["error"]["type"] == "rate_limit_error"


def test_a_chunked_body_over_the_limit_is_413(serve: Serve) -> None:
    response = serve(max_body_bytes=100).post("/embed", content=(b"x" * 50 for _ in range(10)))
    assert_refused(response, 413, "TooLarge", "more than 100 bytes")


def test_a_body_at_the_limit_is_read(serve: Serve) -> None:
    body = b'{"inputs": "hallo"}'
    client = serve(max_body_bytes=len(body))
    assert client.post("/embed", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize("value", [b"[]", b"{}", b'"ab"', b'[""]', b'{"[":1}'])
def test_a_body_of_too_many_values_is_refused_unparsed(serve: Serve, value: bytes) -> None:
    client = serve()
    for path in ("/embed", "/v1/embeddings"):
        body = b'{"inputs": [' + b",".join([value] * 250_000) + b"]}"
        response = client.post(path, content=body, headers=JSON)
        assert response.status_code == 413
        assert "lists, objects and strings; the limit is 250000 in one request" in response.text
    assert client.put("/documents", content=body, headers=JSON).status_code == 413


def test_brackets_and_quotes_in_a_text_are_text(serve: Serve) -> None:
    text = "[{" * 20_000 + '"\\' * 20_000
    response = serve().post("/embed", json={"inputs": [f"{number} {text}" for number in range(10)]})
    assert response.status_code == 200


@given(recursive(text('[{"]}a'), lambda inner: lists(inner) | dictionaries(text('"[{\\'), inner)))
def test_values_are_counted_as_a_parser_makes_them(content: object) -> None:
    with patch("service.api.body_limit.MAX_VALUES", 0):
        assert values_of(orjson.dumps(content)) == count_of(content)


def count_of(content: object) -> int:
    if isinstance(content, dict):
        return 1 + len(content) + sum(map(count_of, content.values()))
    return 1 + sum(map(count_of, content)) if isinstance(content, list) else 1


def test_a_gzip_body_is_read_as_what_it_stands_for(serve: Serve) -> None:
    client = serve()
    packed = gzip.compress(b'{"inputs": "hallo"}')
    response = client.post("/embed", content=packed, headers=GZIP)
    assert response.json() == client.post("/embed", json={"inputs": "hallo"}).json()


def test_of_a_gzip_body_the_bytes_it_stands_for_are_limited(serve: Serve) -> None:
    client = serve(max_body_bytes=1000)
    for size, status in ((1000, 400), (1001, 413), (100_000_000, 413)):  # 400: read, and no JSON
        packed = gzip.compress(bytes(size))
        for content in (packed, iter([packed])):  # with its length declared, and chunked
            if len(packed) > 1000 and content is packed:
                continue  # refused by its declared length already
            response = client.post("/embed", content=content, headers=GZIP)
            assert response.status_code == status, response.text
    assert_refused(response, 413, "TooLarge", "more than 1000 bytes", "1000 (CROSSLET_MAX_BODY_BYTES)")


@pytest.mark.parametrize(
    ("encoding", "content", "status"),
    [
        ("gzip", b'{"inputs": "hallo"}', 400),
        ("gzip", gzip.compress(b'{"inputs": "hallo"}')[:-4], 400),
        ("br", b"", 415),
    ],
    ids=["not packed", "cut short", "another encoding"],
)
def test_a_body_in_the_wrong_encoding_is_a_typed_error(
    serve: Serve, encoding: str, content: bytes, status: int
) -> None:
    response = serve().post("/embed", content=content, headers=JSON | {"content-encoding": encoding})
    assert_refused(response, status, "Validation")


class Exchange:
    """One request, whose body comes in these messages."""

    def __init__(self, *messages: Message) -> None:
        self.messages = list(messages)
        self.received = 0
        self.status: int | None = None

    async def through(self, limit: BodyLimit, scope: Scope = SCOPE) -> None:
        await limit(scope, self.receive, self.send)

    async def receive(self) -> Message:
        self.received += 1
        return self.messages.pop(0) if self.messages else {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]


def part(size: int, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


def limit_of(application: ASGIApp, *, inflight_bytes: int = 60, body_timeout_s: float = 30) -> BodyLimit:
    """A limit of 60 bytes for each body."""
    return BodyLimit(application, max_body_bytes=60, max_inflight_bytes=inflight_bytes, body_timeout_s=body_timeout_s)


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("reached the application")


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


class Answering:
    """An application that begins its answer when it is let go, and ends it when that is read."""

    def __init__(self) -> None:
        self.may_begin, self.is_read = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.may_begin.wait()
        await answer(scope, receive, send)
        await self.is_read.wait()


async def test_an_endless_body_is_not_read_to_its_end() -> None:
    exchange = Exchange(*[part(25, more=True) for _ in range(1000)])
    await exchange.through(limit_of(never, inflight_bytes=1000))
    assert (exchange.status, exchange.received) == (413, 3)


async def test_all_bodies_together_stay_under_the_budget() -> None:
    application = Answering()
    application.is_read.set()
    limit = limit_of(application, inflight_bytes=100)
    first, second, third = (Exchange(part(60)) for _ in range(3))
    held = asyncio.create_task(first.through(limit))
    await asyncio.sleep(0)
    await second.through(limit)
    assert second.status == 429
    application.may_begin.set()
    await held
    await third.through(limit)
    assert (first.status, third.status) == (200, 200)


async def test_a_whole_body_counts_by_its_parsed_size() -> None:
    application = Answering()
    limit = limit_of(application, inflight_bytes=320)
    exchanges = [Exchange(part(40)) for _ in range(5)]
    held = [asyncio.create_task(one.through(limit)) for one in exchanges[:3]]
    await asyncio.sleep(0.01)
    assert [one.status for one in exchanges[:3]] == [None, None, 429]  # 40 bytes take 160
    application.may_begin.set()
    await asyncio.sleep(0.01)
    held += [asyncio.create_task(one.through(limit)) for one in exchanges[3:]]
    await asyncio.sleep(0.01)
    assert [one.status for one in exchanges] == [200, 200, 429, 200, 200]  # though nobody has read an answer
    application.is_read.set()
    await asyncio.gather(*held)


async def test_the_largest_body_gets_in() -> None:
    application = Answering()
    limit = limit_of(application)
    large, small, empty = exchanges = [Exchange(part(size)) for size in (60, 1, 0)]
    held = [asyncio.create_task(one.through(limit)) for one in exchanges]
    await asyncio.sleep(0.01)
    assert (large.status, small.status, empty.status) == (None, 429, None)
    application.may_begin.set()
    application.is_read.set()
    await asyncio.gather(*held)
    assert (large.status, empty.status) == (200, 200)


async def test_uploads_share_half_of_the_budget_of_bodies() -> None:
    application = Answering()
    limit = BodyLimit(application, max_body_bytes=500, max_inflight_bytes=1000, body_timeout_s=1)
    match = RouteMatch(None, "/documents", frozenset(), Policy(Access.WRITE, lines=lambda: None))
    scope = SCOPE | {"headers": [(b"content-type", b"application/x-ndjson")], "route_match": match}
    first, second, third = exchanges = [Exchange() for _ in range(3)]
    held = asyncio.create_task(first.through(limit, scope))
    await asyncio.sleep(0.01)
    await second.through(limit, scope)
    application.may_begin.set()
    application.is_read.set()
    await held
    await third.through(limit, scope)  # there is room again
    assert [exchange.status for exchange in exchanges] == [200, 429, 200]


@pytest.mark.parametrize("kept", [0, 1])
async def test_a_client_that_leaves_mid_body_frees_what_it_sent(kept: int) -> None:
    limit = limit_of(answer)
    leaver, whole = Exchange(*[part(30, more=True)] * kept), Exchange(part(60))
    await leaver.through(limit)
    await whole.through(limit)
    assert (leaver.status, whole.status) == (None, 200)


async def test_a_body_that_stops_half_way_is_408_and_freed() -> None:
    class Stalled(Exchange):
        async def receive(self) -> Message:
            if not self.messages:
                await asyncio.Event().wait()
            return await super().receive()

    limit = limit_of(answer, body_timeout_s=0.05)
    slow, whole = Stalled(part(50, more=True)), Exchange(part(60))
    await asyncio.wait_for(slow.through(limit), timeout=10)
    await whole.through(limit)
    assert (slow.status, whole.status) == (408, 200)


async def test_a_gzip_bomb_takes_the_limit_of_memory_and_no_more() -> None:
    exchange = Exchange({"type": "http.request", "body": gzip.compress(bytes(200_000_000)), "more_body": False})
    limit = BodyLimit(never, max_body_bytes=1_000_000, max_inflight_bytes=1_000_000, body_timeout_s=30)
    tracemalloc.start()
    await exchange.through(limit, SCOPE | {"headers": [(b"content-encoding", b"gzip")]})
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert exchange.status == 413
    assert peak_bytes < 3_000_000


async def test_the_body_is_in_memory_once_while_the_application_works() -> None:
    peaks: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        peaks.append(tracemalloc.get_traced_memory()[0])

    limit = BodyLimit(application, max_body_bytes=2_000_000, max_inflight_bytes=2_000_000, body_timeout_s=30)
    tracemalloc.start()
    await Exchange(*[part(100_000, more=number < 9) for number in range(10)]).through(limit)
    tracemalloc.stop()
    assert peaks[0] < 1_500_000
