"""POST /rerank with a re-ranker beside the bi-encoder: x = c + w p (1 - c), mapped to [0, 1]."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from tests.artifacts import MAX_LENGTH, TEXTS, build_artifact
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

QUERY = "Who plays the guitar?"
LONG = " ".join(TEXTS)
WEIGHT = 0.4


def ranked(client: TestClient, texts: list[str], **options: Any) -> list[float]:
    """Scores in the order of the texts."""
    response = client.post("/rerank", json={"query": QUERY, "texts": texts} | options)
    assert response.status_code == 200, response.text
    results = response.json()
    assert [one["score"] for one in results] == sorted((one["score"] for one in results), reverse=True)
    return [one["score"] for one in sorted(results, key=lambda one: int(one["index"]))]


def cosines(client: TestClient, texts: list[str]) -> Any:
    """The oracle, from the vectors that /embed gives for the prompts' names."""
    query_D = np.array(client.post("/embed", json={"inputs": QUERY, "prompt_name": "query"}).json()[0])
    answer = client.post("/embed", json={"inputs": texts, "prompt_name": "passage"}).json()
    return np.array(answer) @ query_D


@pytest.fixture
def both(serve: Serve, tmp_path: Path, tiny_reranker: Path) -> TestClient:
    build_artifact(tmp_path / "model", prompts={"query": "man : ", "passage": "stock : "})
    return serve(model=tmp_path / "model", reranker=tiny_reranker, rerank_weight=WEIGHT)


def test_a_score_is_the_cosine_raised_by_the_rerankers(serve: Serve, both: TestClient, tiny_reranker: Path) -> None:
    texts = list(TEXTS)
    logit_N = np.array(ranked(serve(reranker=tiny_reranker, rerank_weight="alone"), texts, raw_scores=True))
    cosine_N = cosines(both, texts)
    expected_N = cosine_N + WEIGHT / (1 + np.exp(-logit_N)) * (1 - cosine_N)
    np.testing.assert_allclose(ranked(both, texts, raw_scores=True), expected_N, atol=1e-6)
    np.testing.assert_allclose(ranked(both, texts), (1 + expected_N) / 2, atol=1e-6)


def test_every_shape_has_the_same_scores_and_names_the_reranker(both: TestClient) -> None:
    scores = ranked(both, list(TEXTS))
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        response = both.post(path, json={"query": QUERY, "documents": list(TEXTS)})
        found = {one["index"]: one["relevance_score"] for one in response.json()["results"]}
        assert [found[index] for index in range(len(TEXTS))] == scores
        assert (response.json()["model"], response.headers["x-reranker"]) == ("tiny-reranker", "tiny-reranker")


def test_the_weight_0_is_the_bi_encoder(serve: Serve, client: TestClient, tiny_reranker: Path) -> None:
    texts = list(TEXTS)
    assert ranked(serve(reranker=tiny_reranker, rerank_weight=0), texts) == ranked(client, texts)


def test_a_search_by_vectors_and_rerank_give_the_same_scores(both: TestClient) -> None:
    documents = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    both.put("/documents", json={"documents": documents}).raise_for_status()
    body = {"query": QUERY, "mode": "dense", "rerank": True, "top_k": len(TEXTS)}
    found = {one["id"]: one["score"] for one in both.post("/search", json=body).json()["results"]}
    raw = ranked(both, list(TEXTS), raw_scores=True)
    assert [found[str(number)] for number in range(len(TEXTS))] == pytest.approx(raw, abs=1e-6)


def test_each_model_takes_its_own_best_window(serve: Serve, tiny_model: Path, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight=WEIGHT)
    encoder, reranker = load_encoder(tiny_model), Reranker.load(tiny_reranker)
    parts, pairs = encoder.windows(LONG, prompt=""), reranker.windows(QUERY, LONG)
    assert min(len(parts), len(pairs)) > 3
    query_D = encoder.encode(QUERY).vector
    cosine = max(float(encoder.encode(part).vector @ query_D) for part in parts)
    score = max(map(reranker.score, pairs))
    response = client.post("/rerank", json={"query": QUERY, "texts": [LONG, "hallo"], "windows": True})
    assert response.headers["x-truncated"] == "0"
    found = ranked(client, [LONG, "hallo"], windows=True, raw_scores=True)
    assert found[0] == pytest.approx(cosine + WEIGHT * score * (1 - cosine), abs=1e-6)
    assert found[1] == ranked(client, ["hallo"], raw_scores=True)[0]


