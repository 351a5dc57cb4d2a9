"""A request with as many texts as OpenAI takes."""

import asyncio
import base64

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.api.routes.openai import _data
from tests.service.conftest import Serve

OPENAIS_LIMIT = 2048
TEXTS = [f"guitar {number}" for number in range(OPENAIS_LIMIT)]


def message(client: TestClient, body: dict[str, object]) -> str:
    response = client.post("/v1/embeddings", json=body)
    assert response.status_code == 422
    return str(response.json()["error"]["message"])


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_2048_texts_get_the_vectors_of_embed_in_order(client: TestClient, encoding_format: str) -> None:
    answer = client.post("/v1/embeddings", json={"input": TEXTS, "encoding_format": encoding_format}).json()
    assert [one["index"] for one in answer["data"]] == list(range(OPENAIS_LIMIT))
    embeddings = [one["embedding"] for one in answer["data"]]
    if encoding_format == "base64":
        embeddings = [np.frombuffer(base64.b64decode(one), "<f4") for one in embeddings]
    parts = [client.post("/embed", json={"inputs": TEXTS[start : start + 512]}) for start in range(0, 2048, 512)]
    assert np.array_equal(
        np.asarray(embeddings, np.float32), np.concatenate([np.asarray(part.json(), np.float32) for part in parts])
    )
    assert answer["usage"]["total_tokens"] == sum(int(part.headers["x-tokens"]) for part in parts)


def test_others_are_answered_while_an_answer_is_written() -> None:
    async def turns_of_the_loop() -> int:
        vectors_BD = np.ones((OPENAIS_LIMIT, 16), np.float32)
        writing, turns = asyncio.create_task(_data(vectors_BD, is_base64=False)), 0
        while not writing.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(turns_of_the_loop()) >= 16


def test_more_texts_are_refused_with_both_numbers(client: TestClient) -> None:
    error = message(client, {"input": [*TEXTS, "a"]})
    assert error == "input has 2049 texts; the limit is 2048 (CROSSLET_MAX_OPENAI_TEXTS)"
    assert client.get("/info").json()["limits"]["max_openai_texts"] == OPENAIS_LIMIT


def test_the_limit_is_a_setting_of_its_own(serve: Serve) -> None:
    client = serve(max_openai_texts=2, max_texts=1)
    assert client.post("/v1/embeddings", json={"input": ["a", "b"]}).status_code == 200
    assert "3 texts; the limit is 2 " in message(client, {"input": ["a", "b", "c"]})
    assert client.get("/info").json()["max_client_batch_size"] == 1  # TEI's clients post to /embed


def test_an_empty_text_among_many_is_named(client: TestClient) -> None:
    assert message(client, {"input": [*TEXTS[:1500], "", *TEXTS[1501:]]}).startswith("input[1500] is empty")
    assert message(client, {"input": ["a", "b", "c", ""]}).startswith("input[3] is empty")


def test_a_text_among_many_that_must_not_be_cut_is_named(client: TestClient) -> None:
    given = {"input": [*TEXTS[:1500], "guitar " * 50, *TEXTS[1501:]], "truncate": False}
    assert message(client, given).startswith("input[1500] has ")


def test_cut_texts_among_many_are_counted(client: TestClient) -> None:
    response = client.post("/v1/embeddings", json={"input": [*TEXTS[:1500], "guitar " * 50, *TEXTS[1501:]]})
    assert response.headers["x-truncated"] == "1; indices=1500"
