"""POST /search: groups, preferences, orders, totals, and a filter alone."""

from pathlib import Path
from threading import current_thread
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.documents.language import language_of
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused, found, put, search
from tests.service.conftest import Serve

GOODS = [
    {"id": "a", "text": "red kettle", "metadata": {"price": 3, "topic": "kettle", "lang": "en"}},
    {"id": "b", "text": "blue kettle", "metadata": {"price": 1.5, "topic": "kettle", "lang": "de"}},
    {"id": "c", "text": "red lamp", "metadata": {"price": "on request", "topic": "lamp", "lang": "en"}},
    {"id": "d", "text": "blue lamp", "metadata": {"topic": "lamp", "lang": "de"}},
    {"id": "e", "text": "red chair", "metadata": {"price": 1.5}},
]


@pytest.fixture
def shop(client: TestClient) -> TestClient:
    put(client, *GOODS)
    put(client, *GOODS[:2], path="/collections/shop/documents")
    return client


def answer(client: TestClient, path: str = "/search", **body: Any) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    fields: dict[str, Any] = response.json()
    return fields


def test_a_filter_alone_is_all_that_match_in_order(shop: TestClient) -> None:
    by_price = answer(shop, sort=[{"price": "asc"}], include=[])
    assert [one["id"] for one in by_price["results"]] == ["b", "e", "a", "c", "d"]
    assert by_price["results"][0] == {"id": "b", "score": None}
    assert (by_price["total"], "total_is" in by_price) == (5, False)
    assert found(shop.post("/search", json={"filter": {}, "sort": [{"price": "desc"}]})) == ["c", "a", "b", "e", "d"]
    assert found(shop.post("/search", json={"filter": {"lang": "de"}})) == ["b", "d"]
    page = answer(shop, sort=[{"lang": "desc"}, {"price": "asc"}], top_k=2, offset=2)
    assert ([one["id"] for one in page["results"]], page["total"]) == (["b", "d"], 5)
    assert answer(shop, filter={}, offset=10**6)["results"] == []
    assert answer(shop, path="/collections/shop/search", sort=[{"price": "asc"}])["total"] == 2


def test_groups_say_their_value_and_size(shop: TestClient) -> None:
    for body in ({"query": "red kettle"}, {"query": "red kettle", "mode": "dense"}, {"like": "e"}, {"filter": {}}):
        results = search(shop, group_by="topic", **body)
        sizes = {one["group"]: one["group_size"] for one in results}
        assert sizes == {"kettle": 2, "lamp": 2} | ({} if "like" in body else {None: 1})
        assert len(results) == len(sizes)
    by_words = answer(shop, query="red", mode="keywords", group_by="topic")
    assert {one["group"]: one["group_size"] for one in by_words["results"]} == {"kettle": 1, "lamp": 1, None: 1}
    assert by_words["total"] == 3
    assert answer(shop, filter={}, group_by="topic")["total"] == 3
    filtered = search(shop, query="red kettle", group_by="topic", filter={"lang": "en"})
    assert {one["group"]: one["group_size"] for one in filtered} == {"kettle": 1, "lamp": 1}


def test_totals_are_exact_or_null(shop: TestClient) -> None:
    assert answer(shop, query="kettle", mode="keywords", top_k=1)["total"] == 2
    assert answer(shop, query="kettle", mode="dense")["total"] is None
    assert answer(shop, query="kettle")["total"] is None
    assert answer(shop, queries=["kettle", "red"], mode="keywords", top_k=1)["total"] == [2, 3]
    assert answer(shop, filter={"lang": "fr"})["total"] == 0


