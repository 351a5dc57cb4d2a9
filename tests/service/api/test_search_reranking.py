from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.model.reranker import Reranker
from tests.artifacts import TEXTS
from tests.reranker_artifact import build_reranker
from tests.service.api.answers import assert_refused, put, search
from tests.service.conftest import Serve

QUERY = "Who plays the guitar?"
DOCUMENTS = [{"id": f"{n:02}", "text": text, "metadata": {"even": n % 2 == 0}} for n, text in enumerate(TEXTS)]


@pytest.fixture
def client(serve: Serve, tiny_reranker: Path) -> TestClient:
    client = serve(reranker=tiny_reranker)
    put(client, *DOCUMENTS)
    return client


def by_pairs(folder: Path, query: str, found: list[dict[str, Any]], weight: float = 0.2) -> list[tuple[str, float]]:
    """The oracle: what a search without re-ranking finds, each pair scored by itself; a stable sort."""
    reranker = Reranker.load(folder)
    scores = [reranker.score(reranker.tokenize(query, TEXTS[int(one["id"])])) for one in found]
    raised = [one["score"] + weight * score * (1 - one["score"]) for one, score in zip(found, scores, strict=True)]
    return sorted(zip((one["id"] for one in found), raised, strict=True), key=lambda one: -one[1])


def close(found: list[dict[str, Any]], expected: list[tuple[str, float]]) -> bool:
    return [one["id"] for one in found] == [name for name, _ in expected] and [
        one["score"] for one in found
    ] == pytest.approx([score for _, score in expected], abs=1e-7)


def test_the_rerankers_scores_raise_those_of_the_search(client: TestClient, tiny_reranker: Path) -> None:
    expected = by_pairs(tiny_reranker, QUERY, search(client, query=QUERY, top_k=8))
    results = search(client, query=QUERY, top_k=8, rerank=True, rerank_k=8)
    assert close(results, expected)
    page = search(client, query=QUERY, top_k=2, offset=3, rerank=True, rerank_k=8)
    assert close(page, expected[3:5])


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_weight_is_a_setting(serve: Serve, tiny_reranker: Path, weight: float) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight=weight)
    put(client, *DOCUMENTS)
    plain = search(client, query=QUERY, top_k=8)
    results = search(client, query=QUERY, top_k=8, rerank=True, rerank_k=8)
    assert close(results, by_pairs(tiny_reranker, QUERY, plain, weight))
    assert ([one["score"] for one in results] == [one["score"] for one in plain]) is (weight == 0)


def test_alone_the_rerankers_scores_are_those_of_the_search(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight="alone")
    put(client, *DOCUMENTS)
    found = search(client, query=QUERY, top_k=8, rerank=True, rerank_k=8)
    reranker = Reranker.load(tiny_reranker)
    assert [one["score"] for one in found] == [
        reranker.score(reranker.tokenize(QUERY, TEXTS[int(one["id"])])) for one in found
    ]
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)


def test_the_rerankers_own_score_can_be_included(client: TestClient, tiny_reranker: Path) -> None:
    reranker = Reranker.load(tiny_reranker)
    results = search(client, query=QUERY, top_k=8, rerank=True, include=["reranker_score"])
    own = [reranker.score(reranker.tokenize(QUERY, TEXTS[int(one["id"])])) for one in results]
    assert [one["reranker_score"] for one in results] == own
    response = client.post("/search", json={"query": QUERY, "include": ["reranker_score"]})
    assert_refused(response, 422, "Validation", "reranker_score", "send rerank")


def test_only_rerank_k_documents_are_read(client: TestClient, tiny_reranker: Path) -> None:
    nearest = search(client, query=QUERY, top_k=3)
    results = search(client, query=QUERY, top_k=3, rerank=True, rerank_k=3)
    assert {one["id"] for one in results} == {one["id"] for one in nearest}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({}, 20),
        ({"top_k": 20}, 20),
        ({"top_k": 15, "offset": 8}, 23),
        ({"top_k": 3, "sort": [{"even": "asc"}], "sort_k": 24}, 24),
    ],
)
def test_by_default_20_or_the_page_are_read(client: TestClient, body: dict[str, Any], count: int) -> None:
    put(client, *({"id": f"more/{n}", "text": "a guitar", "metadata": {"even": True}} for n in range(30)))

    def tokens(**others: Any) -> int:
        return int(client.post("/search", json={"query": QUERY, "rerank": True} | body | others).headers["x-tokens"])

    assert tokens() == tokens(rerank_k=count) < tokens(rerank_k=count + 1)


