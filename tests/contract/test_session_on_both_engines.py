"""One session over HTTP, with the bundled model, gives the same answers from the embedded engine and from Milvus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.live import live_service

BUNDLED = Path(__file__).parents[2] / "models" / "default"
OF_AN_ENGINE = {"has_keywords", "took_ms", "revision", "backend", "size_bytes", "recall", "next", "cursor"}
TEXTS = {
    "en": [
        "A red kettle that boils a litre of water.",
        "Returns are free within thirty days.",
        "Error E4: close the lid.",
    ],
    "de": [
        "Ein roter Wasserkocher für einen Liter.",
        "Rückgabe ist dreißig Tage kostenlos.",
        "Fehler E4: Deckel schließen.",
    ],
    "fr": ["Une bouilloire rouge d'un litre.", "Les retours sont gratuits.", "Erreur E4 : fermez le couvercle."],
    "ru": ["Красный чайник на один литр.", "Возврат бесплатно в течение тридцати дней.", "Ошибка E4: закройте крышку."],
    "zh": ["一升的红色水壶。", "三十天内免费退货。", "错误E4：请关上盖子。"],
    "ja": ["一リットルの赤いやかん。", "三十日以内の返品は無料です。", "エラーE4：ふたを閉めてください。"],
    "ko-KR": ["1리터 빨간 주전자.", "30일 이내 반품은 무료입니다.", "오류 E4: 뚜껑을 닫으세요."],
    "ar": ["غلاية حمراء سعة لتر.", "الإرجاع مجاني خلال ثلاثين يوما.", "خطأ E4: أغلق الغطاء."],
    "hi": ["एक लीटर की लाल केतली।", "तीस दिनों में वापसी मुफ्त है।", "त्रुटि E4: ढक्कन बंद करें।"],
}
TOPICS = ["kettle", "returns", "error"]
DOCUMENTS = [
    {
        "id": f"{topic}/{lang}",
        "text": text,
        "metadata": {"lang": lang, "topic": topic, "rank": rank, "tags": [topic, rank]},
    }
    for rank, (lang, texts) in enumerate(TEXTS.items())
    for topic, text in zip(TOPICS, texts, strict=True)
]
MANUAL = (
    " ".join(f"Step {n}: turn screw {n} of the housing by hand." for n in range(60)) + " Error E9: call the service."
)
GOODS = [
    {"id": "1", "title": "Kettle", "maker": {"name": "Ö"}, "price": 19.9, "no": "WK-1702"},
    {"id": "2", "title": "Wasserkocher", "maker": {"name": "B"}, "price": 25, "no": "WK-1720"},
]
EVERYTHING = ["text", "metadata", "ranks", "passage", "highlights"]
SEARCHES: list[dict[str, Any]] = [
    *(
        {"query": query, "mode": mode}
        for query in ("wo ist der wasserkocher", "E4", "чайник", "水壶")
        for mode in ("dense", "keywords", "hybrid")
    ),
    {"query": "retur", "typing": True},
    {"query": "keттle красны", "typing": True, "mode": "keywords"},
    {"query": "rückgabe", "group_by": "topic", "facets": ["lang", "topic", "tags"]},
    {"query": "free returns", "prefer": {"field": "lang", "value": "ru"}},
    {"query": "Wie gebe ich etwas zurück?", "prefer": "auto", "group_by": "topic"},
    {"query": "반품은 무료인가요?", "prefer": "auto"},
    {"query": "E4", "mode": "keywords", "sort": [{"rank": "desc"}], "sort_k": 20},
    {"query": "error", "filter": {"lang": {"in": ["de", "ja"]}, "rank": {"gte": 1}}},
    {"query": "error", "filter": {"tags": {"contains": "err"}}, "min_score": 0.2},
    {"query": "Error E9", "top_k": 2},
    {"filter": {"topic": "kettle"}, "sort": [{"rank": "asc"}], "offset": 2, "top_k": 3},
    {"queries": ["kettle", "退货"], "top_k": 2},
    {"like": "kettle/de", "top_k": 4},
    {"query": "кettle", "min_score": "auto"},
    {"query": "x", "mode": "keywords", "filter": {"none": 1}},
]


@pytest.fixture(scope="module", params=["milvus-lite", pytest.param("milvus", marks=pytest.mark.milvus)])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    """A service with each engine."""
    folder = tmp_path_factory.mktemp("session")
    milvus = {"index": f"milvus+lite://{folder}/documents.db", "index_timeout_s": 100}
    if request.param == "milvus":
        standalone = request.getfixturevalue("standalone")
        milvus |= {"index": standalone.url, "index_token": standalone.token}
    with live_service(BUNDLED, folder / "a") as embedded, live_service(BUNDLED, folder / "b", **milvus) as other:
        yield [embedded, other]


def rounded(value: object) -> object:
    """Return an answer without what is an engine's own; numbers to six digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items() if key not in OF_AN_ENGINE}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return pytest.approx(value, abs=2e-6) if isinstance(value, float) else value


