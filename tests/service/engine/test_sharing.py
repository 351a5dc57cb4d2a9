"""The pool over the bundled model, whose texts share passes."""

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from service.engine.cache import VectorCache
from service.engine.fair_queue import LONG_TEXT, InputError, Work
from service.engine.pool import EncoderPool, tokenise_all
from service.errors import InferenceFailed, InvalidInput, TextTooLong
from service.model.artifact import load_parity
from service.model.encoder import PASS_PLACES, Encoded, Encoder, load_encoder
from service.model.tokenizer import TokenisedText
from service.settings import BUNDLED_MODEL
from tests.service.api.test_load import until

pytestmark = pytest.mark.anyio

Noise = Callable[[Sequence[list[int]], int], float]
Distort = Callable[[Noise], None]
SLIGHTLY = np.float32(1e-7)
TIMES = ("dusk", "dawn", "noon", "night")
WORDS = ("rain", "wind", "snow", "sun", "fog", "hail", "storm", "frost", "cloud", "ice", "heat", "cold", *TIMES)
ALIKE = [f"The {one} came before the {other}." for one in WORDS for other in WORDS if one != other]


class Watched(Encoder):
    """The bundled model; records its passes, and can be blocked or made to fail on a text."""

    def __init__(self, encoder: Encoder) -> None:
        self.__dict__.update(encoder.__dict__)
        self.passes: list[int] = []
        self.entered, self.opened = threading.Event(), threading.Event()
        self.opened.set()
        self.stops_after: int | None = None  # so many passes
        self.poison: list[int] | None = None

    def run(self, texts: Sequence[TokenisedText]) -> list[Encoded]:
        self.entered.set()
        assert self.opened.wait(100)
        self.passes.append(len(texts))
        if len(self.passes) == self.stops_after:
            self.opened.clear()
        if self.poison is not None and any(one.input_ids == self.poison for one in texts):
            raise InferenceFailed("the model failed")
        return super().run(texts)


@pytest.fixture(scope="module")
def bundled() -> Encoder:
    return load_encoder(BUNDLED_MODEL)


@pytest.fixture
def encoder(bundled: Encoder) -> Watched:
    return Watched(bundled)


@pytest.fixture
def pool(encoder: Watched) -> Iterator[EncoderPool]:
    yield from started(encoder, workers=1)


@pytest.fixture
def two_workers(encoder: Watched) -> Iterator[EncoderPool]:
    yield from started(encoder, workers=2)


def started(encoder: Watched, *, workers: int) -> Iterator[EncoderPool]:
    cache = VectorCache(10**6, fingerprint="x", dim=encoder.manifest.dim)
    pool = EncoderPool(encoder.encode, encoder, workers=workers, max_queue_texts=1000, cache=cache)
    pool.start()
    yield pool
    encoder.opened.set()
    pool.close()


@pytest.fixture
def distort(bundled: Encoder, monkeypatch: pytest.MonkeyPatch) -> Distort:
    """Add numbers to the vectors of a pass, by the token ids of its texts and the multiple they are padded to."""
    real = bundled._session.run

    def distort(noise: Noise) -> None:
        monkeypatch.setattr(
            bundled._session,
            "run",
            lambda rows, multiple: real(rows, multiple=multiple) + SLIGHTLY * noise(rows, multiple),
        )

    return distort


def test_the_bundled_models_texts_may_share_passes(bundled: Encoder) -> None:
    assert bundled.shares_passes
    assert bundled.mixes_lengths
    assert bundled.room(8) == PASS_PLACES // 8
    assert bundled.room(PASS_PLACES) == 1
    assert bundled.room(0) == PASS_PLACES  # a text without tokens is no division by zero


