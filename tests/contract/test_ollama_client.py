"""Ollama's own client against a live service: only the host is another.

langchain_ollama, llama_index's OllamaEmbedding and Haystack's Ollama embedders call this client's `embed`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import ollama
import pytest

from tests.artifacts import TEXTS
from tests.contract.conftest import KEY

LONG = "guitar " * 1000


Connect = Callable[..., ollama.Client]  # makes Ollama's client of a service


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as clients:

        def make(service: httpx.Client, **headers: str) -> ollama.Client:
            given = ollama.Client(host=str(service.base_url), headers=headers, trust_env=False)
            clients.callback(given.close)
            return given

        yield make


@pytest.mark.parametrize("given", [TEXTS[0], list(TEXTS)])
def test_texts_get_the_vectors_of_embed(connect: Connect, bundled: httpx.Client, given: str | list[str]) -> None:
    client = connect(bundled)
    response = client.embed(model="any", input=given, truncate=True, keep_alive="5m", options={"num_ctx": 2048})
    expected = bundled.post("/embed", json={"inputs": given})
    assert response.embeddings == expected.json()
    assert response.prompt_eval_count == int(expected.headers["x-tokens"])
    shorter = bundled.post("/embed", json={"inputs": given, "dimensions": 100}).json()
    assert client.embed(model="any", input=given, dimensions=100).embeddings == shorter
    assert client.embeddings(model="any", prompt=TEXTS[0]).embedding == expected.json()[0]


def test_model_is_listed(connect: Connect, bundled: httpx.Client) -> None:
    (model,) = connect(bundled).list().models
    info = bundled.get("/info").json()
    assert (model.model, model.digest) == (f"{info['model']}:latest", info["fingerprint"])
    assert model.details is not None
    assert model.details.quantization_level == info["precision"]


def test_refusals_are_the_clients_own_errors(connect: Connect, guarded: httpx.Client, bundled: httpx.Client) -> None:
    with pytest.raises(ollama.ResponseError, match=r"input has \d+ tokens; the model reads 256") as refused:
        connect(bundled).embed(model="any", input=LONG, truncate=False)
    assert refused.value.status_code == 422
    with pytest.raises(ollama.ResponseError, match="send a known key"):
        connect(guarded).embed(model="any", input="a")
    assert connect(guarded, authorization=f"Bearer {KEY}").embed(model="any", input="a").embeddings