def test_the_cost_is_that_of_both_models(serve: Serve, client: TestClient, tiny_reranker: Path) -> None:
    body = {"query": QUERY, "documents": [*TEXTS, TEXTS[0]]}
    alone, both = (serve(reranker=tiny_reranker, rerank_weight=weight) for weight in ("alone", WEIGHT))
    tokens = [int(one.post("/v2/rerank", json=body).headers["x-tokens"]) for one in (client, alone)]
    response = both.post("/v2/rerank", json=body)
    assert int(response.headers["x-tokens"]) == sum(tokens)
    assert response.json()["usage"]["total_tokens"] == sum(tokens)
    assert f"crosslet_tokens_total {float(sum(tokens))}" in both.get("/metrics").text.splitlines()


def test_cosines_come_from_the_cache_and_keep_their_bits(serve: Serve, tiny_reranker: Path) -> None:
    plain, kept = (serve(reranker=tiny_reranker, cache_bytes=size) for size in (0, 1_000_000))
    scores = ranked(plain, list(TEXTS))
    for _ in range(2):  # computed, then kept
        assert ranked(kept, list(TEXTS)) == scores
    hits = next(line for line in kept.get("/metrics").text.splitlines() if line.startswith("crosslet_cache_hits_total"))
    assert float(hits.split()[1]) == 1 + len(TEXTS)


def test_a_passage_is_cut_if_either_model_cuts_it(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker)
    fits = "guitar " * (MAX_LENGTH - 3)  # the bi-encoder; a pair has the query as well
    response = client.post("/v1/rerank", json={"query": QUERY, "documents": ["hallo", fits, LONG]})
    assert response.headers["x-truncated"] == "2; indices=1,2"
    assert response.json()["meta"]["warnings"] == ["documents[1] was cut", "documents[2] was cut"]


def test_a_query_is_cut_if_either_model_cuts_it(serve: Serve, tiny_reranker: Path) -> None:
    fits = "guitar " * (MAX_LENGTH - 3)  # the bi-encoder; a pair has half of the room for it
    for weight in (0.2, "alone"):
        client = serve(reranker=tiny_reranker, rerank_weight=weight)
        for windows in (False, True):
            body = {"query": fits, "documents": ["hallo"], "windows": windows}
            response = client.post("/v1/rerank", json=body)
            assert response.headers["x-truncated"] == "0; query"  # the passage was read whole
            assert response.json()["meta"]["warnings"] == ["query was cut"]
        response = client.post("/v1/rerank", json={"query": fits, "documents": ["hallo", LONG]})
        assert response.headers["x-truncated"] == "1; indices=1; query"
        response = client.post("/v1/rerank", json={"query": "a", "documents": [LONG]})
        assert response.headers["x-truncated"] == "1; indices=0"


def test_a_forbidden_cut_names_the_text_and_both_lengths(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker)
    fits = "guitar " * (MAX_LENGTH - 3)
    for query, texts, message in (  # both cut LONG: the model that finds it first names it
        ("a", ["hallo", LONG], rf"texts\[1\] (and the query have|has) .* reads {MAX_LENGTH}"),
        (LONG, ["hallo"], rf"(query has|texts\[0\] and the query have) .* reads {MAX_LENGTH}"),
        (QUERY, ["hallo", fits], rf"texts\[1\] and the query have .* the re-ranker reads {MAX_LENGTH}"),
    ):
        response = client.post("/rerank", json={"query": query, "texts": texts, "truncate": False})
        assert_refused(response, 422, "Tokenizer")
        assert re.match(message, response.json()["error"]), response.text


def test_as_many_windows_as_texts_are_allowed_for_each_model(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, max_texts=len(TEXTS))
    body = {"query": "a", "documents": ["hallo"] * len(TEXTS), "windows": True}
    assert client.post("/v2/rerank", json=body).status_code == 200
