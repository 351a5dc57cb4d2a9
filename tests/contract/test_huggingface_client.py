"""huggingface_hub's InferenceClient against a live service, which it takes for text-embeddings-inference.

langchain_huggingface's HuggingFaceEndpointEmbeddings is this client, called as in the first test; llama_index's
TextEmbeddingsInference posts inputs and truncate to /embed.
"""

import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from tests.contract.conftest import KEY

TEXTS = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "The stock market fell sharply."]
LONG = "guitar " * 500


def connect(service: httpx.Client, path: str = "", **options: object) -> InferenceClient:
    return InferenceClient(model=f"{service.base_url}{path}", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", "/", "/embed"])
def test_the_base_url_is_enough_to_embed(bundled: httpx.Client, path: str) -> None:
    expected = np.asarray(bundled.post("/embed", json={"inputs": TEXTS}).json(), np.float32)
    client = connect(bundled, path)
    one = client.feature_extraction(TEXTS[0])
    assert one.dtype == np.float32
    assert np.array_equal(one, expected[:1])
    assert np.array_equal(client.feature_extraction(TEXTS), expected)  # type: ignore[arg-type] # as langchain calls it


@pytest.mark.parametrize("path", ["", "/similarity"])
def test_the_base_url_is_enough_to_compare(bundled: httpx.Client, path: str) -> None:
    vectors = np.asarray(bundled.post("/embed", json={"inputs": TEXTS}).json())
    scores = connect(bundled, path).sentence_similarity(TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(scores, vectors[1:] @ vectors[0], atol=1e-6)
    assert scores[0] > scores[1]


def test_the_options_of_embedding_are_kept_or_refused(bundled: httpx.Client) -> None:
    """Haystack's embedders send normalize=False by default: the vectors have norm 1 all the same."""
    client = connect(bundled)
    for normalize in (True, False):
        options = {"normalize": normalize, "truncate": True, "truncation_direction": "Right"}
        given = client.feature_extraction(LONG, **options)  # type: ignore[arg-type]
        assert np.array_equal(given, client.feature_extraction(LONG))
        assert np.linalg.norm(given) == pytest.approx(1, abs=1e-6)
    for refused in ({"truncate": False}, {"prompt_name": "query"}):
        with pytest.raises(HfHubHTTPError) as caught:
            client.feature_extraction(LONG, **refused)  # type: ignore[arg-type]
        assert caught.value.response.status_code == 422
        assert next(iter(refused)) in caught.value.response.json()["error"]


def test_the_clients_token_is_the_services_key(guarded: httpx.Client) -> None:
    assert connect(guarded, token=KEY).feature_extraction("hallo").shape == (1, 16)
    with pytest.raises(HfHubHTTPError) as caught:
        connect(guarded, token="wrong").feature_extraction("hallo")
    assert caught.value.response.status_code == 401
