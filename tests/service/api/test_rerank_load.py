"""Re-ranking under several requests at once: without a re-ranker, with one, and with one alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.engine.pairs import Input, encode_with
from service.model.encoder import Encoded, load_encoder
from service.model.reranker import Reranker
from service.process.memory_budget import MemoryBudget
from service.runtime import Runtime, load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.api.test_load import SlowEncoder, connect, leaving_client, until, until_queued
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio

QUERY = "Who plays the guitar?"
MANY = [f"guitar {number}" for number in range(40)]


class SlowModels(SlowEncoder):
    """The real encoder and re-ranker behind a gate."""

    def __init__(self, folder: Path, reranker: Path | None) -> None:
        super().__init__(folder)
        self._encode = encode_with(load_encoder(folder), None if reranker is None else Reranker.load(reranker))

    def encode(self, text: Input, truncate: bool) -> Encoded:  # type: ignore[override]
        assert self._gate.acquire(timeout=100)
        self.count += 1
        return self._encode(text, truncate)


@pytest.fixture(params=["cosine", "both", "alone"])
def loaded(request: pytest.FixtureRequest, tiny_model: Path, tiny_reranker: Path, tmp_path: Path) -> Settings:
    reranker = None if request.param == "cosine" else tiny_reranker
    weight = "alone" if request.param == "alone" else 0.2
    return Settings(model=tiny_model, data=tmp_path, workers=1, reranker=reranker, rerank_weight=weight)


def inputs_of(settings: Settings) -> int:
    """How many texts and pairs MANY are: the query is a text, or only in each pair."""
    if settings.reranker is None:
        return 1 + len(MANY)
    return len(MANY) if settings.rerank_weight == "alone" else 1 + 2 * len(MANY)


@asynccontextmanager
async def gated(settings: Settings, **limits: Any) -> AsyncIterator[tuple[Runtime, SlowModels, httpx.AsyncClient]]:
    """A service of one worker, its gated models, and a client; closed on leaving."""
    settings = settings.model_copy(update=limits)
    models = SlowModels(settings.model, settings.reranker)
    pool = pool_over(
        models.encode, workers=1, max_queue_texts=settings.max_queue_texts, request_timeout_s=settings.request_timeout_s
    )
    runtime = replace(load_runtime(settings), pool=pool)
    runtime.start()
    async with connect(runtime) as client:
        yield runtime, models, client
    await asyncio.to_thread(runtime.close)


async def test_a_flood_gets_answers_or_429_and_the_queue_stays_bounded(loaded: Settings) -> None:
    async with gated(loaded, max_queue_texts=100) as (runtime, models, client):
        body = {"query": QUERY, "documents": MANY}
        flood = [asyncio.create_task(client.post("/v2/rerank", json=body)) for _ in range(30)]
        await until(lambda: sum(request.done() for request in flood) >= 20)
        assert 100 <= runtime.pool.depth < 100 + inputs_of(loaded)
        models.let()
        responses = await asyncio.gather(*flood)
        statuses = [response.status_code for response in responses]
        assert set(statuses) == {200, 429}
        refused = next(response for response in responses if response.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert "fewer than 100 do (CROSSLET_MAX_QUEUE_TEXTS)" in refused.json()["error"]


@pytest.mark.parametrize("windows", [False, True])
async def test_a_client_that_leaves_takes_its_pairs_out_of_the_queue(loaded: Settings, windows: bool) -> None:
    async with gated(loaded) as (runtime, models, client):
        body = json.dumps({"query": QUERY, "texts": MANY, "windows": windows}).encode()
        request, left = leaving_client(runtime, "/rerank", body)
        await until_queued(runtime, 30)
        left.set()
        await request
        await until(lambda: runtime.pool.depth == 0)
        models.let()
        assert (await client.post("/rerank", json={"query": QUERY, "texts": ["a"]})).status_code == 200
        assert models.count < 10


async def test_a_text_does_not_wait_for_all_pairs_of_another_request(loaded: Settings) -> None:
    async with gated(loaded) as (runtime, models, client):
        long = asyncio.create_task(client.post("/rerank", json={"query": QUERY, "texts": MANY}))
        count = inputs_of(loaded)
        await until(lambda: runtime.pool.depth == count - 1)  # the worker holds one
        short = asyncio.create_task(client.post("/embed", json={"inputs": "hallo"}))
        await until(lambda: runtime.pool.depth == count)
        models.let(4)
        assert (await short).status_code == 200
        assert not long.done()
        models.let()
        assert (await long).status_code == 200


async def test_pairs_that_wait_too_long_are_given_up(loaded: Settings) -> None:
    async with gated(loaded, request_timeout_s=2) as (runtime, models, client):
        asking = asyncio.create_task(client.post("/rerank", json={"query": QUERY, "texts": MANY}))
        await until_queued(runtime, 30)
        models.let(1)
        response = await asking
        assert_refused(response, 429, "Overloaded", "2 s (CROSSLET_REQUEST_TIMEOUT_S)")
        models.let()


@pytest.mark.parametrize("windows", [False, True])
async def test_passages_that_would_never_fit_the_memory_are_refused(loaded: Settings, windows: bool) -> None:
    async with gated(loaded, memory_budget=10**12) as (runtime, models, _):
        memory = MemoryBudget(2_000_000, dim=16, release=lambda: None, resident=lambda: 1_000_000)
        models.let()
        async with connect(replace(runtime, memory=memory)) as client:
            body = {"query": "a", "texts": [TEXTS[0], "guitar " * 10_000], "windows": windows}
            response = await client.post("/rerank", json=body)
            assert_refused(response, 413, "TooLarge", "the limit is 2000000 (CROSSLET_MEMORY_BUDGET)")
            assert (await client.post("/rerank", json={"query": "a", "texts": [TEXTS[0]]})).status_code == 200
