"""Cohere's routes for embeddings: the vectors of /embed in Cohere's shapes and forms."""

import base64
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.api.routes.cohere import by_type
from tests.artifacts import MAX_LENGTH, TEXTS
from tests.service.api.answers import assert_refused

PATHS = ("/v1/embed", "/v2/embed")
FORMS = ["float", "int8", "uint8", "binary", "ubinary", "base64"]


def embed(client: TestClient, path: str = "/v2/embed", **body: Any) -> dict[str, Any]:
    response = client.post(path, json={"model": "any", "texts": list(TEXTS), "input_type": "search_document"} | body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_vectors_are_those_of_embed(client: TestClient) -> None:
    plain = client.post("/embed", json={"inputs": list(TEXTS)})
    second, first = embed(client), embed(client, "/v1/embed")
    assert second["embeddings"] == {"float": plain.json()}
    assert first["embeddings"] == plain.json()
    assert [one["response_type"] for one in (second, first)] == ["embeddings_by_type", "embeddings_floats"]
    for answer in (second, first):
        assert answer["texts"] == list(TEXTS)
        assert answer["id"]
        assert answer["meta"]["billed_units"]["input_tokens"] == int(plain.headers["x-tokens"])


@pytest.mark.parametrize("path", PATHS)
def test_each_form_is_computed_from_the_vector(client: TestClient, path: str) -> None:
    forms = embed(client, path, embedding_types=FORMS)["embeddings"]
    assert list(forms) == FORMS
    vectors_BD = np.asarray(forms["float"], np.float32)
    decoded = [np.frombuffer(base64.b64decode(one), "<f4") for one in forms["base64"]]
    assert np.array_equal(decoded, vectors_BD)
    ubinary = [[int("".join("01"[int(x > 0)] for x in row[at : at + 8]), 2) for at in (0, 8)] for row in vectors_BD]
    assert forms["ubinary"] == ubinary
    assert forms["binary"] == [[byte - 128 for byte in row] for row in ubinary]
    assert forms["uint8"] == [[number + 128 for number in row] for row in forms["int8"]]
    step = 6 / np.sqrt(vectors_BD.shape[1]) / 127
    np.testing.assert_allclose(np.asarray(forms["int8"]) * step, vectors_BD, atol=step * 0.501)


def test_int8_clips_and_keeps_cosines() -> None:
    vectors_BD = np.random.default_rng(0).normal(size=(50, 384)).astype(np.float32)
    vectors_BD[0, 0] = 100
    vectors_BD /= np.linalg.norm(vectors_BD, axis=1, keepdims=True)
    int8_BD = np.asarray(by_type(vectors_BD, ["int8"])["int8"])
    assert int8_BD[0, 0] == 127
    scaled_BD = int8_BD[1:].astype(np.float64) * 6 / np.sqrt(384) / 127
    np.testing.assert_allclose(scaled_BD @ scaled_BD.T, vectors_BD[1:] @ vectors_BD[1:].T, atol=0.01)


def test_options_are_those_of_embed(client: TestClient) -> None:
    shorter = client.post("/embed", json={"inputs": list(TEXTS), "dimensions": 5}).json()
    assert embed(client, output_dimension=5)["embeddings"]["float"] == shorter
    long = ["a", "guitar " * 50 + "stock"]
    for truncate in ("END", "START"):
        given = embed(client, texts=long, truncate=truncate)
        assert given["embeddings"]["float"] == client.post("/embed", json={"inputs": long, "truncate": truncate}).json()
        assert given["meta"]["warnings"] == ["texts[1] was cut"]
    refused = client.post("/v2/embed", json={"texts": long, "truncate": "NONE"})
    assert_refused(refused, 422, "Tokenizer", "texts[1] has", f"the model reads {MAX_LENGTH}")


@pytest.mark.parametrize("input_type", ["search_document", "search_query", "classification", "clustering", None])
def test_input_types_need_no_prompts(client: TestClient, input_type: str | None) -> None:
    assert embed(client, input_type=input_type)["embeddings"] == embed(client)["embeddings"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"texts": ["a"], "embedding_types": ["int4"]}, "embedding_types[0]: "),
        ({"texts": ["a"], "embedding_types": []}, "embedding_types: "),
        ({"texts": ["a"], "images": ["data:"]}, "images has no effect here"),
        ({"texts": ["a"], "dimensions": 128}, "dimensions has no effect here: send output_dimension"),
        ({"texts": ["a"], "embedding_type": "int8"}, "embedding_type has no effect here: send embedding_types"),
        ({"texts": ["a"], "input_type": "image"}, "reads text alone"),
        ({"inputs": [{"content": []}]}, "inputs has no effect here: send texts"),
    ],
)
def test_wrong_requests_are_refused_in_a_sentence(
    client: TestClient, path: str, body: dict[str, Any], words: str
) -> None:
    assert_refused(client.post(path, json=body), 422, "Validation", words)
