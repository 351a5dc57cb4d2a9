"""Pairs through the pool beside texts that share passes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.cache import VectorCache
from service.engine.fair_queue import kind_of
from service.engine.pairs import Input, Pair, PairInput, encode_with, scored
from service.engine.pool import EncoderPool
from service.errors import Overloaded
from service.model.encoder import Encoded, Encoder, load_encoder
from service.model.reranker import PairTokens, Reranker
from service.settings import BUNDLED_MODEL
from tests.artifacts import TEXTS
from tests.service.engine.one_by_one import pool_over

pytestmark = pytest.mark.anyio

LONG = "guitar " * 100


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(BUNDLED_MODEL)


@pytest.fixture(scope="module")
def reranker(tiny_reranker: Path) -> Reranker:
    return Reranker.load(tiny_reranker)


@pytest.fixture(scope="module")
def pool(encoder: Encoder, reranker: Reranker) -> Iterator[EncoderPool]:
    pool = EncoderPool(
        encode_with(encoder, reranker),
        encoder,
        workers=2,
        max_queue_texts=1000,
        cache=VectorCache(100_000, fingerprint="a", dim=encoder.manifest.dim),
        on_loop_s=10.0,
    )
    pool.start()
    yield pool
    pool.close()


@settings(max_examples=25)
@given(requests=st.lists(st.lists(st.integers(0, 199), min_size=1, max_size=8), min_size=1, max_size=6))
async def test_scores_are_bit_identical_in_any_company(
    pool: EncoderPool, encoder: Encoder, reranker: Reranker, requests: list[list[int]]
) -> None:
    texts = [*TEXTS, LONG]
    pairs = [
        *(Pair(text, other) for text in TEXTS for other in TEXTS[:6]),
        Pair(LONG, LONG),
        *reranker.windows(TEXTS[0], LONG),
    ]
    kinds = [(texts, pairs, [*texts, *pairs])[number % 3] for number in range(len(requests))]
    chosen = [[kind[one % len(kind)] for one in some] for kind, some in zip(kinds, requests, strict=True)]
    batches = await asyncio.gather(*map(pool.encode, chosen))
    for some, batch in zip(chosen, batches, strict=True):
        vectors, scores = iter(batch.embeddings), iter(batch.scores_P1)
        for one in some:
            if isinstance(one, PairInput):
                assert np.array_equal(next(scores), scored(reranker, one, True).vector)
            else:
                assert np.array_equal(next(vectors), encoder.encode(one).vector)
        assert [*vectors, *scores] == []


def test_a_pair_takes_as_long_as_other_pairs_not_as_texts() -> None:
    assert [kind_of(one) for one in ("a", LONG, Pair("a", "b"), Pair("a", LONG))] == [
        "text",
        "long text",
        "pair",
        "long pair",
    ]
    assert kind_of(PairTokens((1,) * 10, 10)) == "pair"
    assert kind_of(PairTokens((1,) * 200, 200)) == "long pair"


async def test_pairs_that_would_take_too_long_are_refused(reranker: Reranker) -> None:
    def encode(given: Input, truncate: bool) -> Encoded:
        return Encoded(np.zeros(1, np.float32), 1, 1)

    pool = pool_over(encode, workers=1, max_queue_texts=10_000, request_timeout_s=10)
    waiting = asyncio.create_task(pool.encode(["a", "b"]))  # not started: the queue only grows
    await asyncio.sleep(0)
    texts = asyncio.create_task(pool.encode([f"text {number}" for number in range(600)]))
    await asyncio.sleep(0)
    assert pool.depth == 602
    with pytest.raises(Overloaded, match="half of CROSSLET_REQUEST_TIMEOUT_S"):
        await pool.encode([Pair("a", f"passage {number}") for number in range(600)])
    pool.start()
    await asyncio.gather(waiting, texts)
    await asyncio.to_thread(pool.close)
