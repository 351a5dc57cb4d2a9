"""The bundled model itself: a vector does not depend on its company."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encoder import Encoder, load_encoder
from service.pool import EncoderPool
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
def test_the_bundled_models_vectors_are_the_same_to_the_bit_alone_in_any_batch_order_and_concurrency(
    encoder: Encoder, texts: list[str], order: object, workers: int
) -> None:
    shuffled = list(range(len(texts)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    async def together() -> list[np.ndarray]:
        pool = EncoderPool(encoder.encode, workers=workers, max_queue_texts=1000, sharing=encoder)
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