@pytest.mark.parametrize(
    "requests",
    [[ALIKE[:100]], [[" ".join(ALIKE[number : number + 1 + number % 5])] for number in range(60)]],
    ids=["one length", "other lengths"],
)
async def test_texts_share_passes_bit_for_bit(
    encoder: Watched, two_workers: EncoderPool, requests: list[list[str]]
) -> None:
    texts = [text for request in requests for text in request]
    alone = np.stack([encoder.encode(text).vector for text in texts])
    encoder.passes.clear()
    batches = await asyncio.gather(*map(two_workers.encode, requests))
    assert np.concatenate([batch.embeddings for batch in batches]).tobytes() == alone.tobytes()
    tokens = sum(len(tokenised.input_ids) for tokenised in encoder.tokenise(texts))
    assert sum(batch.tokens for batch in batches) == tokens
    assert all(batch.inference_s > 0 for batch in batches)
    assert sum(encoder.passes) == len(texts)
    assert len(encoder.passes) < len(texts) / 2


async def test_text_that_fails_in_a_pass_leaves_the_others(encoder: Watched, pool: EncoderPool) -> None:
    texts = ALIKE[:20]
    alone = np.stack([encoder.encode(text).vector for text in texts[:7] + texts[8:]])
    encoder.poison = encoder.tokenise([texts[7]])[0].input_ids
    batch = await pool.encode(texts, skip_failed=True)
    assert list(batch.failed) == [7]
    assert batch.embeddings.tobytes() == alone.tobytes()


async def test_a_text_that_may_not_be_cut_fails_before_its_pass(encoder: Watched, pool: EncoderPool) -> None:
    long = "word " * 99 + "word " * 40
    with pytest.raises(InputError) as caught:
        await pool.encode(["short", long[: LONG_TEXT - 1] + "." * 200 + " word" * 250], truncate=False)
    assert isinstance(caught.value.cause, TextTooLong)
    assert len((await pool.encode(["still at work"])).embeddings) == 1


def test_texts_that_fail_to_tokenise_fail_alone(encoder: Watched) -> None:
    works = [Work("first", True), Work("word " * 400, False), Work((10**9,), True), Work("last", False)]
    prepared, failed = tokenise_all(works, encoder)
    assert [one.work.text for one in prepared] == ["first", "last"]
    assert [type(one.result) for one in failed] == [TextTooLong, InvalidInput]


async def test_lone_text_waits_few_passes_beside_a_large_request(encoder: Watched, pool: EncoderPool) -> None:
    encoder.opened.clear()
    large = asyncio.create_task(pool.encode(ALIKE[:200]))
    await until(encoder.entered.is_set)
    depth = pool.depth
    lone = asyncio.create_task(pool.encode(["Ein Satz für sich."]))
    await until(lambda: pool.depth == depth + 1)
    encoder.stops_after = 5  # the one under way, and turns with the large one until it is in the batcher
    encoder.opened.set()
    await lone
    assert not large.done()
    await until(lambda: not encoder.opened.is_set())
    encoder.opened.set()
    await large


async def test_what_a_leaving_client_has_in_the_window_is_not_computed(encoder: Watched, pool: EncoderPool) -> None:
    encoder.opened.clear()
    large = asyncio.create_task(pool.encode(ALIKE[:100]))
    await until(encoder.entered.is_set)
    large.cancel()
    await asyncio.gather(large, return_exceptions=True)
    encoder.opened.set()
    assert len((await pool.encode(["one more"])).embeddings) == 1
    assert pool.depth == 0
    assert sum(encoder.passes) <= encoder.room(len(encoder.tokenise([ALIKE[0]])[0].input_ids)) + 1


async def test_long_texts_go_by_themselves_and_none_is_left_waiting(encoder: Watched, two_workers: EncoderPool) -> None:
    texts = [text for short in ALIKE[:12] for text in (short, f"{short} " * 30)]
    alone = np.stack([encoder.encode(text).vector for text in texts])
    batches = await asyncio.gather(two_workers.encode(texts), *(two_workers.encode([text]) for text in texts))
    assert batches[0].embeddings.tobytes() == alone.tobytes()
    assert np.concatenate([one.embeddings for one in batches[1:]]).tobytes() == alone.tobytes()


async def test_the_cache_keeps_what_a_shared_pass_made(encoder: Watched, pool: EncoderPool) -> None:
    first = await pool.encode(ALIKE[:20])
    encoder.passes.clear()
    again = await pool.encode(ALIKE[:20])
    assert again.embeddings.tobytes() == first.embeddings.tobytes()
    assert encoder.passes == []


