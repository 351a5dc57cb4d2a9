"""Cohere's own client against a live service: only the base URL is another. Both of its APIs, v1 and v2."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cohere
import cohere.core
import httpx
import numpy as np
import pytest

from tests.artifacts import TEXTS
from tests.contract.conftest import BUNDLED, KEY, UNSPEAKABLE
from tests.contract.live import live_service

QUERY = "Who plays the guitar?"
DOCUMENTS = list(TEXTS)
LONG = "guitar " * 1000

Connect = Callable[..., Any]  # makes Cohere's client of a service


@pytest.fixture(scope="module")
def ranking(tiny_reranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with the bundled model and a re-ranker."""
    with live_service(BUNDLED, tmp_path_factory.mktemp("ranking"), reranker=tiny_reranker) as client:
        yield client


@pytest.fixture(params=[cohere.Client, cohere.ClientV2])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with ExitStack() as clients:

        def make(service: httpx.Client, *, api_key: str = "unused") -> Any:
            http_client = clients.enter_context(httpx.Client(trust_env=False, timeout=60))
            base_url = str(service.base_url).rstrip("/")
            return request.param(api_key, base_url=base_url, httpx_client=http_client, max_retries=0)

        yield make


@pytest.mark.parametrize("service", ["bundled", "ranking"])
def test_documents_get_the_scores_and_the_order_of_rerank(
    connect: Connect, service: str, request: pytest.FixtureRequest
) -> None:
    live: httpx.Client = request.getfixturevalue(service)
    expected = live.post("/rerank", json={"query": QUERY, "texts": [*DOCUMENTS, LONG]}).json()
    response = connect(live).rerank(model="any", query=QUERY, documents=[*DOCUMENTS, LONG], top_n=3)
    assert [(hit.index, hit.relevance_score) for hit in response.results] == [
        (hit["index"], hit["score"]) for hit in expected[:3]
    ]
    assert response.id
    assert response.meta.tokens.input_tokens > len(DOCUMENTS)
    assert response.meta.warnings == [f"documents[{len(DOCUMENTS)}] was cut"]


@pytest.mark.parametrize("connect", [cohere.Client], indirect=True)
def test_objects_come_back_with_their_texts(connect: Connect, bundled: httpx.Client) -> None:
    objects = [{"text": text} for text in DOCUMENTS]
    response = connect(bundled).rerank(query=QUERY, documents=objects, rank_fields=["text"], return_documents=True)
    assert [hit.document.text for hit in response.results] == [DOCUMENTS[hit.index] for hit in response.results]


@pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince20", "ignore::pydantic.PydanticDeprecatedSince211")
@pytest.mark.parametrize("truncate", ["END", "START"])
def test_texts_get_the_vectors_of_embed(connect: Connect, bundled: httpx.Client, truncate: str) -> None:
    texts = [*DOCUMENTS, LONG + "The stock market fell."]
    expected = np.asarray(bundled.post("/embed", json={"inputs": texts, "truncate": truncate}).json(), np.float32)
    options = {"model": "any", "texts": texts, "input_type": "search_document", "truncate": truncate}
    response = connect(bundled).embed(**options, embedding_types=["float", "int8", "ubinary"])
    assert np.array_equal(np.asarray(response.embeddings.float_, np.float32), expected)
    assert np.array_equal(np.asarray(response.embeddings.ubinary, np.uint8), np.packbits(expected > 0, axis=1))
    int8_BD = np.asarray(response.embeddings.int8, np.float64)
    int8_BD /= np.linalg.norm(int8_BD, axis=1, keepdims=True)
    np.testing.assert_allclose(int8_BD @ int8_BD.T, expected @ expected.T, atol=0.003)
    assert response.meta.warnings == [f"texts[{len(DOCUMENTS)}] was cut"]


def test_refusals_are_the_clients_own_errors(connect: Connect, guarded: httpx.Client) -> None:
    client = connect(guarded, api_key=KEY)
    with pytest.raises(cohere.UnprocessableEntityError) as refused:
        client.rerank(model="any", query=QUERY, documents=[])
    assert refused.value.body["message"] == "documents is empty; send at least one text"
    with pytest.raises(cohere.InternalServerError, match=r"documents\[0\] the model gave no finite vector"):
        client.rerank(model="any", query=QUERY, documents=[UNSPEAKABLE])
    with pytest.raises(cohere.UnauthorizedError, match="send a known key"):
        connect(guarded, api_key="wrong").rerank(model="any", query=QUERY, documents=["a"])
    with pytest.raises(cohere.core.ApiError) as large:
        client.rerank(model="any", query=QUERY, documents=["a" * 3000])
    assert large.value.status_code == 413
