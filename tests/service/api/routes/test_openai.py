"""OpenAI's routes: its shapes and errors, and a request with as many texts as OpenAI takes."""

import asyncio
import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.api.responses import dump_in_turns
from service.model import openai_ids
from tests.artifacts import TEXTS, write_manifest
from tests.service.api.answers import assert_refused, error_of
from tests.service.conftest import Serve

OPENAIS_LIMIT = 2048
MANY = [f"guitar {number}" for number in range(OPENAIS_LIMIT)]


@pytest.fixture
def no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No package that has OpenAI's vocabulary is installed."""
    monkeypatch.setattr(openai_ids, "PLACES", {"absent": "file", "json": "none.gz"})
    openai_ids.openai_vocabulary.cache_clear()
    yield
    openai_ids.openai_vocabulary.cache_clear()


def message(client: TestClient, body: dict[str, object]) -> str:
    response = client.post("/v1/embeddings", json=body)
    assert response.status_code == 422
    return error_of(response)


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_2048_texts_get_the_vectors_of_embed_in_order(client: TestClient, encoding_format: str) -> None:
    answer = client.post("/v1/embeddings", json={"input": MANY, "encoding_format": encoding_format}).json()
    assert [one["index"] for one in answer["data"]] == list(range(OPENAIS_LIMIT))
    embeddings = [one["embedding"] for one in answer["data"]]
    if encoding_format == "base64":
        embeddings = [np.frombuffer(base64.b64decode(one), "<f4") for one in embeddings]
    parts = [client.post("/embed", json={"inputs": MANY[start : start + 512]}) for start in range(0, 2048, 512)]
    assert np.array_equal(
        np.asarray(embeddings, np.float32), np.concatenate([np.asarray(part.json(), np.float32) for part in parts])
    )
    assert answer["usage"]["total_tokens"] == sum(int(part.headers["x-tokens"]) for part in parts)


def test_others_are_answered_while_an_answer_is_written() -> None:
    async def turns_of_the_loop() -> int:
        vectors_BD = np.ones((OPENAIS_LIMIT, 16), np.float32)
        writing, turns = asyncio.create_task(dump_in_turns(vectors_BD)), 0
        while not writing.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(turns_of_the_loop()) >= 16


def test_the_limit_is_a_setting_of_its_own(serve: Serve) -> None:
    client = serve(max_openai_texts=2, max_texts=1)
    assert client.post("/v1/embeddings", json={"input": ["a", "b"]}).status_code == 200
    assert "3 texts; the limit is 2 " in message(client, {"input": ["a", "b", "c"]})
    info = client.get("/info").json()
    assert info["limits"]["max_openai_texts"] == 2
    assert info["max_client_batch_size"] == 1  # TEI's clients post to /embed


def test_one_text_among_many_is_named(client: TestClient) -> None:
    cut = {"input": [*MANY[:1500], "guitar " * 50, *MANY[1501:]]}
    assert client.post("/v1/embeddings", json=cut).headers["x-truncated"] == "1; indices=1500"
    assert message(client, cut | {"truncate": False}).startswith("input[1500] has ")
    assert message(client, {"input": [*MANY[:1500], "", *MANY[1501:]]}).startswith("input[1500] is empty")


@pytest.mark.parametrize("input_", [[5], [[5], [6, 7]], [2**70], [[]]])
@pytest.mark.parametrize(
    ("setting", "way_out"), [("off", "CROSSLET_TOKEN_IDS=cl100k_base"), ("cl100k_base", "crosslet[openai-ids]")]
)
def test_refused_token_ids_have_a_way_out(
    serve: Serve, no_vocabulary: None, input_: object, setting: str, way_out: str
) -> None:
    response = serve(token_ids=setting).post("/v1/embeddings", json={"input": input_})
    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "Validation")
    assert error["message"].startswith("input has token ids")
    assert "check_embedding_ctx_length=False" in error["message"]
    assert way_out in error["message"]


def test_openais_ids_have_the_vectors_of_their_text(client: TestClient) -> None:
    ids, text = [9906, 11, 1917, 0], "Hello, world!"
    plain = client.post("/v1/embeddings", json={"input": [text, text]}).json()
    assert client.post("/v1/embeddings", json={"input": [ids, ids]}).json() == plain
    assert client.post("/v1/embeddings", json={"input": ids}).json()["data"] == plain["data"][:1]