def test_by_default_no_more_than_the_limit_are_read(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, max_top_k=5)
    put(client, *DOCUMENTS)
    assert len(search(client, query=QUERY, top_k=5, rerank=True)) == 5


def test_filter_and_min_score_hold_before_documents_are_reranked(client: TestClient, tiny_reranker: Path) -> None:
    wanted = {"filter": {"even": True}, "min_score": 0.1, "top_k": 10}
    expected = by_pairs(tiny_reranker, QUERY, search(client, query=QUERY, **wanted))
    assert 0 < len(expected) < 6
    assert close(search(client, query=QUERY, rerank=True, **wanted), expected)
    assert search(client, query=QUERY, rerank=True, filter={"even": "never"}) == []


def test_several_queries_are_reranked_each(client: TestClient) -> None:
    alone = [search(client, query=text, rerank=True) for text in TEXTS[:3]]
    assert search(client, queries=list(TEXTS[:3]), rerank=True) == alone


def test_only_what_is_included_is_returned(client: TestClient) -> None:
    for include in ([], ["text"], ["metadata"]):
        for one in search(client, query=QUERY, rerank=True, include=include):
            assert set(one) == {"id", "score", *include}


def test_the_answer_names_the_reranker_and_counts_its_tokens(client: TestClient) -> None:
    plain = client.post("/search", json={"query": QUERY})
    response = client.post("/search", json={"query": QUERY, "rerank": True})
    assert response.headers["x-reranker"] == "tiny-reranker"
    assert "x-reranker" not in plain.headers
    assert int(response.headers["x-tokens"]) > 10 * int(plain.headers["x-tokens"])
    assert response.headers["x-truncated"] == "0"
    put(client, {"id": "00", "text": "guitar " * 50})
    response = client.post("/search", json={"query": "guitar", "rerank": True})
    assert response.headers["x-truncated"] == "0; documents=1"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rerank_k": 50, "top_k": 51}, ["rerank_k is 50", "together are 51"]),
        ({"rerank_k": 50, "top_k": 10, "offset": 45}, ["rerank_k is 50", "together are 55"]),
        ({"top_k": 1001}, ["top_k is 1001", "1000 (CROSSLET_MAX_TOP_K)"]),
        ({"top_k": 600}, ["times rerank_k, 600", "CROSSLET_MAX_TEXTS"]),
        ({"rerank_k": 1001}, ["rerank_k is 1001", "1000 (CROSSLET_MAX_TOP_K)"]),
        ({"rerank_k": 600}, ["rerank_k, 600, are 600", "512 pairs", "CROSSLET_MAX_TEXTS"]),
        ({"rerank_k": 0}, ["rerank_k"]),
    ],
)
def test_more_or_less_than_can_be_reranked_is_refused(
    client: TestClient, body: dict[str, Any], words: list[str]
) -> None:
    response = client.post("/search", json={"query": QUERY, "rerank": True} | body)
    assert_refused(response, 422, "Validation", *words)


def test_too_many_texts_for_the_reranker_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.search.MAX_ANSWER_BYTES", 200)
    asked = {"query": QUERY, "include": [], "top_k": 1}
    response = client.post("/search", json=asked | {"rerank": True, "rerank_k": len(TEXTS)})
    assert_refused(response, 422, "Validation", "more than 200 characters", "a smaller rerank_k")
    assert client.post("/search", json=asked | {"rerank": True, "rerank_k": 1}).status_code == 200
    response = client.post("/search", json={"query": QUERY, "top_k": len(TEXTS)})
    assert_refused(response, 422, "Validation", "a smaller top_k")


def test_a_document_that_the_reranker_fails_on_is_named(serve: Serve, tmp_path: Path) -> None:
    build_reranker(tmp_path / "reranker", fails_on="kaputt")
    client = serve(reranker=tmp_path / "reranker")
    put(client, {"id": "a", "text": "hallo"}, {"id": "b", "text": "kaputt"})
    assert_refused(client.post("/search", json={"query": "hallo", "rerank": True}), 500, "Backend", "document b: ")
