"""Ollama's routes: the vectors of /embed in Ollama's shapes."""

import pytest
from fastapi.testclient import TestClient

from tests.artifacts import MAX_LENGTH, TEXTS
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

OPTIONS = {"model": "any", "options": {"num_ctx": 512}, "keep_alive": "5m"}  # as Ollama's clients send them


@pytest.mark.parametrize("given", [TEXTS[0], list(TEXTS), [f"guitar {number}" for number in range(300)]])
def test_vectors_are_those_of_embed(client: TestClient, given: str | list[str]) -> None:
    response = client.post("/api/embed", json={"input": given, "truncate": True} | OPTIONS)
    plain = client.post("/embed", json={"inputs": given})
    answer = response.json()
    assert answer["embeddings"] == plain.json()
    assert (answer["model"], answer["prompt_eval_count"]) == ("tiny", int(plain.headers["x-tokens"]))
    assert answer["total_duration"] > 0
    assert response.headers["x-tokens"] == plain.headers["x-tokens"]


def test_prompt_has_one_vector(client: TestClient) -> None:
    answer = client.post("/api/embeddings", json={"prompt": TEXTS[0]} | OPTIONS).json()
    assert answer == {"embedding": client.post("/embed", json={"inputs": TEXTS[0]}).json()[0]}


def test_options_are_those_of_embed(client: TestClient) -> None:
    shorter = client.post("/embed", json={"inputs": TEXTS[0], "dimensions": 5}).json()
    assert client.post("/api/embed", json={"input": TEXTS[0], "dimensions": 5}).json()["embeddings"] == shorter
    long = {"input": ["a", "guitar " * 50]}
    assert client.post("/api/embed", json=long).headers["x-truncated"] == "1; indices=1"
    refused = client.post("/api/embed", json=long | {"truncate": False})
    assert_refused(refused, 422, "Tokenizer", "input[1] has", f"the model reads {MAX_LENGTH}")


@pytest.mark.parametrize("given", [{}, {"input": ""}, {"input": []}, {"prompt": ""}, {"input": None, "prompt": None}])
def test_clients_load_the_model_with_an_empty_input(client: TestClient, given: dict[str, object]) -> None:
    answers = {path: client.post(path, json=OPTIONS | given).json() for path in ("/api/embed", "/api/embeddings")}
    nothing = {"model": "tiny", "embeddings": [], "total_duration": 0, "prompt_eval_count": 0}
    assert answers == {"/api/embed": nothing, "/api/embeddings": {"embedding": []}}


def test_model_is_listed_with_a_tag(client: TestClient) -> None:
    (model,) = client.get("/api/tags").json()["models"]
    info = client.get("/info").json()
    assert model["name"] == model["model"] == "tiny:latest"
    assert model["digest"] == info["fingerprint"]
    assert model["size"] > 1000
    assert client.get("/api/version").json() == {"version": info["version"]}


def test_ollamas_routes_are_reached_under_the_prefix_api(serve: Serve) -> None:
    client = serve(root_path="/api")
    assert client.post("/api/embed", json={"inputs": "a"}).status_code == 200
    assert client.post("/api/api/embed", json={"input": "a"}).status_code == 200