@pytest.mark.parametrize(
    ("settings", "input_", "words"),
    [
        ({}, [[9906], [100_256]], "input[1] has a token id that cl100k_base does not use"),
        ({}, [9906, 254, 9906], "input has token ids that stand for no text"),
        ({"max_text_chars": 2}, [9906], "input has 5 characters; the limit is 2 (CROSSLET_MAX_TEXT_CHARS)"),
        ({"max_text_chars": 2}, [9906] * 3, "input has 3 token ids; the limit is 2 (CROSSLET_MAX_TEXT_CHARS)"),
    ],
)
def test_openais_ids_are_refused_by_their_place(
    serve: Serve, settings: dict[str, int], input_: object, words: str
) -> None:
    assert words in message(serve(**settings), {"input": input_})


def test_ids_decode_to_no_more_than_a_body(serve: Serve) -> None:
    spaces = [58040] * 3  # 81 spaces each
    response = serve(max_body_bytes=300).post("/v1/embeddings", json={"input": [spaces, spaces]})
    assert response.status_code == 413
    assert "CROSSLET_MAX_BODY_BYTES" in error_of(response)


@pytest.mark.parametrize("setting", ["own", "true", True])
def test_token_ids_are_this_models_where_it_is_set(serve: Serve, tiny_model: Path, setting: object) -> None:
    client = serve(token_ids=setting)
    ids = json.loads((tiny_model / "parity.json").read_text(encoding="utf-8"))["input_ids"][:2]
    texts = client.post("/v1/embeddings", json={"input": list(TEXTS[:2])}).json()["data"]
    assert client.post("/v1/embeddings", json={"input": ids}).json()["data"] == texts
    assert client.post("/v1/embeddings", json={"input": ids[0]}).json()["data"] == texts[:1]


@pytest.mark.parametrize("path", ["/embeddings", "/embeddings/", "/v1/embeddings/"])
@pytest.mark.parametrize(("input_", "status"), [(list(TEXTS[:2]), 200), ([""], 422)])
def test_openais_route_is_there_without_its_version_too(
    client: TestClient, path: str, input_: list[str], status: int
) -> None:
    answers = [client.post(one, json={"input": input_}) for one in (path, "/v1/embeddings")]
    assert [answer.status_code for answer in answers] == [status] * 2
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/embeddings", 405),
        ("DELETE", "/embeddings/", 405),
        ("DELETE", "/v1/models/", 405),
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/chat/completions", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/", 404),
        ("GET", "/v1/nope/", 404),
    ],
)
def test_errors_under_v1_have_openais_shape(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (status, "invalid_request_error", None)
    assert error["code"] == {404: "NotFound", 405: "Validation"}[status]


@pytest.mark.parametrize("path", ["/v1nope", "/embeddingsnope", "/embeddings/nope", "/v2/v1/"])
def test_errors_elsewhere_have_the_shape_of_all_others(client: TestClient, path: str) -> None:
    assert_refused(client.get(path), 404, "NotFound")


def test_the_one_model_is_listed_as_openai_does(client: TestClient) -> None:
    model = {"id": "tiny", "object": "model", "created": 1767225600, "owned_by": "crosslet"}  # 2026-01-01T00:00:00Z
    for_menus = model | {"id": "tiny-embed"}  # n8n lists only names with "embed"
    for slash in ("", "/"):
        assert client.get(f"/v1/models{slash}").json() == {"object": "list", "data": [model, for_menus]}
        assert client.get(f"/v1/models/tiny{slash}").json() == model
        assert client.get(f"/v1/models/tiny-embed{slash}").json() == for_menus
    assert error_of(client.get("/v1/models/other")) == "no such model; this service serves tiny"


@pytest.mark.parametrize(
    ("name", "created_at", "created"),
    [
        ("org/name", "2026-01-01T00:00:00", 1767225600),
        ("a b", "yesterday", 0),
        ("my-embedder", "yesterday", 0),
        ("ü", "2026-01-01T01:00:00+01:00", 1767225600),
    ],
)
def test_a_model_is_found_whatever_its_manifest_calls_it(
    serve: Serve, tiny_model: Path, tmp_path: Path, name: str, created_at: str, created: int
) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    write_manifest(tmp_path / "model", name=name, created_at=created_at)
    client = serve(model=tmp_path / "model")
    listed, *for_menus = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in for_menus] == ([] if "embed" in name else [f"{name}-embed"])
    assert (listed["id"], listed["created"]) == (name, created)
    for spelling in (quote(name), quote(name, safe="")):
        assert client.get(f"/v1/models/{spelling}").json() == listed
