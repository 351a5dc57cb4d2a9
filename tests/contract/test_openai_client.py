"""OpenAI's own client against a live service: only the base URL is another."""

import asyncio
import base64
import json
import logging
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import httpx2
import numpy as np
import numpy.typing as npt
import openai
import pytest
from pydantic import SecretStr

from tests.contract.conftest import KEY, MAX_BODY_BYTES, UNSPEAKABLE

LEFT_BYTES = 40  # of memory beside `full_memory`: less than any request of OpenAI's client
TEXTS = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "一个男人正在弹吉他。", "رجل يعزف على الجيتار."]


Connect = Callable[..., openai.OpenAI]  # makes OpenAI's client of a service


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as clients:

        def make(service: httpx.Client, **options: Any) -> openai.OpenAI:
            http_client = httpx2.Client(trust_env=False, timeout=60, event_hooks=options.pop("event_hooks", {}))
            given = {"base_url": f"{service.base_url}/v1", "api_key": "unused", "max_retries": 0} | options
            return clients.enter_context(openai.OpenAI(http_client=http_client, **given))

        yield make


def embedded(service: httpx.Client, texts: list[str]) -> npt.NDArray[np.float32]:
    """The vectors as POST /embed gives them."""
    return np.asarray(service.post("/embed", json={"inputs": texts}).json(), np.float32)


def embedded_in_parts(service: httpx.Client, texts: list[str]) -> npt.NDArray[np.float32]:
    """The same, of more texts than one request to POST /embed may have."""
    return np.concatenate([embedded(service, texts[start : start + 512]) for start in range(0, len(texts), 512)])


def vectors(response: openai.types.CreateEmbeddingResponse) -> npt.NDArray[np.float32]:
    assert [one.index for one in response.data] == list(range(len(response.data)))
    return np.asarray([one.embedding for one in response.data], np.float32)


@pytest.mark.parametrize("count", [1, len(TEXTS)])
def test_texts_get_the_vectors_of_embed(connect: Connect, bundled: httpx.Client, count: int) -> None:
    given = TEXTS[0] if count == 1 else TEXTS
    response = connect(bundled).embeddings.create(model="any", input=given)
    assert np.array_equal(vectors(response), embedded(bundled, TEXTS[:count]))
    assert response.model == bundled.get("/info").json()["model"]
    assert response.object == "list"


@pytest.mark.parametrize("encoding_format", [{}, {"encoding_format": "float"}])
def test_2048_texts_are_one_request(connect: Connect, tiny: httpx.Client, encoding_format: dict[str, Any]) -> None:
    texts = [f"{TEXTS[number % len(TEXTS)]} {number}" for number in range(2048)]
    response = connect(tiny).embeddings.create(model="any", input=texts, **encoding_format)
    assert np.array_equal(vectors(response), embedded_in_parts(tiny, texts))
    with pytest.raises(openai.UnprocessableEntityError, match=r"input has 2049 texts; the limit is 2048"):
        connect(tiny).embeddings.create(model="any", input=[*texts, "a"])


def test_small_requests_are_answered_beside_large_ones(connect: Connect, tiny: httpx.Client) -> None:
    """No 429, whatever others send: a large request never fills the queue."""
    client = connect(tiny)

    def ask(texts: list[str]) -> tuple[float, npt.NDArray[np.float32]]:
        response = client.embeddings.create(model="any", input=texts)
        return time.monotonic(), vectors(response)

    with ThreadPoolExecutor() as threads:
        large = [threads.submit(ask, [f"{name} {n} guitar" for n in range(2048)]) for name in ("first", "second")]
        small = []
        while not all(one.done() for one in large):
            small.append(ask([f"small {len(small)}"]))
        assert [one.result()[1].shape for one in large] == [(2048, 16)] * 2
    assert small[0][0] < min(one.result()[0] for one in large)
    assert np.array_equal(small[0][1], embedded(tiny, ["small 0"]))


def test_texts_may_be_cut_or_not(connect: Connect, bundled: httpx.Client) -> None:
    client, long = connect(bundled), "guitar " * 500
    cut = client.embeddings.create(model="any", input=long, extra_body={"truncate": "END"})
    assert np.array_equal(vectors(cut), embedded(bundled, [long]))
    for refused in (False, "NONE"):
        with pytest.raises(openai.UnprocessableEntityError, match=r"input\[1\] has \d+ tokens; the model reads 128"):
            client.embeddings.create(model="any", input=["a", long], extra_body={"truncate": refused})


