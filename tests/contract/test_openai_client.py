"""OpenAI's own client against a live service: only the base URL is another."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import httpx2
import numpy as np
import numpy.typing as npt
import openai
import pytest

from service.api.responses import error_response
from service.errors import Overloaded
from tests.contract.conftest import KEY, MAX_BODY_BYTES, UNSPEAKABLE

TEXTS = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "一个男人正在弹吉他。", "رجل يعزف على الجيتار."]

Connect = Callable[..., openai.OpenAI]  # makes OpenAI's client of a service


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as clients:

        def make(service: httpx.Client, *, path: str = "/v1", transport: Any = None, **options: Any) -> openai.OpenAI:
            http_client = httpx2.Client(trust_env=False, timeout=60, transport=transport)
            base_url = f"{str(service.base_url).rstrip('/')}{path}"
            given = {"base_url": base_url, "api_key": "unused", "max_retries": 0} | options
            return clients.enter_context(openai.OpenAI(http_client=http_client, **given))

        yield make


def vectors(response: openai.types.CreateEmbeddingResponse) -> npt.NDArray[np.float32]:
    assert [item.index for item in response.data] == list(range(len(response.data)))
    return np.asarray([item.embedding for item in response.data], np.float32)


@pytest.mark.parametrize("path", ["", "/v1", "/v1/"])
@pytest.mark.parametrize("count", [1, len(TEXTS)])
def test_texts_get_the_vectors_of_embed(connect: Connect, bundled: httpx.Client, path: str, count: int) -> None:
    client, given = connect(bundled, path=path), TEXTS[0] if count == 1 else TEXTS
    raw = client.embeddings.with_raw_response.create(model="any", input=given)
    assert json.loads(raw.http_request.content)["encoding_format"] == "base64"  # what the client asks for by itself
    response, expected = raw.parse(), bundled.post("/embed", json={"inputs": given})
    assert np.array_equal(vectors(response), np.asarray(expected.json(), np.float32))
    assert response.usage.prompt_tokens == response.usage.total_tokens == int(expected.headers["x-tokens"])
    assert (response.object, response.model) == ("list", bundled.get("/info").json()["model"])
    floats = client.embeddings.create(model="any", input=given, encoding_format="float")
    assert np.array_equal(vectors(floats), vectors(response))


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}])
def test_fewer_dimensions_are_the_first_ones_at_norm_1(
    connect: Connect, bundled: httpx.Client, options: dict[str, Any]
) -> None:
    embed = connect(bundled).embeddings.create
    whole_BD = vectors(embed(model="any", input=TEXTS)).astype(np.float64)[:, :100]
    cut_BD = vectors(embed(model="any", input=TEXTS, dimensions=100, **options))
    np.testing.assert_allclose(cut_BD, whole_BD / np.linalg.norm(whole_BD, axis=1, keepdims=True), atol=1e-6)


def test_the_model_is_listed_and_described(connect: Connect, bundled: httpx.Client) -> None:
    client = connect(bundled)
    models = client.models.list().data
    assert (models[0].id, models[0].object) == (bundled.get("/info").json()["model"], "model")
    assert any("embed" in model.id for model in models)
    for model in models:
        assert client.models.retrieve(model.id) == model


@pytest.mark.parametrize(
    ("request_", "error", "status", "words"),
    [
        ({"input": "a", "extra_headers": {"content-encoding": "gzip"}}, openai.BadRequestError, 400, "gzip"),
        ({"input": "x" * MAX_BODY_BYTES}, openai.APIStatusError, 413, "CROSSLET_MAX_BODY_BYTES"),
        ({"input": ["a", ""]}, openai.UnprocessableEntityError, 422, r"input\[1\] is empty"),
        ({"input": ["a"] * 5}, openai.UnprocessableEntityError, 422, "CROSSLET_MAX_OPENAI_TEXTS"),
        ({"input": "a", "dimensions": 10_000}, openai.UnprocessableEntityError, 422, "10000; the model has 16"),
        ({"input": [1, 10**6]}, openai.UnprocessableEntityError, 422, "outside the vocabulary"),
        ({"input": UNSPEAKABLE}, openai.InternalServerError, 500, "the model gave no finite vector"),
    ],
)
def test_each_status_is_the_clients_own_error(
    connect: Connect,
    guarded: httpx.Client,
    request_: dict[str, Any],
    error: type[openai.APIStatusError],
    status: int,
    words: str,
) -> None:
    client = connect(guarded, api_key=KEY)
    with pytest.raises(error, match=words) as caught:
        client.embeddings.create(model="any", **request_)
    assert caught.value.status_code == status
    assert caught.value.type == ("server_error" if status == 500 else "invalid_request_error")
    assert client.embeddings.create(model="any", input="hallo").data  # the next request is none the worse


def test_unknown_routes_models_and_keys_are_the_clients_errors(connect: Connect, guarded: httpx.Client) -> None:
    client = connect(guarded, api_key=KEY)
    with pytest.raises(openai.NotFoundError, match="no such route") as caught:
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hallo"}])
    assert (caught.value.type, caught.value.code) == ("invalid_request_error", "NotFound")
    with pytest.raises(openai.NotFoundError, match="this service serves"):
        client.models.retrieve("another/model")
    with pytest.raises(openai.AuthenticationError, match="CROSSLET_API_KEYS") as refused:
        connect(guarded, api_key="wrong").embeddings.create(model="any", input="hallo")
    assert refused.value.type == "authentication_error"


def test_the_client_waits_as_long_as_a_full_service_says(
    connect: Connect, bundled: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The service's answer when it is full, and then its own."""
    full = error_response("/v1/embeddings", Overloaded("the queue is full", retry_after_s=1))
    answers = [httpx2.Response(full.status_code, headers=dict(full.headers), content=bytes(full.body))] * 2

    def answer(request: httpx2.Request) -> httpx2.Response:
        if answers:
            return answers.pop()
        given = bundled.post("/v1/embeddings", content=request.content, headers={"content-type": "application/json"})
        return httpx2.Response(given.status_code, headers={"content-type": "application/json"}, content=given.content)

    transport = httpx2.MockTransport(answer)
    with pytest.raises(openai.RateLimitError, match="the queue is full") as caught:
        connect(bundled, transport=transport).embeddings.create(model="any", input="hallo")
    assert caught.value.type == "rate_limit_error"
    with caplog.at_level(logging.INFO, logger="openai"):
        assert connect(bundled, transport=transport, max_retries=1).embeddings.create(model="any", input="hallo").data
    assert "Retrying request in 1.000000 seconds" in caplog.text  # the header's second, not the client's own guess