def test_a_preference_raises_and_never_filters(shop: TestClient) -> None:
    plain = {one["id"]: one["score"] for one in search(shop, query="red kettle", mode="dense")}
    prefer = {"field": "lang", "value": "de", "weight": 0.25}
    raised = {one["id"]: one["score"] for one in search(shop, query="red kettle", mode="dense", prefer=prefer)}
    assert raised.keys() == plain.keys()
    for id_, score in plain.items():
        assert raised[id_] == pytest.approx(score + 0.25 if id_ in "bd" else score)
    assert list(raised) == sorted(raised, key=lambda id_: -raised[id_])


def test_auto_prefers_the_querys_language(shop: TestClient) -> None:
    auto = answer(shop, query="Wo finde ich eine Lampe für den Tisch?", prefer="auto")
    assert auto["preferred"] == "de"
    spelled = {"field": "lang", "value": "auto", "weight": 0.5}
    several = answer(shop, queries=["where is my kettle", "4711"], prefer=spelled)
    assert several["preferred"] == ["en", None]
    assert answer(shop, like="a", prefer="auto", language="de")["preferred"] == "de"
    assert "preferred" not in answer(shop, query="x", prefer={"field": "lang", "value": "de"})


def test_a_language_is_preferred_by_any_of_its_codes(client: TestClient) -> None:
    codes = ["pt", "pt-BR", "pt_PT", "en", "en-US", "zh_Hant", "zh-CN"]
    put(client, *({"id": code, "text": "red kettle", "metadata": {"lang": code}} for code in codes))
    portuguese = {"pt", "pt-BR", "pt_PT"}
    for body, best in (
        ({"query": "Como posso redefinir a minha senha?"}, portuguese),
        ({"query": "kettle", "language": "pt-BR"}, portuguese),
        ({"query": "kettle", "language": "EN"}, {"en", "en-US"}),
        ({"query": "kettle", "language": "zh-TW"}, {"zh_Hant"}),
    ):
        scores = {one["id"]: one["score"] for one in search(client, prefer="auto", **body)}
        assert {code for code, score in scores.items() if score == max(scores.values())} == best