def test_what_langchain_sends_at_once_is_taken(tiny: httpx.Client) -> None:
    """Its OpenAIEmbeddings sends 1,000 texts a request, as in examples/langchain_search.py."""
    from langchain_openai import OpenAIEmbeddings  # here: it takes seconds

    texts = [f"guitar {number}" for number in range(1100)]
    with httpx2.Client(trust_env=False, timeout=60) as http_client:
        embeddings = OpenAIEmbeddings(
            base_url=f"{tiny.base_url}/v1",
            api_key=SecretStr("unused"),
            model="crosslet",
            check_embedding_ctx_length=False,
            http_client=http_client,
        )
        given = np.asarray(embeddings.embed_documents(texts), np.float32)
    assert np.array_equal(given, embedded_in_parts(tiny, texts))


def test_the_usage_is_what_the_model_read(connect: Connect, bundled: httpx.Client) -> None:
    usage = connect(bundled).embeddings.create(model="any", input=TEXTS).usage
    tokens = int(bundled.post("/embed", json={"inputs": TEXTS}).headers["x-tokens"])
    assert (usage.prompt_tokens, usage.total_tokens) == (tokens, tokens)


def test_token_ids_get_the_vectors_of_their_texts(connect: Connect, guarded: httpx.Client, guarded_model: Path) -> None:
    parity = json.loads((guarded_model / "parity.json").read_text(encoding="utf-8"))
    texts, ids = parity["texts"][:3], parity["input_ids"][:3]
    create = connect(guarded, api_key=KEY).embeddings.create
    assert np.array_equal(vectors(create(model="any", input=ids)), embedded(guarded, texts))
    assert np.array_equal(vectors(create(model="any", input=ids[0])), embedded(guarded, texts[:1]))


@pytest.mark.parametrize("ids", [[15339, 1917], [[15339], [1917, 0]]])
def test_another_tokenizers_ids_are_refused_by_default(
    connect: Connect, bundled: httpx.Client, ids: list[int] | list[list[int]]
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length=False") as caught:
        connect(bundled).embeddings.create(model="any", input=ids)
    assert "CROSSLET_TOKEN_IDS=true" in str(caught.value)


def test_base64_vectors_equal_those_in_decimals(connect: Connect, bundled: httpx.Client) -> None:
    client = connect(bundled)
    raw = client.embeddings.with_raw_response.create(model="any", input=TEXTS)
    assert json.loads(raw.http_request.content)["encoding_format"] == "base64"
    floats = client.embeddings.create(model="any", input=TEXTS, encoding_format="float")
    assert np.array_equal(vectors(raw.parse()), vectors(floats))


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_fewer_dimensions_are_the_first_ones_at_norm_1(
    connect: Connect, bundled: httpx.Client, encoding_format: str
) -> None:
    whole_BD = embedded(bundled, TEXTS).astype(np.float64)
    cut = connect(bundled).embeddings.with_raw_response.create(
        model="any", input=TEXTS, dimensions=100, encoding_format=encoding_format
    )
    data = json.loads(cut.http_response.content)["data"]
    if encoding_format == "base64":  # asked for by name, the client hands it on as it is
        cut_BD = np.stack([np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in data])
    else:
        cut_BD = np.asarray([one["embedding"] for one in data])
    np.testing.assert_allclose(
        cut_BD, whole_BD[:, :100] / np.linalg.norm(whole_BD[:, :100], axis=1, keepdims=True), atol=1e-6
    )


def test_32_calls_at_once_get_each_their_own_vector(bundled: httpx.Client) -> None:
    texts = [f"{TEXTS[number % len(TEXTS)]} {number}" for number in range(32)]

    async def ask() -> list[openai.types.CreateEmbeddingResponse]:
        http_client = httpx2.AsyncClient(trust_env=False, timeout=120)
        async with openai.AsyncOpenAI(
            base_url=f"{bundled.base_url}/v1", api_key="unused", max_retries=0, http_client=http_client
        ) as client:
            return await asyncio.gather(*(client.embeddings.create(model="any", input=text) for text in texts))

    together = np.concatenate([vectors(response) for response in asyncio.run(ask())])
    assert np.array_equal(together, embedded(bundled, texts))


def test_the_model_is_listed_and_described(connect: Connect, bundled: httpx.Client, guarded: httpx.Client) -> None:
    for service, key in ((bundled, "unused"), (guarded, KEY)):
        client = connect(service, api_key=key)
        (model,) = client.models.list().data
        assert model.id == service.get("/info").json()["model"]
        assert (model.object, model.created > 1_700_000_000) == ("model", True)
        assert client.models.retrieve(model.id) == model
        assert client.embeddings.create(model=model.id, input="hallo").model == model.id
        with pytest.raises(openai.NotFoundError, match=f"this service serves {model.id}") as caught:
            client.models.retrieve("another/model")
        assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.AuthenticationError, match="CROSSLET_API_KEYS"):
        connect(guarded, api_key="wrong").models.list()