def ask(both: list[httpx.Client], method: str, path: str, json: object = None) -> dict[str, Any]:
    """Send a request to both, compare the answers, and return one."""
    embedded, milvus = (client.request(method, path, json=json) for client in both)
    assert (milvus.status_code, rounded(milvus.json())) == (embedded.status_code, rounded(embedded.json())), json
    answer: dict[str, Any] = embedded.json()
    return answer


def searches(both: list[httpx.Client]) -> list[dict[str, Any]]:
    """Return those that both take; without keywords by meaning."""
    if all(client.get("/info").json()["index"]["has_keywords"] for client in both):
        return SEARCHES
    by_meaning = [one for one in SEARCHES if one.get("mode", "dense") == "dense" and not one.get("typing")]
    return [one | ({"mode": "dense"} if {"query", "queries"} & one.keys() else {}) for one in by_meaning]


def test_a_session_is_answered_alike(both: list[httpx.Client]) -> None:
    assert ask(both, "PUT", "/documents", {"documents": DOCUMENTS})["upserted"] == len(DOCUMENTS)
    ask(both, "PUT", "/documents", {"documents": [{"id": "manual", "text": MANUAL}], "chunk": True})
    ask(both, "PUT", "/documents", {"documents": [{"id": "cut", "text": MANUAL}], "chunk": False})
    ask(both, "PUT", "/documents", {"documents": [{"id": "gone", "text": "a green kettle, gone"}]})
    ask(both, "DELETE", "/documents/gone")
    for search in searches(both):
        answer = ask(both, "POST", "/search", {"include": EVERYTHING, **search})
        assert answer["results"] or {"filter", "min_score"} & search.keys()
    ask(both, "PATCH", "/documents/kettle/de", {"metadata": {"rank": 99, "topic": None}})
    ask(both, "GET", "/documents/kettle/de")
    ask(both, "GET", "/documents?limit=100")
    ask(both, "GET", "/documents?truncated=true")
    ask(both, "POST", "/documents/count", {"filter": {"rank": {"gt": 3}}, "facets": ["lang", "rank"]})
    ask(both, "POST", "/documents/delete", {"filter": {"lang": "fr"}})
    for search in searches(both):
        ask(both, "POST", "/search", {"include": EVERYTHING, **search})


def test_collections_are_answered_alike(both: list[httpx.Client]) -> None:
    shop = "/collections/shop"
    ask(both, "PUT", shop, {"text": "{title} {no} {maker.name}", "fields": ["price"]})
    ask(both, "PUT", f"{shop}/documents", {"documents": GOODS})
    for query in ("wk1720", "kettle", "wasserkocher", "wk17"):
        for mode in ("keywords", "hybrid", "dense") if searches(both) is SEARCHES else ("dense",):
            ask(both, "POST", f"{shop}/search", {"query": query, "mode": mode, "include": EVERYTHING})
    ask(both, "PATCH", f"{shop}/documents/1", {"metadata": {"title": "Teapot", "price": 3}})
    ask(both, "GET", f"{shop}/documents/1")
    ask(both, "POST", f"{shop}/search", {"query": "teapot", "mode": "dense", "filter": {"price": {"lt": 10}}})
    names = [[one["name"] for one in client.get("/collections").json()["collections"]] for client in both]
    assert names == [["default", "shop"]] * 2
    ask(both, "DELETE", shop)
    assert {client.get(f"{shop}/documents/1").status_code for client in both} == {404}