def test_many_languages_are_told_off_the_event_loop(shop: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def told(text: str) -> str | None:
        threads.append(current_thread().name.rpartition("_")[0])
        return language_of(text)

    monkeypatch.setattr("service.api.routes.search.language_of", told)
    queries = ["where is my kettle", "wo ist mein Kessel", "4711"]
    assert answer(shop, queries=queries, prefer="auto")["preferred"] == ["en", "de", None]
    assert threads == ["preparation"] * 3


def test_a_query_sorts_its_best(shop: TestClient) -> None:
    best = found(shop.post("/search", json={"query": "red kettle", "top_k": 3}))
    price = {one["id"]: one["metadata"].get("price") for one in GOODS}  # type: ignore[attr-defined]
    top = found(shop.post("/search", json={"query": "red kettle", "top_k": 3, "sort": [{"price": "desc"}]}))
    assert sorted(top) == sorted(best)
    order = ["c", "a", "b", "e", "d"]
    assert [price[id_] for id_ in top] == [price[id_] for id_ in order if id_ in top]
    whole = {"query": "red kettle", "sort": [{"price": "desc"}], "sort_k": 5}
    pages = [found(shop.post("/search", json=whole | {"top_k": 2, "offset": offset})) for offset in (0, 2, 4)]
    assert [id_ for page in pages for id_ in page] == found(shop.post("/search", json=whole | {"top_k": 5}))


def test_the_best_of_groups_are_reranked_then_sorted(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker)
    put(
        client,
        *({"id": f"{n:02}", "text": text, "metadata": {"g": n // 2, "p": n % 3}} for n, text in enumerate(TEXTS)),
    )
    body = {"query": "Who plays the guitar?", "group_by": "g", "rerank": True, "rerank_k": 6}
    reranked = search(client, top_k=6, **body)
    assert len({one["group"] for one in reranked}) == len(reranked) == 6
    assert [one["score"] for one in reranked] == sorted((one["score"] for one in reranked), reverse=True)
    groups = search(client, query=body["query"], group_by="g", top_k=6)
    assert {one["id"] for one in groups} == {one["id"] for one in reranked}
    for offset in (0, 2):
        kept = search(client, top_k=2, offset=offset, sort=[{"p": "desc"}], sort_k=4, **body)
        best = sorted(reranked[:4], key=lambda one: -one["metadata"]["p"])
        assert [one["metadata"]["p"] for one in kept] == [one["metadata"]["p"] for one in best[offset : offset + 2]]
        assert {one["id"] for one in kept} <= {one["id"] for one in best}
    alone = serve(reranker=tiny_reranker, rerank_weight="alone")
    put(alone, *GOODS)
    wanted = {"query": "red kettle", "rerank": True, "rerank_k": 10}
    plain = {one["id"]: one["score"] for one in search(alone, **wanted)}
    prefer = {"field": "lang", "value": "de", "weight": 0.5}
    for one in search(alone, prefer=prefer, **wanted):
        assert one["score"] == pytest.approx(plain[one["id"]] + (0.5 if one["id"] in "bd" else 0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, ["one of the four", "a filter or sort"]),
        ({"filter": {}, "mode": "dense"}, ["mode needs a query"]),
        ({"filter": {}, "rerank": True}, ["rerank needs a query"]),
        ({"sort": [{"a": "asc"}], "min_score": 0.1}, ["min_score needs a query"]),
        ({"sort": [{"a": "asc"}], "sort_k": 3}, ["sort_k needs a query"]),
        ({"filter": {}, "prefer": "auto"}, ["prefer needs a query"]),
        ({"query": "a", "sort_k": 3}, ["send sort, too"]),
        ({"query": "a", "sort": [{"a": "up"}]}, ["sort[0].a"]),
        ({"query": "a", "sort": [{"a": "asc", "b": "asc"}]}, ["sort[0]", "not one field"]),
        ({"query": "a", "sort": [{}]}, ["sort[0]", "not one field"]),
        ({"query": "a", "sort": "a"}, ["sort", '[{"price": "asc"}]']),
        ({"query": "a", "sort": ["a"]}, ["sort", '[{"price": "asc"}]']),
        ({"query": "a", "sort": [{str(n): "asc"} for n in range(5)]}, ["sort", "4"]),
        (
            {"query": "a", "sort": [{"a": "asc"}], "offset": 5, "top_k": 5},
            ["offset is 5", "best 5 are sorted", "sort_k"],
        ),
        ({"query": "a", "sort": [{"a": "asc"}], "sort_k": 10**6}, ["sort_k is 1000000", "CROSSLET_MAX_TOP_K"]),
        ({"query": "a", "group_by": ""}, ["group_by"]),
        ({"query": "a", "prefer": "de"}, ["prefer", 'send "auto"']),
        ({"query": "a", "prefer": {"field": "a", "value": ["b"]}}, ["prefer.value", "no string, number or boolean"]),
        ({"query": "a", "prefer": {"field": "a", "value": "b", "weight": 0}}, ["prefer.weight"]),
        ({"query": "a", "prefer": {"field": "a", "value": "b", "weight": 1.1}}, ["prefer.weight"]),
        ({"query": "a", "prefer": {"field": "a", "value": 2**70}}, ["64 bits"]),
        ({"query": "a", "prefer": {"feld": "a"}}, ["feld", "did you mean field?"]),
        ({"like": "a", "prefer": "auto"}, ["like has no words", "send language"]),
        ({"query": "a", "language": "de"}, ["auto of min_score or prefer"]),
        ({"query": "a", "sort_by": "x"}, ["did you mean sort?"]),
        ({"query": "a", "collapse": "x"}, ["did you mean group_by?"]),
    ],
)
def test_what_cannot_be_arranged_is_refused(serve_module: Serve, body: dict[str, Any], words: list[str]) -> None:
    client = serve_module()
    assert_refused(client.post("/search", json=body), 422, "Validation", *words)
