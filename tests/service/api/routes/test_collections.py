from concurrent.futures import ThreadPoolExecutor
from threading import Event

from fastapi.testclient import TestClient

from service.runtime import Runtime
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve
from tests.service.documents.stores import wait_for


def put(client: TestClient, path: str, **texts: str) -> dict[str, object]:
    documents = [{"id": id_, "text": text, "metadata": {"n": 1}} for id_, text in texts.items()]
    answer = client.put(path, json={"documents": documents})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_collections_have_every_route_of_documents(client: TestClient) -> None:
    put(client, "/documents", a="Hund")
    put(client, "/collections/shop/documents", a="Katze", **{"documents/b": "ein roter Kessel"})
    shop = "/collections/shop"
    assert client.get(f"{shop}/documents/a").json()["text"] == "Katze"
    assert client.get(f"{shop}/documents/documents/b").json()["text"] == "ein roter Kessel"
    assert client.get("/documents/documents/b").status_code == 404
    for search in ({"query": "Katze"}, {"query": "kessel", "mode": "keywords"}, {"queries": ["Katze"]}):
        assert "Hund" not in client.post(f"{shop}/search", json=search).text
    ids = {one["id"] for one in client.post(f"{shop}/search", json={"query": "Katze"}).json()["results"]}
    assert ids == {"a", "documents/b"}
    assert client.post("/search", json={"query": "Katze"}).json()["results"][0]["text"] == "Hund"
    assert client.get("/collections/default/documents").json() == client.get("/documents").json()
    assert client.get(f"{shop}/documents").json()["total"] == 2
    assert client.post(f"{shop}/documents/count", json={"filter": {"n": 1}}).json() == {"count": 2}
    assert client.delete(f"{shop}/documents/documents/b").json() == {"deleted": 1}
    assert client.post(f"{shop}/documents/delete", json={"ids": ["a"]}).json() == {"deleted": 1}
    assert client.get("/documents").json()["total"] == 1
    for name in ("documents", "collections", "search"):
        put(client, f"/collections/{name}/documents", x=name)
        assert client.get(f"/collections/{name}/documents/x").json()["text"] == name


def test_collections_are_listed_and_dropped(client: TestClient) -> None:
    put(client, "/collections/shop/documents", a="x", b="y")
    listed = client.get("/collections").json()["collections"]
    dim = client.get("/info").json()["dim"]
    shop = {"name": "shop", "backend": "faiss-flat", "documents": 2, "size_bytes": 2 * (4 * dim + 8), "recall": 1.0}
    assert [one["name"] for one in listed] == ["default", "shop"]
    assert shop.items() <= listed[1].items()
    info = client.get("/info").json()
    assert info["collections"] == listed
    assert info["index"]["documents"] == 0
    assert info["limits"]["max_collections"] == 32
    assert client.get("/collections/shop").json() == listed[1]
    metrics = client.get("/metrics").text
    assert "crosslet_index_documents 2.0" in metrics
    assert 'crosslet_collection_documents{collection="shop"} 2.0' in metrics
    assert f'crosslet_collection_index_bytes{{collection="shop"}} {shop["size_bytes"]}.0' in metrics
    assert client.delete("/collections/shop").json() == {"dropped": "shop", "documents": 2}
    assert 'collection="shop"' not in client.get("/metrics").text
    assert 'route="/collections/{collection}"' in client.get("/metrics").text
    for answer in (
        client.get("/collections/shop"),
        client.delete("/collections/shop"),
        client.post("/collections/shop/search", json={"query": "x"}),
        client.get("/collections/shop/documents"),
        client.post("/collections/shop/documents/delete", json={"ids": ["a"]}),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"] == "there is no collection shop; the first PUT to its documents makes it"
    assert client.delete("/collections/default").status_code == 422
    assert client.get("/collections/{collection}/documents").status_code == 422


def test_a_search_in_an_unknown_collection_embeds_nothing(client: TestClient) -> None:
    def tokens() -> list[str]:
        return [line for line in client.get("/metrics").text.splitlines() if line.startswith("crosslet_tokens_total")]

    put(client, "/documents", a="Hund")
    before = tokens()
    assert len(before) == 1
    for search in ({"query": "Katze"}, {"queries": ["Katze", "Hund"], "mode": "dense"}):
        assert client.post("/collections/shop/search", json=search).status_code == 404
    assert tokens() == before
    client.post("/search", json={"query": "Katze"})
    assert tokens() != before


def test_a_put_that_is_refused_makes_no_collection(serve: Serve) -> None:
    client = serve(max_collections=2)
    for body, status in (({"documents": []}, 422), ({"documents": [{"id": "a", "text": ""}]}, 422)):
        assert client.put("/collections/shop/documents", json=body).status_code == status
    one = {"documents": [{"id": "a", "text": "x"}]}
    assert client.put("/collections/-shop/documents", json=one).status_code == 422
    assert [each["name"] for each in client.get("/collections").json()["collections"]] == ["default"]
    assert client.put("/collections/shop/documents", json=one).status_code == 200
    refused = client.put("/collections/more/documents", json=one)
    assert_refused(refused, 507, "Backend", "the limit is 2 (CROSSLET_MAX_COLLECTIONS): drop one first")


def test_paths_below_a_collection_may_end_in_a_slash(client: TestClient) -> None:
    client.put("/collections/shop/documents/", json={"documents": [{"id": "a", "text": "x"}]})
    assert client.get("/collections/shop/").json()["documents"] == 1
    assert client.post("/collections/shop/search/", json={"query": "x"}).status_code == 200
    assert client.post("/collections/shop/documents/count/", json={}).json()["count"] == 1


def test_settings_that_wait_for_others_keep_them(client: TestClient) -> None:
    runtime: Runtime = client.app.state.runtime  # type: ignore[attr-defined]
    done = Event()
    blocked = runtime._writer.submit(done.wait)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as threads:
        answers = []
        for waiting, body in enumerate(({"text": "{title}"}, {"confidence": {"expected_answerable": 0.2}}), 1):
            answers.append(threads.submit(client.put, "/collections/default", json=body))
            wait_for(lambda: runtime._writer._work_queue.qsize() == waiting)  # type: ignore[attr-defined]  # noqa: B023
        done.set()
        assert [answer.result().status_code for answer in answers] == [200, 200]
    assert blocked.result()
    assert client.get("/collections/default").json()["text"] == "{title}"