def test_what_is_not_served_is_the_clients_not_found_error(connect: Connect, bundled: httpx.Client) -> None:
    with pytest.raises(openai.NotFoundError, match="no such route") as caught:
        connect(bundled).chat.completions.create(model="any", messages=[{"role": "user", "content": "hallo"}])
    assert (caught.value.type, caught.value.code) == ("invalid_request_error", "NotFound")


@pytest.mark.parametrize("path", ["", "/v1/"])
def test_a_base_url_may_end_otherwise(connect: Connect, bundled: httpx.Client, path: str) -> None:
    client = connect(bundled, base_url=f"{str(bundled.base_url).rstrip('/')}{path}")
    assert np.array_equal(vectors(client.embeddings.create(model="any", input=TEXTS)), embedded(bundled, TEXTS))


def test_the_clients_key_is_the_services(connect: Connect, guarded: httpx.Client) -> None:
    response = connect(guarded, api_key=KEY).embeddings.create(model="any", input="hallo")
    assert np.array_equal(vectors(response), embedded(guarded, ["hallo"]))
    with pytest.raises(openai.AuthenticationError, match="CROSSLET_API_KEYS") as caught:
        connect(guarded, api_key="wrong").embeddings.create(model="any", input="hallo")
    assert caught.value.type == "authentication_error"


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


def full_memory(service: httpx.Client) -> socket.socket:
    """A connection whose unfinished body leaves room for small bodies alone, until it is closed."""
    assert service.base_url.port is not None
    address = (service.base_url.host, service.base_url.port)
    head = f"POST /embed HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {KEY}\r\n"
    request = f"{head}content-length: {MAX_BODY_BYTES}\r\n\r\n".encode() + b" " * (MAX_BODY_BYTES - LEFT_BYTES)
    for _ in range(100):
        until_answered(service, 200)  # the one before has left the memory
        holder = socket.create_connection(address)
        holder.sendall(request)
        until_answered(service, 429, unless=holder)
        if not is_answered(holder):
            return holder
        holder.close()  # refused itself: it came while the question above was in memory
    raise AssertionError("the memory for bodies was never held")


def until_answered(service: httpx.Client, status: int, *, unless: socket.socket | None = None) -> None:
    for _ in range(600):
        if service.post("/embed", json={"inputs": "x" * LEFT_BYTES}).status_code == status:
            return
        if unless is not None and is_answered(unless):
            return
        time.sleep(0.05)
    raise AssertionError(f"never answered with {status}")


def is_answered(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])


def test_a_full_service_is_the_clients_rate_limit_error(connect: Connect, guarded: httpx.Client) -> None:
    with full_memory(guarded), pytest.raises(openai.RateLimitError, match="CROSSLET_MAX_INFLIGHT_BYTES") as caught:
        connect(guarded, api_key=KEY).embeddings.create(model="any", input="hallo")
    assert caught.value.type == "rate_limit_error"
    assert int(caught.value.response.headers["retry-after"]) >= 1


def test_the_client_retries_after_the_given_time(
    connect: Connect, guarded: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    statuses: list[int] = []
    with full_memory(guarded) as holder:

        def free_the_memory(response: httpx2.Response) -> None:
            statuses.append(response.status_code)
            holder.close()

        client = connect(guarded, api_key=KEY, max_retries=9, event_hooks={"response": [free_the_memory]})
        with caplog.at_level(logging.INFO, logger="openai"):
            response = client.embeddings.create(model="any", input="hallo")
    assert np.array_equal(vectors(response), embedded(guarded, ["hallo"]))
    assert (statuses[0], statuses[-1]) == (429, 200)
    assert "Retrying request in 1.000000 seconds" in caplog.text  # the header's second, not the client's own guess
