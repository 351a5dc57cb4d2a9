"""The application under several requests at once, over a real socket-free ASGI transport."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from service.api.app import create_app
from service.model.encoder import Encoded, TextInput, load_encoder
from service.runtime import EMBEDDED_READERS, LONG_BYTES, Runtime, load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio


class SlowEncoder:
    """The real encoder behind a gate, so that a queue can build up."""

    def __init__(self, folder: Path) -> None:
        self.encoder = load_encoder(folder)
        self._gate = threading.Semaphore(0)
        self.count = 0

    def let(self, texts: int = 10_000) -> None:
        """Let `texts` texts through."""
        self._gate.release(texts)

    def encode(self, text: TextInput, truncate: bool) -> Encoded:
        assert self._gate.acquire(timeout=100)
        self.count += 1
        return self.encoder.encode(text, truncate)


def connect(runtime: Runtime) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(create_app(runtime)), base_url="http://localhost")


@asynccontextmanager
async def gated(
    folder: Path, data: Path, **settings: Any
) -> AsyncIterator[tuple[Runtime, SlowEncoder, httpx.AsyncClient]]:
    """A service of one worker, its gated encoder, and a client; closed on leaving."""
    loaded = load_runtime(Settings(model=folder, data=data, workers=1, **settings))
    encoder = SlowEncoder(folder)
    pool = pool_over(encoder.encode, workers=1, max_queue_texts=loaded.settings.max_queue_texts)
    runtime = replace(loaded, pool=pool)
    runtime.start()
    async with connect(runtime) as client:
        yield runtime, encoder, client
    await asyncio.to_thread(runtime.close)


async def until(happened: Callable[[], bool]) -> None:
    latest = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < latest
        await asyncio.sleep(0.01)


async def until_queued(runtime: Runtime, texts: int) -> None:
    await until(lambda: runtime.pool.depth >= texts)


async def test_a_flood_gets_answers_or_429_and_the_queue_stays_bounded(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path, max_texts=10, max_queue_texts=100) as (runtime, encoder, client):
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
    tiny_model: Path, tmp_path: Path, method: str, path: str, media_type: str, body: str
) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
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


async def test_documents_of_a_client_that_leaves_are_split_no_further(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
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


async def test_splitting_that_takes_too_long_is_422_with_the_setting(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path, request_timeout_s=0.001) as (_, encoder, client):
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


async def test_a_client_that_leaves_takes_its_texts_out_of_the_queue(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, _):
        body = b'{"inputs": ["' + b'", "'.join([b"hallo"] * 100) + b'"]}'
        request, left = leaving_client(runtime, "/embed", body)
        await until_queued(runtime, 99)
        left.set()
        await request
        assert runtime.pool.depth == 0
        encoder.let()
    assert encoder.count <= 1


async def test_a_search_is_not_made_for_a_client_that_left(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
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


async def test_a_request_that_a_shutdown_does_not_wait_for_is_told_so(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
        request = asyncio.create_task(client.post("/embed", json={"inputs": ["hallo", "a", "b"]}))
        await until_queued(runtime, 2)
        request.cancel()  # as the server does when CROSSLET_SHUTDOWN_TIMEOUT_S is over
        response = await request
        assert_refused(response, 503, "NotReady", "CROSSLET_SHUTDOWN_TIMEOUT_S")
        assert runtime.pool.depth == 0
        encoder.let()


async def test_a_small_request_overtakes_the_rest_of_a_large_one(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
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


async def test_concurrent_puts_of_one_id_leave_one_whole_document(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (_, encoder, client):
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


async def test_a_request_in_flight_at_shutdown_is_finished(tiny_model: Path, tmp_path: Path) -> None:
    async with gated(tiny_model, tmp_path) as (runtime, encoder, client):
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
