"""POST /search: what is found, in which mode and order, and which requests are refused."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.errors import InvalidInput
from service.runtime import LONG_BYTES
from tests.artifacts import DIM, TEXTS, build_artifact, write_manifest
from tests.service.api.answers import assert_refused, found, nested, put, put_texts, search
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
        ({"queries": ["x"] * 513, "mode": "keywords"}, ["CROSSLET_MAX_TEXTS"]),
        ({"query": "", "mode": "keywords"}, ["query is empty"]),
        ({"query": "x", "mode": "sparse"}, ["mode"]),
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


SENTENCES = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "hallo", "guten morgen", "good morning"]


@pytest.fixture
def filled(client: TestClient) -> TestClient:
    put(client, *({"id": str(n), "text": text, "metadata": {"odd": n % 2}} for n, text in enumerate(SENTENCES)))
    return client


def test_vector_of_any_norm_finds_what_its_text_finds(filled: TestClient) -> None:
    by_text = search(filled, query=SENTENCES[1], mode="dense")
    (vector,) = filled.post("/embed", json={"inputs": SENTENCES[1]}).json()
    for scale in (1, 1e-30, 1e300):
        by_vector = search(filled, vector=(np.asarray(vector, np.float64) * scale).tolist())
        assert [one["id"] for one in by_vector] == [one["id"] for one in by_text]
        scores = [one["score"] for one in by_text]
        assert [one["score"] for one in by_vector] == pytest.approx(scores, abs=1e-6)


def test_vector_search_is_dense_though_searches_are_hybrid(serve: Serve) -> None:
    client = serve(search_mode="keywords")
    put(client, {"id": "a", "text": "hallo"})
    (vector,) = client.post("/embed", json={"inputs": "hallo"}).json()
    answer = client.post("/search", json={"vector": vector, "include": ["ranks"]})
    assert answer.json()["results"] == [
        {"id": "a", "score": pytest.approx(1, abs=1e-6), "ranks": {"dense": 1, "keywords": None}}
    ]
    assert "x-tokens" not in answer.headers  # nothing was embedded


@pytest.mark.parametrize(
    ("numbers", "status", "words"),
    [
        (["1.0"], 422, ["vector has 1 numbers", "`dim`"]),
        (["0.0"] * DIM, 422, ["only zeros"]),
        (["1e400"] * DIM, 400, ["body is not valid JSON"]),
    ],
)
def test_a_vector_without_direction_or_of_another_dim_is_refused(
    filled: TestClient, numbers: list[str], status: int, words: list[str]
) -> None:
    content = f'{{"vector": [{", ".join(numbers)}]}}'
    answer = filled.post("/search", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, status, "Validation", *words)


def test_like_finds_neighbours_by_stored_vectors(filled: TestClient) -> None:
    vectors = {one["id"]: one["vector"] for one in search(filled, query="x", mode="dense", include=["vector"])}
    found = search(filled, like="1", include=["ranks"])
    expected = {id_: float(np.dot(vectors["1"], vector)) for id_, vector in vectors.items() if id_ != "1"}
    assert [one["id"] for one in found] == sorted(expected, key=lambda id_: (-expected[id_], id_))
    assert [one["score"] for one in found] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-6)
    assert [one["ranks"]["dense"] for one in found] == [1, 2, 3, 4]


def test_like_leaves_its_own_document_out_of_pages(filled: TestClient) -> None:
    whole = [one["id"] for one in search(filled, like="2")]
    pages = [one["id"] for offset in range(4) for one in search(filled, like="2", top_k=1, offset=offset)]
    assert pages == whole
    assert [one["id"] for one in search(filled, like="2", top_k=2)] == whole[:2]
    assert {one["id"] for one in search(filled, like="2", filter={"odd": 1})} == {"1", "3"}
    assert {one["id"] for one in search(filled, like="2", filter={"odd": 0})} == {"0", "4"}


def test_an_id_that_no_document_has_is_not_found(filled: TestClient) -> None:
    answer = filled.post("/search", json={"like": "nobody"})
    assert_refused(answer, 404, "NotFound", "no document has the id that like names")


def test_vectors_are_given_where_asked_for(filled: TestClient) -> None:
    found = {one["id"]: one for one in search(filled, query="hallo", include=["vector", "text"])}
    embedded = filled.post("/embed", json={"inputs": SENTENCES}).json()
    for number, vector in enumerate(embedded):
        assert found[str(number)]["vector"] == vector
        assert found[str(number)]["text"] == SENTENCES[number]
    assert "vector" not in search(filled, query="hallo")[0]


def test_vectors_count_towards_the_size_of_an_answer(filled: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.search.MAX_ANSWER_BYTES", 500)
    assert filled.post("/search", json={"query": "hallo", "include": []}).status_code == 200
    answer = filled.post("/search", json={"query": "hallo", "include": ["vector"]})
    assert_refused(answer, 422, "Validation", "500", "vector")


@pytest.fixture
def recommending(tmp_path: Path) -> Path:
    """The folder of a model that recommends thresholds."""
    folder = tmp_path / "recommending"
    build_artifact(folder)
    write_manifest(folder, evaluation={"served": {"search_min_score": {"de": -1.0, "all": 0.999}}})
    return folder


def search_auto(client: TestClient, **body: Any) -> tuple[list[str], float | None]:
    answer = client.post("/search", json={"query": TEXTS[0], "mode": "dense", "min_score": "auto", **body}).json()
    return [result["id"] for result in answer["results"]], answer.get("min_score")


def test_auto_is_the_threshold_of_the_language_or_of_all(serve: Serve, recommending: Path) -> None:
    client = put_texts(serve(model=recommending), TEXTS[:4])
    for language in (None, "fr", "xx"):
        assert search_auto(client, language=language) == (["0"], 0.999)
    for language in ("de", "DE", "de-AT", "de_DE"):
        ids, threshold = search_auto(client, language=language)
        assert (len(ids), threshold) == (4, -1.0)
    assert search_auto(client, min_score=0.5)[1] is None
    assert search_auto(client, min_score=None) == (search_auto(client, min_score=-1)[0], None)
    assert search_auto(client, mode="hybrid")[1] == 0.999


def test_auto_is_refused_where_nothing_is_recommended(serve: Serve, recommending: Path, client: TestClient) -> None:
    for body, where, words in (
        ({"min_score": True}, client, "valid number"),
        ({"min_score": "0.3"}, client, "valid number"),
        ({"mode": "keywords"}, serve(model=recommending), "a search by keywords has none: send a number"),
        ({}, client, "model tiny recommends none (`min_scores` in GET /info)"),
        ({"language": "de", "min_score": 0.1}, client, "language only chooses"),
        ({"min_score": "high"}, client, "min_score"),
        ({"min_score": 2}, client, "min_score"),
    ):
        answer = where.post("/search", json={"query": "a", "min_score": "auto", **body})
        assert_refused(answer, 422, "Validation", words)


def marked(result: dict[str, Any]) -> dict[str, list[str]]:
    """Kind -> the parts of the text that are marked."""
    kinds: dict[str, list[str]] = {"word": [], "sentence": []}
    for one in result["highlights"]:
        kinds[one["kind"]].append(result["text"][one["start"] : one["end"]])
    return kinds


@pytest.mark.parametrize(
    ("query", "words", "sentence"),
    [
        ("where is the wk1702", ["WK-1702"], "It shows error WK-1702."),
        ("KETLTE", ["Kettle"], "A red Kettle, boiling."),  # two letters swapped
        ("kett", ["Kettle"], "A red Kettle, boiling."),  # still typed
        ("茶杯", ["茶杯"], "我买绿茶杯。"),
    ],
)
def test_highlights_mark_words_and_the_best_sentence(
    client: TestClient, query: str, words: list[str], sentence: str
) -> None:
    put(client, {"id": "a", "text": "A red Kettle, boiling. It shows error WK-1702. 我买绿茶杯。"})
    put(client, *({"id": f"{n}", "text": f"Something else, {n}: where is the pan?"} for n in range(5)))
    result = search(client, query=query, typing=True, mode="keywords", include=["text", "highlights"])[0]
    assert marked(result)["sentence"] == [sentence]
    assert [word for word in marked(result)["word"] if word in sentence] == words


def test_highlights_of_a_long_document_are_in_its_passage(client: TestClient) -> None:
    text = " ".join(f"Sentence {n} speaks of ordinary things." for n in range(60)) + " The kettle boils."
    put(client, {"id": "long", "text": text}, {"id": "other", "text": "nothing"})
    (result,) = search(client, query="kettle", mode="keywords", include=["text", "highlights"])
    assert marked(result) == {"word": ["kettle"], "sentence": ["The kettle boils."]}
    assert all(result["passage"]["start"] <= one["start"] for one in result["highlights"])
    (alone,) = search(client, query="kettle", mode="keywords", include=["highlights"])
    assert alone["highlights"] == result["highlights"]


@pytest.mark.parametrize("ask", ["query", "queries", "like", "vector"])
def test_without_words_the_nearest_sentence_is_marked(client: TestClient, ask: str) -> None:
    texts = ["  A red kettle, boiling. Er kauft\n grüne Tassen! 我买绿茶杯。  ", "Solo una frase", "  "]
    put(
        client, *({"id": str(n), "text": text} for n, text in enumerate(texts)), {"id": "asked", "text": "我买绿茶杯。"}
    )
    vector = client.post("/embed", json={"inputs": "我买绿茶杯。"}).json()[0]
    query = {"query": "我买绿茶杯。", "queries": ["我买绿茶杯。"], "like": "asked", "vector": vector}[ask]
    body = {"mode": "dense"} if ask in {"query", "queries"} else {}
    results = search(client, **{ask: query}, **body, include=["text", "highlights"])
    found = {result["id"]: marked(result) for result in (results[0] if ask == "queries" else results)}
    assert found["0"] == {"word": [], "sentence": ["我买绿茶杯。"]}
    assert found["1"]["sentence"] == ["Solo una frase"]
    assert found["2"]["sentence"] == []


def test_few_sentences_are_embedded_for_highlights(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.highlights.MAX_SENTENCES", 3)
    put(client, *({"id": str(n), "text": "One here. Two there."} for n in range(3)))
    results = search(client, query="xyz", mode="dense", include=["highlights"])
    assert [len(result["highlights"]) for result in results] == [1, 0, 0]
    answer = client.post("/search", json={"query": "xyz", "mode": "dense", "include": ["highlights"]})
    alone = client.post("/search", json={"query": "xyz", "mode": "dense"})
    assert int(answer.headers["x-tokens"]) > int(alone.headers["x-tokens"])


def test_by_words_alone_only_they_are_marked(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1]})
    assert search(client, query="xyz", mode="keywords", include=["highlights"]) == []
    assert search(client, filter={}, include=["highlights"])[0]["highlights"] == []


def test_highlights_have_a_limit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.highlights.MAX_CHARS", 30)
    put(client, {"id": "a", "text": "kettle " * 3}, {"id": "b", "text": "kettle " * 2})
    assert len(search(client, query="kettle", top_k=1, include=["highlights"])) == 1
    refused = client.post("/search", json={"query": "kettle", "include": ["highlights"]})
    assert_refused(refused, 422, "Validation", "35 characters", "30", "smaller top_k")


def test_highlights_have_a_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(request_timeout_s=1)
    put(client, *({"id": str(number), "text": f"kettle {number}"} for number in range(6)))
    monkeypatch.setattr("service.api.highlights.words_in", lambda text, terms: time.sleep(0.3) or [])
    refused = client.post("/search", json={"query": "kettle", "mode": "keywords", "include": ["highlights"]})
    assert_refused(refused, 422, "Validation", "finding the highlights takes longer than 1 s", "smaller top_k")


def test_a_deep_filter_is_refused_as_a_shallow_one(client: TestClient) -> None:
    deep = b'{"not":' * 1000 + b"{}" + b"}" * 1000  # deeper than Python's stack
    content, headers = b'{"query": "a", "filter": %b}' % deep, {"content-type": "application/json"}
    response = client.post("/search", content=content, headers=headers)
    assert_refused(response, 422, "Validation", "filter is nested deeper than 16 levels")


def test_a_long_filter_is_read_beside_the_event_loop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def to_condition(filter_: Mapping[str, object]) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        raise InvalidInput("read")

    monkeypatch.setattr("service.api.routes.search.to_condition", to_condition)
    long = "a" * LONG_BYTES
    for part in ({"filter": {"lang": {"contains": long}}}, {"prefer": {"field": "lang", "value": long}}):
        assert_refused(client.post("/search", json={"query": "kettle"} | part), 422, "Validation", "read")


def test_typing_looks_for_words_that_begin_so(serve: Serve) -> None:
    client = serve(search_mode="dense")
    put(client, {"id": "kettle", "text": "waterkettle WK-1702"}, {"id": "other", "text": TEXTS[8]})
    results = search(client, query="the waterk", typing=True, include=["ranks"])
    assert {one["id"]: one["ranks"]["keywords"] for one in results} == {"kettle": 1, "other": None}
    assert [one["id"] for one in search(client, query="wk-17", typing=True, mode="keywords")] == ["kettle"]
    refused = client.post("/search", json={"query": "a", "typing": True, "mode": "dense"})
    assert_refused(refused, 422, "Validation", "typing is true, but mode is dense")
    assert_refused(
        client.post("/search", json={"like": "other", "typing": True}), 422, "Validation", "like has no words"
    )


def test_empty_and_slow_searches_count_by_collection(serve: Serve) -> None:
    def counts() -> dict[str, float]:
        lines = [line.split() for line in client.get("/metrics").text.splitlines() if "_searches_total{" in line]
        return {name.removeprefix("crosslet_").replace("_total", ""): float(value) for name, value in lines}

    client = serve(slow_search_s=1000)
    put(client, {"id": "a", "text": TEXTS[1]})
    assert counts() == {}
    search(client, query=TEXTS[1])
    search(client, query=TEXTS[8], min_score=1)
    search(client, queries=[TEXTS[1], "nowhere"], mode="keywords")  # one finds it
    search(client, query=TEXTS[1], top_k=1, offset=1)  # the page after the last
    search(client, query="nowhere", mode="keywords", typing=True)
    assert client.post("/search", json={"query": ""}).status_code == 422
    default = {'searches{collection="default"}': 4, 'empty_searches{collection="default"}': 1}
    assert counts() == default | {'slow_searches{collection="default"}': 0}
    assert client.put("/collections/shop/documents", json={"documents": [{"id": "a", "text": "b"}]}).status_code == 200
    client.post("/collections/shop/search", json={"query": "nowhere", "mode": "keywords"})
    assert counts()['empty_searches{collection="shop"}'] == 1
    assert client.delete("/collections/shop").status_code == 200
    assert counts() == default | {'slow_searches{collection="default"}': 0}
    assert client.post("/collections/nowhere/search", json={"query": "a"}).status_code == 404
    assert "nowhere" not in client.get("/metrics").text
    slow = serve(slow_search_s=1e-9)
    search(slow, query=TEXTS[1])
    assert 'crosslet_slow_searches_total{collection="default"} 1.0' in slow.get("/metrics").text.splitlines()
