"""Clients that cannot run here, by the requests that their code sends (read in 2026), against the whole application."""

import base64
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.artifacts import TEXTS
from tests.clients.matrix import RECORDED
from tests.service.conftest import Serve

KEY = "sesame"
QUERY = "Who plays the guitar?"
PAIRS = [*TEXTS[:3]]
OPENAI, RERANK = "/v1/embeddings", "/v1/rerank"

# name of the client -> path, body, and what of the answer is compared: vectors, base64, bare, ollama, or results
REQUESTS: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "Open WebUI": [
        (OPENAI, {"input": PAIRS, "model": "any"}, "vectors"),
        (RERANK, {"model": "any", "query": QUERY, "documents": PAIRS, "top_n": 3}, "results"),
        (RERANK, {"model": "any", "query": QUERY, "documents": [*PAIRS, ""], "top_n": 4}, "every"),
    ],
    "AnythingLLM": [(OPENAI, {"input": PAIRS, "model": "any", "encoding_format": "base64"}, "base64")],
    "n8n": [(OPENAI, {"input": PAIRS, "model": "any", "encoding_format": "float"}, "vectors")],
    "Dify (OpenAI-compatible)": [
        (OPENAI, {"input": "ping", "model": "any", "encoding_format": "float"}, "ping"),
        (OPENAI, {"input": PAIRS, "model": "any", "encoding_format": "float"}, "vectors"),
        (RERANK, {"model": "any", "query": QUERY, "documents": PAIRS, "top_n": 3, "return_documents": True}, "results"),
    ],
    "Dify (TEI)": [
        ("/tokenize", {"inputs": PAIRS}, "tokens"),
        (OPENAI, {"input": PAIRS}, "vectors"),
        ("/reranker/rerank", {"query": QUERY, "texts": PAIRS, "return_text": True}, "bare results"),
    ],
    "LibreChat": [
        (OPENAI, {"input": PAIRS, "model": "any", "encoding_format": "base64"}, "base64"),
        (RERANK, {"model": "any", "query": QUERY, "documents": PAIRS, "top_n": 3, "return_documents": True}, "texts"),
    ],
    "RAGFlow": [
        (OPENAI, {"input": PAIRS, "model": "any", "encoding_format": "float", "drop_params": True}, "vectors"),
        ("/embed", {"inputs": PAIRS}, "bare"),
        ("/rerank", {"query": QUERY, "texts": PAIRS, "raw_scores": False, "truncate": True}, "bare results"),
    ],
    "Meilisearch": [
        (OPENAI, {"model": "any", "input": PAIRS}, "vectors"),
        ("/api/embed", {"model": "any", "input": PAIRS}, "ollama"),
    ],
}


@pytest.fixture(scope="module")
def client(serve_module: Serve) -> TestClient:
    client = serve_module(api_keys=KEY)
    client.headers["authorization"] = f"Bearer {KEY}"
    return client


def test_every_recorded_client_is_in_the_table() -> None:
    assert [*REQUESTS] == [client.name for client in RECORDED]


@pytest.mark.parametrize(
    ("path", "body", "compared"),
    [pytest.param(*request, id=f"{name}{request[0]}") for name, sent in REQUESTS.items() for request in sent],
)
def test_a_recorded_request_is_answered(client: TestClient, path: str, body: dict[str, Any], compared: str) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    ranked = client.post("/rerank", json={"query": QUERY, "texts": PAIRS}).json()
    wanted = np.array(client.post("/embed", json={"inputs": "ping" if compared == "ping" else PAIRS}).json())
    match compared:
        case "vectors" | "ping":
            assert np.array([item["embedding"] for item in answer["data"]]) == pytest.approx(wanted)
        case "base64":
            vectors = [np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in answer["data"]]
            assert np.array(vectors) == pytest.approx(wanted, abs=1e-6)
        case "bare":
            assert np.array(answer) == pytest.approx(wanted)
        case "ollama":
            assert np.array(answer["embeddings"]) == pytest.approx(wanted)
        case "tokens":
            assert [[token["text"] for token in tokens if not token["special"]] for tokens in answer] != []
            assert all({"id", "text", "special", "start", "stop"} <= token.keys() for row in answer for token in row)
        case "bare results":
            assert [(hit["index"], hit["score"]) for hit in answer] == [(hit["index"], hit["score"]) for hit in ranked]
            assert {hit.get("text") for hit in answer} == ({*PAIRS} if body.get("return_text") else {None})
        case "texts":
            assert [hit["document"]["text"] for hit in answer["results"]] == [PAIRS[hit["index"]] for hit in ranked]
        case "every":
            assert sorted(hit["index"] for hit in answer["results"]) == [0, 1, 2, 3]
            assert answer["results"][-1]["index"] == 3  # the empty document
        case _:
            results = [(hit["index"], hit["relevance_score"]) for hit in answer["results"]]
            assert results == [(hit["index"], hit["score"]) for hit in ranked]


def test_menus_and_settings_find_the_model(client: TestClient) -> None:
    assert any("embed" in model["id"] for model in client.get("/v1/models").json()["data"])  # n8n
    info = client.get("/info").json()  # Dify (TEI)
    assert "embedding" in info["model_type"]
    ranking = client.get("/reranker/info").json()
    assert [*ranking["model_type"]] == ["reranker"]
    assert all({"max_input_length", "max_client_batch_size"} <= described.keys() for described in (info, ranking))
    assert ranking["model_id"] == client.post("/rerank", json={"query": "a", "texts": ["a"]}).headers["x-reranker"]
