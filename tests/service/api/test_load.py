"""The application under several requests at once, over a real socket-free ASGI transport."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from service.api.app import create_app
from service.engine.pairs import Input, encode_with
from service.model.encoder import Encoded, load_encoder
from service.model.reranker import Reranker
from service.process.memory_budget import MemoryBudget
from service.runtime import EMBEDDED_READERS, LONG_BYTES, Runtime, load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio


class SlowModels:
    """The real encoder and re-ranker behind a gate, so that a queue can build up."""

    def __init__(self, settings: Settings) -> None:
        reranker = None if settings.reranker is None else Reranker.load(settings.reranker)
        self._encode = encode_with(load_encoder(settings.model), reranker)
        self._gate = threading.Semaphore(0)
        self.count = 0

    def let(self, texts: int = 10_000) -> None:
        """Let `texts` texts through."""
        self._gate.release(texts)

    def encode(self, text: Input, truncate: bool) -> Encoded:
        assert self._gate.acquire(timeout=100)
        self.count += 1
        return self._encode(text, truncate)


def connect(runtime: Runtime) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(create_app(runtime)), base_url="http://localhost")


Gated = Callable[..., AbstractAsyncContextManager[tuple[Runtime, SlowModels, httpx.AsyncClient]]]


@pytest.fixture
def gated(tiny_model: Path, tmp_path: Path) -> Gated:
    """Starts a service of one worker and gated models, with a client."""

    @asynccontextmanager
    async def start(**options: Any) -> AsyncIterator[tuple[Runtime, SlowModels, httpx.AsyncClient]]:
        settings = Settings(model=tiny_model, data=tmp_path, workers=1, **options)
        models = SlowModels(settings)
        limits = {name: getattr(settings, name) for name in ("max_queue_texts", "request_timeout_s")}
        runtime = replace(load_runtime(settings), pool=pool_over(models.encode, workers=1, **limits))
        runtime.start()
        async with connect(runtime) as client:
            yield runtime, models, client
        await asyncio.to_thread(runtime.close)

    return start


async def until(happened: Callable[[], bool]) -> None:
    latest = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < latest
        await asyncio.sleep(0.01)


async def until_queued(runtime: Runtime, texts: int) -> None:
    await until(lambda: runtime.pool.depth >= texts)


async def test_a_flood_gets_answers_or_429_and_the_queue_stays_bounded(gated: Gated) -> None:
    async with gated(max_texts=10, max_queue_texts=100) as (runtime, encoder, client):
        flood = [asyncio.create_task(client.post("/embed", json={"inputs": ["hallo"] * 10}))]
        await until(lambda: runtime.pool.depth == 9)  # the worker holds one
        flood += [asyncio.create_task(client.post("/embed", json={"inputs": ["hallo"] * 10})) for _ in range(299)]
        await until(lambda: sum(request.done() for request in flood) >= 289)  # which leaves the queue's eleven
        assert 100 <= runtime.pool.depth < 100 + 10
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).status_code == 200  # probes do not queue
        encoder.let()
        responses = await asyncio.gather(*flood)
        statuses = [response.status_code for response in responses]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 10
        refused = next(response for response in responses if response.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error_type"] == "Overloaded"
        assert "fewer than 100 do (CROSSLET_MAX_QUEUE_TEXTS)" in refused.json()["error"]


LONG_BODY = " " * LONG_BYTES
LONG_TEXT = " ".join(TEXTS * 6)
PUT_ONE = json.dumps({"documents": [{"id": "a", "text": LONG_TEXT}]})


@pytest.mark.parametrize(
    ("method", "path", "media_type", "body"),
    [
        ("PUT", "/documents", "application/x-ndjson", '{"id": "a", "text": "hallo"}'),
        ("PUT", "/documents", "application/json", PUT_ONE),  # to be split
        ("PUT", "/documents", "application/json", PUT_ONE + LONG_BODY),
        ("PATCH", "/documents/known", "application/json", '{"metadata": {}}' + LONG_BODY),
        ("POST", "/embed", "application/json", '{"inputs": "hallo"}' + LONG_BODY),
        ("POST", "/embed", "application/json; charset=utf-8", '{"inputs": "hallo"}' + LONG_BODY),
        ("POST", "/search", "application/json", '{"query": "hallo"}' + LONG_BODY),
        ("POST", "/rerank", "application/json", '{"query": "hallo", "texts": ["hallo"], "windows": true}'),
    ],
)
async def test_what_takes_long_to_prepare_holds_up_nobody_else(
    gated: Gated, method: str, path: str, media_type: str, body: str
) -> None:
    async with gated() as (runtime, encoder, client):
        encoder.let()
        await client.put("/documents", json={"documents": [{"id": "known", "text": "hallo"}]})
        released = threading.Event()
        busy = asyncio.create_task(runtime.preparation.call(released.wait))
        headers = {"content-type": media_type}
        waiting = asyncio.create_task(client.request(method, path, content=body, headers=headers))
        for _ in range(20):
            assert (await client.get("/health")).status_code == 200
            assert (await client.post("/search", json={"query": "hallo"})).status_code == 200
            assert (await client.get("/documents/known")).status_code == 200
        assert not waiting.done()
        released.set()
        assert (await waiting).status_code == 200
        await busy


async def test_documents_of_a_client_that_leaves_are_split_no_further(gated: Gated) -> None:
    async with gated() as (runtime, encoder, client):
        encoder.let()
        released = threading.Event()
        busy = asyncio.create_task(runtime.preparation.call(released.wait))
        request, left = leaving_client(runtime, "/documents", PUT_ONE.encode(), method="PUT")
        await asyncio.sleep(0.05)
        left.set()
        await asyncio.wait_for(request, 60)  # while the thread is busy
        released.set()
        await busy
        assert (await client.post("/documents/count", json={})).json() == {"count": 0}


async def test_splitting_that_takes_too_long_is_422_with_the_setting(gated: Gated) -> None:
    async with gated(request_timeout_s=0.001) as (_, encoder, client):
        encoder.let()
        texts = [" ".join(TEXTS * 100)] * 5
        documents = [{"id": str(position), "text": text} for position, text in enumerate(texts)]
        response = await client.put("/documents", json={"documents": documents})
        way_out = "send fewer documents, or shorter ones, or chunk: false"
        assert_refused(response, 422, "Validation", "longer than 0.001 s (CROSSLET_REQUEST_TIMEOUT_S)", way_out)


def leaving_client(
    runtime: Runtime, path: str, body: bytes, *, method: str = "POST"
) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A request under way, and what makes its client leave."""
    left, is_sent = asyncio.Event(), False

    async def receive() -> dict[str, Any]:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        return None

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "scheme": "http",
        "server": ("test", 80),
    }
    return asyncio.create_task(create_app(runtime)(scope, receive, send)), left


