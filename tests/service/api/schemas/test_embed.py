"""One rule for JSON's types on every route, and one for texts that are too long."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, ValidationError

from service.api.schemas.documents import DeleteDocumentsRequest, PutDocumentsRequest
from service.api.schemas.embed import EmbedRequest, SimilarityRequest
from service.api.schemas.openai import OpenAIEmbeddingsRequest
from service.api.schemas.search import SearchRequest
from tests.artifacts import MAX_LENGTH, TEXTS
from tests.service.api import answers

LONG = "guitar " * 50
COMPARED = {"source_sentence": "a", "sentences": [LONG]}
LONG_TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("/embed", {"inputs": ["a", LONG]}),
    ("/v1/embeddings", {"input": ["a", LONG]}),
    ("/rerank", {"query": "a", "texts": ["a", LONG]}),
    ("/v2/rerank", {"query": "a", "documents": ["a", LONG]}),
]


def error_of(client: TestClient, path: str, body: dict[str, Any], *, method: str = "POST") -> str:
    response = client.request(method, path, json=body)
    assert response.status_code == 422, response.text
    return answers.error_of(response)


@pytest.mark.parametrize("given", ["true", "yes", 1, 0, 1.0, []])
@pytest.mark.parametrize(
    ("route", "body", "flag"),
    [
        ("POST /embed", {"inputs": "a"}, "truncate"),
        ("POST /embed", {"inputs": "a"}, "normalize"),
        ("POST /v1/embeddings", {"input": "a"}, "truncate"),
        ("POST /rerank", {"query": "a", "texts": ["b"]}, "raw_scores"),
        ("POST /rerank", {"query": "a", "texts": ["b"]}, "return_text"),
        ("POST /v1/rerank", {"query": "a", "documents": ["b"]}, "return_documents"),
        ("POST /v1/rerank", {"query": "a", "documents": ["b"]}, "windows"),
        ("POST /search", {"query": "a"}, "rerank"),
        ("PUT /documents", {"documents": [{"id": "a", "text": "b"}]}, "chunk"),
    ],
)
def test_only_true_and_false_are_booleans(
    client: TestClient, route: str, body: dict[str, Any], flag: str, given: object
) -> None:
    method, path = route.split()
    assert error_of(client, path, body | {flag: given}, method=method).startswith(f"{flag}: ")


def test_the_booleans_of_parameters_are_as_strict(client: TestClient) -> None:
    error = error_of(client, "/similarity", {"inputs": COMPARED, "parameters": {"truncate": "false"}})
    assert error.startswith("parameters.truncate: send true or")


@pytest.mark.parametrize(
    ("path", "body", "number"),
    [
        ("/embed", {"inputs": "a"}, "dimensions"),
        ("/v1/embeddings", {"input": "a"}, "dimensions"),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}, "top_n"),
        ("/search", {"query": "a"}, "top_k"),
        ("/search", {"query": "a"}, "offset"),
    ],
)
def test_a_number_is_taken_by_its_value_and_a_string_never(
    client: TestClient, path: str, body: dict[str, Any], number: str
) -> None:
    for written in (b"5", b"5.0", b"0.5e1"):
        content = json.dumps(body)[:-1].encode() + b', "%b": %b}' % (number.encode(), written)
        response = client.post(path, content=content, headers={"content-type": "application/json"})
        assert response.status_code == 200, response.text
    for given in ("5", True, 5.5, [5]):
        assert error_of(client, path, body | {number: given}).startswith(f"{number}: ")


@pytest.mark.parametrize(("path", "body"), LONG_TEXTS)
def test_a_text_that_is_too_long_is_cut_or_refused_as_asked(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    cut = [client.post(path, json=body | more) for more in ({}, {"truncate": True}, {"truncate": "END"})]
    assert [response.status_code for response in cut] == [200] * 3
    assert {response.headers["x-truncated"] for response in cut} == {"1; indices=1"}
    for refused in (False, "NONE"):
        error = error_of(client, path, body | {"truncate": refused})
        assert "[1] has " in error
        assert f"the model reads {MAX_LENGTH}" in error


@pytest.mark.parametrize("options", [{"truncate": "START"}, {"truncation_direction": "Left"}])
def test_long_text_may_keep_its_end(client: TestClient, options: dict[str, Any]) -> None:
    words = ["guitar"] * 50 + ["stock", "market"]
    inputs = [TEXTS[0], " ".join(words)]
    # One token a word, in a frame of two.
    ends = [TEXTS[0], " ".join(words[-(MAX_LENGTH - 2) :])]
    response = client.post("/embed", json={"inputs": inputs} | options)
    assert response.json() == client.post("/embed", json={"inputs": ends}).json()
    assert response.headers["x-truncated"] == "1; indices=1"
    openai = client.post("/v1/embeddings", json={"input": inputs} | options).json()["data"]
    assert [one["embedding"] for one in openai] == response.json()


@pytest.mark.parametrize(("path", "key"), [("/rerank", "texts"), ("/v1/rerank", "documents")])
def test_passages_never_keep_their_end(client: TestClient, path: str, key: str) -> None:
    for options in ({"truncate": "START"}, {"truncation_direction": "Left"}):
        assert "read from its beginning" in error_of(client, path, {"query": "a", key: ["b"]} | options)


def test_the_end_may_be_asked_for_where_nothing_is_cut(client: TestClient) -> None:
    options = {"truncate": False, "truncation_direction": "Left"}
    given, plain = (client.post("/embed", json={"inputs": "a"} | more).json() for more in (options, {}))
    assert given == plain


def vectors_in(answer: Any) -> np.ndarray:
    """The vectors in the shape of any route."""
    while isinstance(answer, dict):
        answer = next(answer[name] for name in ("data", "embedding", "embeddings", "float") if name in answer)
    rows = [one["embedding"] if isinstance(one, dict) else one for one in answer]
    return np.atleast_2d([np.frombuffer(base64.b64decode(row), "<f4") if isinstance(row, str) else row for row in rows])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((path, {"inputs": [*TEXTS[:3]]}) for path in ("/", "/embed")),
        *(("/v1/embeddings", {"input": [*TEXTS[:3]], "encoding_format": form}) for form in ("float", "base64")),
        ("/api/embed", {"input": [*TEXTS[:3]]}),
        ("/api/embeddings", {"prompt": TEXTS[0]}),
        *((path, {"texts": [*TEXTS[:3]]}) for path in ("/v1/embed", "/v2/embed")),
    ],
)
def test_normalize_false_keeps_the_first_numbers(client: TestClient, path: str, body: dict[str, object]) -> None:
    name = "output_dimension" if "texts" in body else "dimensions"

    def vectors(dimensions: int | None = None, **options: object) -> np.ndarray:
        response = client.post(path, json=body | {name: dimensions} | options)
        assert response.status_code == 200, response.text
        return vectors_in(response.json())

    whole_BD = vectors()
    np.testing.assert_allclose(np.linalg.norm(whole_BD, axis=1), 1, atol=1e-6)
    assert np.array_equal(vectors(normalize=False), whole_BD)
    assert np.array_equal(vectors(normalize=False, dimensions=5), whole_BD[:, :5])
    cut_BD = whole_BD[:, :5] / np.linalg.norm(whole_BD[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(vectors(dimensions=5), cut_BD, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (EmbedRequest, {"inputs": [1.5] * 1000}),
        (SimilarityRequest, {"inputs": {"pairs": [[1, 2]] * 1000}}),
        (SimilarityRequest, {"inputs": {"left": [1] * 1000, "right": [1] * 1000}}),
        (SimilarityRequest, {"inputs": {"source_sentence": "a", "sentences": [1] * 1000}}),
        (DeleteDocumentsRequest, {"ids": [1] * 1000}),
        (SearchRequest, {"queries": [1] * 1000, "include": [1] * 1000}),
        (SearchRequest, {"query": "a"} | {str(number): 1 for number in range(1000)}),
        (OpenAIEmbeddingsRequest, {"input": [1.5] * 1000}),
        (OpenAIEmbeddingsRequest, {"input": [[1.5] * 1000] * 1000}),
    ],
)
def test_a_thousand_wrong_elements_cost_no_thousand_errors(model: type[BaseModel], body: object) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    assert caught.value.error_count() <= 4


def test_a_thousand_wrong_documents_are_refused_by_few() -> None:
    assert 1 <= len(PutDocumentsRequest.model_validate({"documents": [1] * 1000}).refusal) <= 4
