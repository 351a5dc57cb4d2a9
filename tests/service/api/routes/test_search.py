"""POST /search: what is found, in which mode and order, and which requests are refused."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused, error_of, found, nested, put, search
from tests.service.conftest import Serve


def test_a_search_returns_only_what_was_asked_for(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1], "metadata": {"lang": "de"}})
    (result,) = search(client, query=TEXTS[1], include=[])
    assert result == {"id": "a", "score": pytest.approx(1, abs=1e-6)}


def test_a_mode_chooses_vectors_keywords_or_both(client: TestClient) -> None:
    put(client, {"id": "code", "text": "Oven shows error WK-1702"}, {"id": "other", "text": TEXTS[8]})
    wanted = {"query": "wk1702", "include": ["ranks"]}
    answers = {mode: client.post("/search", json=wanted | {"mode": mode}) for mode in ("dense", "keywords", "hybrid")}
    dense, keywords, hybrid = (answer.json()["results"] for answer in answers.values())
    assert search(client, **wanted) == hybrid
    assert hybrid[0]["id"] == "code"
    assert [one["ranks"]["keywords"] for one in hybrid] == [1, None]
    assert {one["ranks"]["dense"] for one in hybrid} == {1, 2}
    assert [one["ranks"] for one in keywords] == [{"dense": None, "keywords": 1}]
    assert [one["ranks"]["keywords"] for one in dense] == [None, None]
    scores = [{one["id"]: one["score"] for one in results} for results in (dense, hybrid)]
    assert scores[1]["other"] == scores[0]["other"]
    assert "x-tokens" in answers["hybrid"].headers
    assert "x-tokens" not in answers["keywords"].headers  # nothing was embedded


@pytest.mark.parametrize("mode", ["keywords", "hybrid"])
def test_a_search_by_words_takes_filters_and_pages(client: TestClient, mode: str) -> None:
    documents = [{"id": str(n), "text": f"kettle {'red ' * n}", "metadata": {"n": n}} for n in range(1, 5)]
    put(client, *documents)
    wanted = {"query": "red", "mode": mode, "filter": {"n": {"gte": 3}}}
    whole = [one["id"] for one in client.post("/search", json=wanted).json()["results"]]
    assert sorted(whole) == ["3", "4"]
    second = client.post("/search", json={**wanted, "top_k": 1, "offset": 1}).json()["results"]
    assert [one["id"] for one in second] == whole[1:]
    for query in ('"', "red OR *", "NEAR(a b)", "a\x00b", "🙂", "-", "col: x"):
        assert client.post("/search", json={"query": query, "mode": mode}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"query": "x" * 100_001}, 422, "CROSSLET_MAX_TEXT_CHARS"),
        ({"queries": ["x"] * 513}, 422, "CROSSLET_MAX_TEXTS"),
        ({"query": ""}, 422, "query"),
        ({"query": "x", "mode": "sparse"}, 422, "mode"),
    ],
)
def test_a_search_by_words_has_the_limits_of_one_by_vectors(
    client: TestClient, body: dict[str, Any], status: int, word: str
) -> None:
    refused = client.post("/search", json={"mode": "keywords", "top_k": 1} | body)
    assert refused.status_code == status
    assert word in error_of(refused)


def test_several_queries_give_a_list_each(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1]}, {"id": "b", "text": TEXTS[8]})
    results: Any = search(client, queries=[TEXTS[8], TEXTS[1]], top_k=1)
    assert [[result["id"] for result in one] for one in results] == [["b"], ["a"]]


def test_too_long_an_answer_is_refused_before_it_is_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document is in the answer once for each query that finds it."""
    monkeypatch.setattr("service.api.routes.search.MAX_ANSWER_BYTES", 50_000)
    put(client, {"id": "long", "text": "so " * 5000})
    queries = ["so so", "soso", "so", "oso"]
    assert len(search(client, queries=queries[:3], top_k=1)) == 3
    refused = client.post("/search", json={"queries": queries, "top_k": 1})
    assert_refused(refused, 422, "Validation", "50000 bytes", "include")
    assert len(search(client, queries=queries, top_k=1, include=["metadata"])) == 4


def test_a_filter_is_applied_inside_the_search(client: TestClient) -> None:
    put(client, *({"id": f"de{n}", "text": TEXTS[1], "metadata": {"lang": "de"}} for n in range(50)))
    put(client, *({"id": f"zh{n}", "text": TEXTS[11], "metadata": {"lang": "zh"}} for n in range(5)))
    ids = found(client.post("/search", json={"query": TEXTS[1], "top_k": 5, "filter": {"lang": "zh"}}))
    assert ids == [f"zh{n}" for n in range(5)]
    assert client.post("/documents/delete", json={"filter": {"lang": "de"}}).json() == {"deleted": 50}
    assert client.get("/info").json()["index"]["documents"] == 5