async def test_a_client_that_leaves_takes_its_texts_out_of_the_queue(gated: Gated) -> None:
    async with gated() as (runtime, encoder, _):
        body = b'{"inputs": ["' + b'", "'.join([b"hallo"] * 100) + b'"]}'
        request, left = leaving_client(runtime, "/embed", body)
        await until_queued(runtime, 99)
        left.set()
        await request
        assert runtime.pool.depth == 0
        encoder.let()
    assert encoder.count <= 1


async def test_a_search_is_not_made_for_a_client_that_left(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gated() as (runtime, encoder, client):
        encoder.let()
        released, queries = threading.Event(), list[int]()
        search = runtime.collection.search_all
        monkeypatch.setattr(runtime.collection, "search_all", lambda *_, **__: queries.append(1) or search(*_, **__))
        busy = [asyncio.create_task(runtime.read(released.wait)) for _ in range(EMBEDDED_READERS)]
        request, left = leaving_client(runtime, "/search", b'{"query": "hallo"}')
        await until(lambda: runtime.readers.waiting == 1)
        left.set()
        await request
        released.set()
        await asyncio.gather(*busy)
        assert (await client.post("/search", json={"query": "hallo"})).status_code == 200
        assert len(queries) == 1


async def test_a_request_that_a_shutdown_does_not_wait_for_is_told_so(gated: Gated) -> None:
    page = "https://app.example"
    async with gated(cors_origins=page) as (runtime, encoder, client):
        body, headers = {"inputs": ["hallo", "a", "b"]}, {"origin": page}
        request = asyncio.create_task(client.post("/embed", json=body, headers=headers))
        await until_queued(runtime, 2)
        request.cancel()  # as the server does when CROSSLET_SHUTDOWN_TIMEOUT_S is over
        response = await request
        assert_refused(response, 503, "NotReady", "CROSSLET_SHUTDOWN_TIMEOUT_S")
        assert response.headers["access-control-allow-origin"] == page  # which can read it
        assert runtime.pool.depth == 0
        encoder.let()


async def test_a_small_request_overtakes_the_rest_of_a_large_one(gated: Gated) -> None:
    async with gated() as (runtime, encoder, client):
        large = asyncio.create_task(
            client.post("/embed", json={"inputs": [f"hallo {number} " * 20 for number in range(500)]})
        )
        await until(lambda: runtime.pool.depth == 127)  # one of its fourth of the queue is being encoded
        small = asyncio.create_task(client.post("/embed", json={"inputs": "hallo"}))
        await until(lambda: runtime.pool.depth == 128)
        encoder.let(10)
        assert (await small).status_code == 200
        assert not large.done()
        encoder.let()
        assert (await large).status_code == 200


async def test_concurrent_puts_of_one_id_leave_one_whole_document(gated: Gated) -> None:
    async with gated() as (_, encoder, client):
        encoder.let()

        async def put(number: int) -> int:
            document = {"id": "same", "text": TEXTS[number % len(TEXTS)], "metadata": {"n": number % len(TEXTS)}}
            response = await client.put("/documents", json={"documents": [document]})
            return int(response.json()["revision"])

        revisions = await asyncio.gather(*(put(number) for number in range(60)))
        assert sorted(revisions) == list(range(1, 61))
        stored = (await client.get("/documents/same")).json()
        assert stored["revision"] == 60
        assert stored["text"] == TEXTS[stored["metadata"]["n"]]
        found = (await client.post("/search", json={"query": stored["text"]})).json()["results"]
        assert [result["id"] for result in found] == ["same"]
        assert np.isclose(found[0]["score"], 1, atol=1e-6)


async def test_a_request_in_flight_at_shutdown_is_finished(gated: Gated) -> None:
    async with gated() as (runtime, encoder, client):
        accepted = asyncio.create_task(client.post("/embed", json={"inputs": ["hallo"] * 20}))
        await until_queued(runtime, 19)
        runtime.lifecycle.is_draining = True
        ready = await client.get("/ready")
        assert_refused(ready, 503, "NotReady")
        assert (await client.get("/health")).status_code == 200
        closing = asyncio.create_task(asyncio.to_thread(runtime.close))
        encoder.let()
        assert (await accepted).status_code == 200
        await closing
        late = await client.post("/embed", json={"inputs": "hallo"})
        assert_refused(late, 503, "NotReady")


# --- re-ranking

QUERY = "Who plays the guitar?"
MANY = [f"guitar {number}" for number in range(40)]


@pytest.fixture(params=["cosine", "both", "alone"])
def ranking(request: pytest.FixtureRequest, gated: Gated, tiny_reranker: Path) -> Gated:
    """As `gated`: without a re-ranker, with one, and with one alone."""
    if request.param == "cosine":
        return gated
    return partial(gated, reranker=tiny_reranker, rerank_weight="alone" if request.param == "alone" else 0.2)


def inputs_of(runtime: Runtime) -> int:
    """How many texts and pairs MANY are: the query is a text, or only in each pair."""
    if runtime.reranker is None:
        return 1 + len(MANY)
    return len(MANY) if runtime.settings.rerank_weight == "alone" else 1 + 2 * len(MANY)


@pytest.mark.parametrize("windows", [False, True])
async def test_a_client_that_leaves_takes_its_pairs_out_of_the_queue(ranking: Gated, windows: bool) -> None:
    async with ranking() as (runtime, models, client):
        body = json.dumps({"query": QUERY, "texts": MANY, "windows": windows}).encode()
        request, left = leaving_client(runtime, "/rerank", body)
        await until_queued(runtime, 30)
        left.set()
        await request
        await until(lambda: runtime.pool.depth == 0)
        models.let()
        assert (await client.post("/rerank", json={"query": QUERY, "texts": ["a"]})).status_code == 200
        assert models.count < 10


async def test_a_text_does_not_wait_for_all_pairs_of_another_request(ranking: Gated) -> None:
    async with ranking() as (runtime, models, client):
        long = asyncio.create_task(client.post("/rerank", json={"query": QUERY, "texts": MANY}))
        count = inputs_of(runtime)
        await until(lambda: runtime.pool.depth == count - 1)  # the worker holds one
        short = asyncio.create_task(client.post("/embed", json={"inputs": "hallo"}))
        await until(lambda: runtime.pool.depth == count)
        models.let(4)
        assert (await short).status_code == 200
        assert not long.done()
        models.let()
        assert (await long).status_code == 200


async def test_pairs_that_wait_too_long_are_given_up(ranking: Gated) -> None:
    async with ranking(request_timeout_s=2) as (runtime, models, client):
        asking = asyncio.create_task(client.post("/rerank", json={"query": QUERY, "texts": MANY}))
        await until_queued(runtime, 30)
        models.let(1)
        response = await asking
        assert_refused(response, 429, "Overloaded", "2 s (CROSSLET_REQUEST_TIMEOUT_S)")
        models.let()


@pytest.mark.parametrize("windows", [False, True])
async def test_passages_that_would_never_fit_the_memory_are_refused(ranking: Gated, windows: bool) -> None:
    async with ranking(memory_budget=10**12) as (runtime, models, _):
        memory = MemoryBudget(2_000_000, dim=16, release=lambda: None, resident=lambda: 1_000_000)
        models.let()
        async with connect(replace(runtime, memory=memory)) as client:
            body = {"query": "a", "texts": [TEXTS[0], "guitar " * 10_000], "windows": windows}
            response = await client.post("/rerank", json=body)
            assert_refused(response, 413, "TooLarge", "the limit is 2000000 (CROSSLET_MEMORY_BUDGET)")
            assert (await client.post("/rerank", json={"query": "a", "texts": [TEXTS[0]]})).status_code == 200
