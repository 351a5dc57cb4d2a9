"""POST /embed and POST /: vectors, their cost, and what cannot be embedded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.model.encoder import load_encoder
from tests.artifacts import DIM, MAX_LENGTH, TEXTS
from tests.service.api.answers import assert_refused, error_of, put
from tests.service.conftest import Serve

LONG = "guitar " * 50


def test_embed_gives_the_encoders_vectors_in_order(client: TestClient, tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    response = client.post("/embed", json={"inputs": list(TEXTS)})
    expected = np.stack([encoder.encode(text).vector for text in TEXTS])
    assert np.array_equal(np.asarray(response.json(), np.float32), expected)  # to the bit, through JSON


def test_one_string_still_gives_a_nested_list(client: TestClient) -> None:
    assert np.shape(client.post("/embed", json={"inputs": "hallo"}).json()) == (1, DIM)


def test_the_cost_is_in_the_headers(client: TestClient) -> None:
    response = client.post("/embed", json={"inputs": ["hallo", LONG]}, headers={"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    assert response.headers["x-truncated"] == "1; indices=1"
    assert int(response.headers["x-tokens"]) > MAX_LENGTH
    assert float(response.headers["x-queue-ms"]) >= 0
    assert float(response.headers["x-inference-ms"]) > 0


def test_a_text_too_long_to_tokenise_is_refused(serve: Serve) -> None:
    client = serve(max_text_chars=100, token_ids=True)
    assert client.post("/embed", json={"inputs": "é" * 100}).status_code == 200
    response = client.post("/embed", json={"inputs": ["a", "é" * 101]})
    assert_refused(response, 422, "Tokenizer", "inputs[1] has 101 characters", "100 (CROSSLET_MAX_TEXT_CHARS)")
    response = client.post("/v1/embeddings", json={"input": [[5] * 100, [5] * 101]})
    assert response.status_code == 422
    assert error_of(response) == "input[1] has 101 token ids; the limit is 100 (CROSSLET_MAX_TEXT_CHARS)"
    assert_refused(put(client, {"id": "a", "text": "a" * 101}), 422, "Tokenizer", "documents[0]")
    ranked = client.post("/rerank", json={"query": "a", "texts": ["a", "a" * 101]})
    assert_refused(ranked, 422, "Tokenizer", "texts[1] has 101 characters")


def test_a_text_counts_as_what_its_ligatures_are_written_out_to(serve: Serve) -> None:
    client = serve(max_text_chars=100)
    assert client.post("/embed", json={"inputs": "\ufdfa" * 11}).status_code == 200  # of 18 characters each
    words = "has 216 characters once ligatures are written out", "200, twice CROSSLET_MAX_TEXT_CHARS"
    assert_refused(client.post("/embed", json={"inputs": "\ufdfa" * 12}), 422, "Tokenizer", *words)
    assert_refused(put(client, {"id": "a", "text": "\ufdfa" * 12}), 422, "Tokenizer", "documents[0].text", *words)
    assert_refused(client.post("/search", json={"query": "\ufdfa" * 12}), 422, "Tokenizer", *words)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.text(st.characters(), min_size=1, max_size=50))
def test_any_json_string_gives_a_vector_or_a_typed_error(client: TestClient, text: str) -> None:
    content = json.dumps({"inputs": text}).encode()  # lone surrogates as \ud800
    response = client.post("/embed", content=content, headers={"content-type": "application/json"})
    if response.status_code == 200:
        assert abs(float(np.linalg.norm(response.json()[0])) - 1) < 1e-5
    else:
        assert_refused(response, 400, "Validation")


@pytest.mark.parametrize(
    ("path", "inputs"),
    [
        ("/embed", "hallo"),
        ("/embed", list(TEXTS)),
        ("/similarity", {"source_sentence": TEXTS[0], "sentences": list(TEXTS[1:3])}),
    ],
)
def test_the_root_embeds_texts_and_compares_an_object(client: TestClient, path: str, inputs: object) -> None:
    """As clients with only a base URL expect."""
    assert client.post("/", json={"inputs": inputs}).json() == client.post(path, json={"inputs": inputs}).json()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": ["a", ""]}, "inputs[1] is empty"),
        ({"inputs": ["a", 3]}, "inputs[1]: "),
        ({"inputs": {"pairs": [["a", "b"], ["c", 3]]}}, "inputs.pairs[1][1]: "),
        ({"inputs": "a", "encoding_format": "base64"}, "encoding_format has no effect here"),
        ({"inputs": {"left": ["a"], "right": ["b"]}, "parameters": {"prompt_name": "a"}}, "parameters: prompt_name"),
        ({}, "inputs: "),
        ([], "the body must be a JSON object"),
    ],
)
def test_errors_of_the_root_name_the_field(client: TestClient, body: object, message: str) -> None:
    response = client.post("/", json=body)
    assert_refused(response, 422, "Validation")
    assert error_of(response).startswith(message)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"truncation_direction": "up"}, "truncation_direction"),
        ({"prompt_name": "query"}, "prompt_name is set, but this model has no prompts"),
    ],
)
def test_what_the_model_cannot_do_is_refused_and_not_ignored(
    client: TestClient, options: dict[str, str], words: str
) -> None:
    compared = {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": options}
    for path, body in (("/embed", {"inputs": "a"} | options), ("/similarity", compared)):
        assert_refused(client.post(path, json=body), 422, "Validation", words)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": ["guitar", "kaputt"]}),
        ("/similarity", {"inputs": {"source_sentence": "guitar", "sentences": ["guitar", "kaputt"]}}),
        ("/search", {"queries": ["guitar", "kaputt"]}),
        ("/v1/embeddings", {"input": ["guitar", "kaputt"]}),
    ],
)
def test_a_text_the_model_fails_on_fails_its_request(
    serve: Serve, failing_model: Path, path: str, body: dict[str, Any]
) -> None:
    assert serve(model=failing_model).post(path, json=body).status_code == 500


def test_white_space_is_embedded_as_other_servers_do(client: TestClient) -> None:
    assert client.post("/embed", json={"inputs": [" "]}).status_code == 200
    assert client.post("/v1/embeddings", json={"input": " ", "model": "any"}).status_code == 200