def test_pages_of_a_search_follow_each_other(client: TestClient) -> None:
    put(client, *({"id": f"d{n}", "text": TEXTS[n % len(TEXTS)]} for n in range(25)))
    whole = found(client.post("/search", json={"query": TEXTS[1], "top_k": 25}))
    pages = [found(client.post("/search", json={"query": TEXTS[1], "top_k": 10, "offset": n})) for n in (0, 10, 20, 30)]
    assert [*pages[0], *pages[1], *pages[2]] == whole
    assert pages[3] == []
    response = client.post("/search", json={"query": "a", "top_k": 10, "offset": 10**6})
    assert_refused(response, 422, "Validation", "offset and top_k together are 1000010", "CROSSLET_MAX_TOP_K")


def test_min_score_leaves_out_the_rest(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1]}, {"id": "b", "text": TEXTS[11]})
    assert found(client.post("/search", json={"query": TEXTS[1], "min_score": 0.999})) == ["a"]


def test_an_empty_collection_finds_nothing(client: TestClient) -> None:
    assert found(client.post("/search", json={"query": "hallo", "filter": {"not": {"a": 1}}})) == []


def test_the_results_of_all_queries_together_are_limited(serve: Serve) -> None:
    client = serve(max_results=20)
    put(client, {"id": "a", "text": "hallo"})
    assert client.post("/search", json={"queries": ["a"] * 2, "top_k": 10}).status_code == 200
    response = client.post("/search", json={"queries": ["a"] * 3, "top_k": 7})
    assert_refused(response, 422, "Validation", "21 results", "20 (CROSSLET_MAX_RESULTS)")
    assert_refused(client.post("/search", json={"query": "a", "top_k": 21}), 422, "Validation", "CROSSLET_MAX_RESULTS")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"query": "a", "queries": ["a"]}, ["either query or queries", "one of the four"]),
        ({}, ["either query or queries", "one of the four"]),
        ({"query": "a", "like": "a"}, ["one of the four"]),
        ({"vector": [1.0], "like": "a"}, ["one of the four"]),
        ({"vector": []}, ["vector has 0 numbers", "`dim`"]),
        ({"vector": ["1"]}, ["vector[0]"]),
        ({"vector": [1.0], "mode": "hybrid"}, ["mode is hybrid", "leave mode out"]),
        ({"like": "a", "rerank": True}, ["rerank", "send a query"]),
        ({"queries": []}, ["queries is empty"]),
        ({"query": ""}, ["query is empty"]),
        ({"queries": ["a", ""]}, ["queries[1] is empty"]),
        ({"query": "a", "top_k": 0}, ["top_k"]),
        ({"query": "a", "top_k": 1001}, ["1001", "1000", "CROSSLET_MAX_TOP_K"]),
        ({"query": "a", "rerank": True}, ["no re-ranker (CROSSLET_RERANKER)"]),
        ({"query": "a", "include": ["vectors"]}, ["include[0]"]),
        ({"query": "a", "filter": {"a": {"gt": None}}}, ["filter"]),
        ({"query": "a", "filter": nested(100)}, ["filter"]),
        ({"query": "a", "x" * 100_000: 3}, ["the field '" + "x" * 40 + "' is unknown"]),
        (
            {"query": "a", "top-k": 3},
            ["the field 'top-k' is unknown; known are query, queries, vector, like, top_k", "did you mean top_k?"],
        ),
    ],
)
def test_invalid_searches_are_422(client: TestClient, body: dict[str, Any], words: list[str]) -> None:
    assert_refused(client.post("/search", json=body), 422, "Validation", *words)


@pytest.mark.parametrize(("given", "ours"), [("limit", "top_k"), ("K", "top_k"), ("q", "query"), ("offest", "offset")])
def test_an_unknown_field_of_a_search_is_named_with_ours(client: TestClient, given: str, ours: str) -> None:
    for body in ({given: 5}, {"query": "a", given: 5}):
        response = client.post("/search", json=body)
        assert_refused(response, 422, "Validation", f"the field '{given}' is unknown", f"did you mean {ours}?")


INVISIBLE = [" ", "\n\t ", "\u3000\u2003\xa0\u2028", "\u200b\u200d\ufeff\u2060", "\u3164\uffa0\u115f", "\u2800"]
INVISIBLE += ["\x00\x1f\x85", "\xad\ufe0f\u200e"]


@pytest.mark.parametrize("text", INVISIBLE)
def test_a_query_without_a_visible_character_is_refused(client: TestClient, text: str) -> None:
    put(client, {"id": "a", "text": "hallo"})
    for mode in ("dense", "keywords", "hybrid"):
        refused = client.post("/search", json={"query": text, "mode": mode})
        assert_refused(refused, 422, "Validation", "query: has nothing but white space and invisible characters")
    refused = client.post("/search", json={"queries": ["hallo", text]})
    assert_refused(refused, 422, "Validation", "queries[1]: has nothing but white space")
    for texts in ("texts", "documents"):
        refused = client.post("/rerank", json={"query": text, texts: ["hallo"]})
        assert_refused(refused, 422, "Validation", "query: has nothing but white space")
    assert put(client, {"id": "b", "text": text}).status_code == 200  # what is stored is kept as it is


@pytest.mark.parametrize("text", ["a", " . ", "\u200b\u0e01", "\u0301", "🙂\ufe0f", "ᠠ\u180b", "\u3164x"])
def test_a_query_with_a_visible_character_is_taken(client: TestClient, text: str) -> None:
    assert client.post("/search", json={"query": text}).status_code == 200
