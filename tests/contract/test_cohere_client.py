"""Cohere's own client against a live service: only the base URL is another. Both of its APIs, v1 and v2."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cohere
import cohere.core
import httpx
import pytest

from tests.artifacts import TEXTS
from tests.contract.conftest import BUNDLED, KEY, UNSPEAKABLE
from tests.contract.live import live_service

QUERY = "Who plays the guitar?"
DOCUMENTS = list(TEXTS)


Connect = Callable[..., Any]  # makes Cohere's client of a service


@pytest.fixture(scope="module")
def ranking(tiny_reranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with the bundled model and a re-ranker."""
    with live_service(BUNDLED, tmp_path_factory.mktemp("ranking"), reranker=tiny_reranker) as client:
        yield client


@pytest.fixture(params=["bundled", "ranking"])
def service(request: pytest.FixtureRequest) -> httpx.Client:
    """Without a re-ranker, and with one."""
    client: httpx.Client = request.getfixturevalue(request.param)
    return client


@pytest.fixture(params=[cohere.Client, cohere.ClientV2])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with ExitStack() as clients:

        def make(service: httpx.Client, *, api_key: str = "unused") -> Any:
            http_client = clients.enter_context(httpx.Client(trust_env=False, timeout=60))
            base_url = str(service.base_url).rstrip("/")
            return request.param(api_key, base_url=base_url, httpx_client=http_client, max_retries=0)

        yield make


def ranked(response: Any) -> list[tuple[int, float]]:
    return [(one.index, one.relevance_score) for one in response.results]


def expected(service: httpx.Client) -> list[tuple[int, float]]:
    """The order and the scores as POST /rerank gives them in its own shape."""
    found = service.post("/rerank", json={"query": QUERY, "texts": DOCUMENTS}).json()
    return [(one["index"], one["score"]) for one in found]


def test_documents_get_the_scores_and_the_order_of_rerank(connect: Connect, service: httpx.Client) -> None:
    response = connect(service).rerank(model="any", query=QUERY, documents=DOCUMENTS)
    assert ranked(response) == expected(service)
    assert response.id
    assert response.meta.tokens.input_tokens > len(DOCUMENTS)
    assert response.meta.warnings is None


def test_top_n_is_how_many_come_back(connect: Connect, service: httpx.Client) -> None:
    response = connect(service).rerank(model="any", query=QUERY, documents=DOCUMENTS, top_n=2)
    assert ranked(response) == expected(service)[:2]


def test_what_was_cut_is_among_the_warnings(connect: Connect, service: httpx.Client) -> None:
    response = connect(service).rerank(model="any", query=QUERY, documents=["hallo", "guitar " * 1000])
    assert response.meta.warnings == ["documents[1] was cut"]


@pytest.mark.parametrize("connect", [cohere.ClientV2], indirect=True)
def test_a_length_that_the_model_does_not_reach_changes_nothing(connect: Connect, service: httpx.Client) -> None:
    client = connect(service)
    response = client.rerank(model="any", query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=4096)
    assert ranked(response) == expected(service)
    with pytest.raises(cohere.UnprocessableEntityError, match="max_tokens_per_doc is 10; a passage is cut where"):
        client.rerank(model="any", query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=10)


@pytest.mark.parametrize("connect", [cohere.Client], indirect=True)
def test_objects_come_back_with_their_texts(connect: Connect, service: httpx.Client) -> None:
    objects = [{"text": text} for text in DOCUMENTS]
    response = connect(service).rerank(query=QUERY, documents=objects, rank_fields=["text"], return_documents=True)
    assert ranked(response) == expected(service)
    assert [one.document.text for one in response.results] == [DOCUMENTS[one.index] for one in response.results]


def test_refusals_are_the_clients_own_errors(connect: Connect, guarded: httpx.Client) -> None:
    client = connect(guarded, api_key=KEY)
    with pytest.raises(cohere.UnprocessableEntityError) as refused:
        client.rerank(model="any", query=QUERY, documents=[])
    assert refused.value.body == {"error": "documents is empty; send at least one text", "error_type": "Validation"}
    with pytest.raises(cohere.UnprocessableEntityError, match=r"documents has 5 texts; the limit is 4"):
        client.rerank(model="any", query=QUERY, documents=["a"] * 5)
    with pytest.raises(cohere.InternalServerError, match=r"documents\[0\] the model gave no finite vector"):
        client.rerank(model="any", query=QUERY, documents=[UNSPEAKABLE])
    with pytest.raises(cohere.UnauthorizedError, match="send a known key"):
        connect(guarded, api_key="wrong").rerank(model="any", query=QUERY, documents=["a"])
    with pytest.raises(cohere.core.ApiError) as large:
        client.rerank(model="any", query=QUERY, documents=["a" * 3000])
    assert large.value.status_code == 413
