"""The bundled model: a vector depends on no other text of its pass, and hardly on the processor."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.pool import EncoderPool
from service.model import session
from service.model.artifact import load_manifest, load_parity
from service.model.encoder import Encoder, load_encoder
from service.settings import BUNDLED_MODEL
from tests.artifacts import TEXTS

MULTILINGUAL = st.sampled_from(TEXTS) | st.text(
    alphabet=st.characters(blacklist_categories=["Cs"]) | st.sampled_from("güneşçığ吉他مرحبا Привет😀 "),
    min_size=1,
    max_size=80,
)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(BUNDLED_MODEL)


@settings(max_examples=12)
@given(texts=st.lists(MULTILINGUAL, min_size=1, max_size=20), order=st.randoms(), workers=st.sampled_from([1, 2, 3]))
def test_bundled_vectors_are_bit_identical_in_any_company(
    encoder: Encoder, texts: list[str], order: object, workers: int
) -> None:
    shuffled = list(range(len(texts)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    async def together() -> list[np.ndarray]:
        pool = EncoderPool(encoder.encode, encoder, workers=workers, max_queue_texts=1000)
        pool.start()
        batches = await asyncio.gather(
            pool.encode(texts), pool.encode([texts[one] for one in shuffled]), *(pool.encode([text]) for text in texts)
        )
        await asyncio.to_thread(pool.close)
        return [batch.embeddings for batch in batches]

    alone = np.stack([encoder.encode(text).vector for text in texts])
    whole, mixed, *single = asyncio.run(together())
    assert whole.tobytes() == alone.tobytes()
    assert mixed.tobytes() == alone[shuffled].tobytes()
    assert np.concatenate(single).tobytes() == alone.tobytes()


def test_vectors_are_those_recorded_at_the_export(encoder: Encoder) -> None:
    check_parity(encoder)


def test_vectors_without_vnni_are_those_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "has_vnni", lambda: False)
    check_parity(load_encoder(BUNDLED_MODEL))


def check_parity(encoder: Encoder) -> None:
    """Other processors add in another order, so an activation may round to its neighbour: in 1 text of 39 on AVX2."""
    parity = load_parity(BUNDLED_MODEL, load_manifest(BUNDLED_MODEL))
    pairs = zip(encoder.encode_all(parity.texts), parity.embeddings, strict=True)
    cosines = [float(encoded.vector @ np.asarray(expected)) for encoded, expected in pairs]
    assert np.quantile(cosines, 0.1) > 0.999999
    assert min(cosines) > 0.999