def test_bulk_work_shares_passes_too(encoder: Watched) -> None:
    texts = [*ALIKE[:30], "", "short", "word " * 300, *ALIKE[:3]]
    alone = [encoder.encode(text) for text in texts]
    encoder.passes.clear()
    together = encoder.encode_all(texts)
    assert np.stack([one.vector for one in together]).tobytes() == np.stack([one.vector for one in alone]).tobytes()
    assert [(one.tokens, one.full_length) for one in together] == [(one.tokens, one.full_length) for one in alone]
    assert len(encoder.passes) < len(texts) / 2
    assert encoder.encode_all([]) == []


async def test_texts_that_wait_for_a_pass_count_as_waiting(encoder: Watched, pool: EncoderPool) -> None:
    encoder.opened.clear()
    asked = asyncio.create_task(pool.encode(ALIKE[:30]))
    await until(encoder.entered.is_set)
    assert 30 - encoder.room(len(encoder.tokenise([ALIKE[0]])[0].input_ids)) <= pool.depth < 30
    await asyncio.sleep(0.05)
    assert pool.trouble(stall_timeout_s=0.01) is not None
    encoder.opened.set()
    await asked
    assert pool.depth == 0


def test_an_artifact_that_does_not_promise_it_shares_no_passes(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    assert not encoder.shares_passes
    assert encoder.room(3) == 1


@pytest.mark.parametrize(
    ("noise", "shares_passes"),
    [(lambda rows, _: len(rows) > 1, False), (lambda rows, _: len(set(map(len, rows))) > 1, True)],
    ids=["shared", "padded"],
)
def test_processor_that_changes_vectors_shares_less(
    encoder: Watched, distort: Distort, caplog: pytest.LogCaptureFixture, noise: Noise, shares_passes: bool
) -> None:
    parity = load_parity(BUNDLED_MODEL, encoder.manifest)
    distort(noise)
    with caplog.at_level(logging.WARNING):
        encoder.try_sharing(parity)
    assert encoder.shares_passes == shares_passes
    assert not encoder.mixes_lengths
    assert ("texts do not share passes" in caplog.text) == (not shares_passes)


def test_a_small_pack_finds_it_too(encoder: Watched, distort: Distort) -> None:
    # Only the longest text keeps its vector.
    distort(lambda rows, multiple: -(-max(map(len, rows)) // multiple) * multiple)
    parity = load_parity(BUNDLED_MODEL, encoder.manifest)
    by_length = sorted(parity.input_ids, key=len)
    encoder.try_sharing(dataclasses.replace(parity, input_ids=(*by_length[:2], by_length[-1])))
    assert not encoder.mixes_lengths


def test_a_pack_of_long_texts_alone_is_no_error(encoder: Watched) -> None:
    parity = load_parity(BUNDLED_MODEL, encoder.manifest)
    encoder.try_sharing(dataclasses.replace(parity, input_ids=(max(parity.input_ids, key=len),)))
    assert encoder.mixes_lengths


@pytest.mark.parametrize("changes", [{"max_length": 126}, {"padding": "computed"}])
def test_where_padding_is_no_good_texts_share_by_length(encoder: Watched, changes: dict[str, object]) -> None:
    """Past the last position nothing may be padded; nor where the graph computes with it."""
    parity = load_parity(BUNDLED_MODEL, encoder.manifest)
    encoder.manifest = dataclasses.replace(encoder.manifest, **changes)  # type: ignore[arg-type]
    encoder.try_sharing(parity)
    assert encoder.shares_passes
    assert not encoder.mixes_lengths
    texts = ["Hi.", "Bees live in hives.", "Hi!", "Bees live in hives!"]
    lengths = [len(one.input_ids) for one in encoder.tokenise(texts)]
    assert lengths[0] == lengths[2] < lengths[1] == lengths[3]
    encoder.encode_all(texts)
    assert encoder.passes == [2, 2]
