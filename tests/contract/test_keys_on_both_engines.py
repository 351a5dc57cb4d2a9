"""A key of one collection reads, lists, counts, backs up and writes no other: every route, with both engines."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from service.api.app import ROUTERS
from service.api.policy import Access, Reach, policy_of
from service.api.routes import health, pages
from tests.artifacts import TEXTS
from tests.contract.live import live_service
from tests.service.api.test_policy import body_of, spellings
from tests.service.conftest import bearer

OTHERS = [health.router, health.metrics_router, pages.docs_router, pages.page_router]
ROUTES = [route for router in (*ROUTERS, *OTHERS) for route in router.routes if isinstance(route, Route)]
MARK = "geheim"  # in each document that the keys do not reach
KEYS = (
    "full, reader read=shop, writer write=shop, both read=other write=shop,"
    "small write=shop+notes documents=4, narrow write=notes bytes=300, any read=* write=notes"
)
BODIES: dict[str, dict[str, object]] = {
    "/search": {"query": TEXTS[0], "mode": "dense"},
    "/documents/count": {"facets": ["secret"]},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["b"]}},
    **{path: {"inputs": "a"} for path in ("/", "/embed")},
    **{path: {"input": "a"} for path in ("/embeddings", "/v1/embeddings")},
    **{path: {"query": "a", "documents": ["b"]} for path in ("/rerank", "/v1/rerank", "/v2/rerank")},
}


@pytest.fixture(scope="module", params=["embedded", "milvus-lite", pytest.param("milvus", marks=pytest.mark.milvus)])
def service(
    request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A service with keys, and documents in the collections default, shop and other."""
    folder = tmp_path_factory.mktemp("keys")
    engine: dict[str, object] = {}
    if request.param != "embedded":
        engine = {"index": f"milvus+lite://{folder}/documents.db", "index_timeout_s": 100}
    if request.param == "milvus":
        standalone = request.getfixturevalue("standalone")
        engine |= {"index": standalone.url, "index_token": standalone.token}
    with live_service(tiny_model, folder / "data", api_keys=KEYS, read_api_keys="read", **engine) as client:
        for name in ("default", "shop", "other"):
            secret = {} if name == "shop" else {"secret": MARK}
            documents = [{"id": "de/1", "text": TEXTS[0], "metadata": secret}]
            documents += [{"id": MARK, "text": TEXTS[1], "metadata": secret}] if secret else []
            put = client.put(f"/collections/{name}/documents", json={"documents": documents}, headers=bearer("full"))
            assert put.status_code == 200
        yield client


def paths(route: Route) -> dict[str, str]:
    """Return a route's path by the collection it is about; "": by none."""
    path = route.path.replace("{document_id:path}", "de/1").replace("{model:path}", "x").replace("{name}", "main.js")
    if "{collection}" in path:
        return {name: path.replace("{collection}", name) for name in ("default", "shop", "other", "no-such", "sho")}
    return {"default" if policy_of(route).reach is Reach.COLLECTION else "": path}


def body(path: str) -> Any:
    tail = path[path.index("/", len("/collections/")) :] if path.count("/") > 2 and "/collections/" in path else path
    return BODIES.get(tail) or body_of(path) or body_of(tail)


def asked_as_is(client: httpx.Client, method: str, path: str, content: object, key: str) -> tuple[int, str]:
    """Send a path letter by letter; httpx would take `..` out."""
    headers = {"content-type": "application/json"} | bearer(key)
    with closing(HTTPConnection(client.base_url.host, client.base_url.port)) as connection:
        connection.request(method, path, json.dumps(content) if content is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def stored(client: httpx.Client, *names: str) -> list[object]:
    """Return all that the collections hold; a collection that is not there is a 404."""
    asked = [f"/collections/{name}{end}" for name in names for end in ("", "/documents?limit=100")]
    return [client.get(path, headers=bearer("full")).json() for path in asked]


@pytest.mark.parametrize("key", ["reader", "writer"])
def test_every_route_keeps_a_key_to_its_collection(service: httpx.Client, key: str) -> None:
    before = stored(service, "default", "other", "no-such", "sho")
    seen = set()
    for route in ROUTES:
        policy = policy_of(route)
        for method in sorted((route.methods or set()) | {"OPTIONS"} | ({"HEAD"} if "GET" in route.methods else set())):
            for name, path in paths(route).items():
                if (name, key, method) == ("shop", "writer", "DELETE") and path == "/collections/shop":
                    continue  # tried below
                answer = service.request(method, path, json=body(path), headers=bearer(key))
                told = answer.text + str(answer.headers)
                assert MARK not in told, (method, path)
                assert name == "other" or '"other"' not in told, (method, path)
                if method not in (route.methods or ()):
                    continue
                seen.add((method, route.path))
                if policy.access in {Access.PROBE, Access.PUBLIC}:
                    continue
                reached = {Reach.COLLECTION: name == "shop", Reach.ALL: False}.get(policy.reach, True)
                may = reached and (key == "writer" or policy.access is Access.READ)
                assert (answer.status_code == 403) != may, (method, path, answer.text)
    assert seen == {(method, route.path) for route in ROUTES for method in route.methods or ()}
    walked = {path.replace(":path}", "}") for _, path in seen}
    assert service.get("/openapi.json").json()["paths"].keys() <= walked
    assert stored(service, "default", "other", "no-such", "sho") == before


@pytest.mark.parametrize("key", ["reader", "writer"])
def test_no_spelling_reaches_another_collection(service: httpx.Client, key: str) -> None:
    before = stored(service, "default", "other")
    for method, path in (
        ("GET", "/collections/other"),
        ("GET", "/collections/other/documents/de/1"),
        ("GET", "/documents/de/1"),
        ("POST", "/collections/other/search"),
        ("PUT", "/collections/other/documents"),
        ("DELETE", "/collections/other"),
        ("POST", "/backup"),
    ):
        shop = path.replace("/other", "/shop/../other", 1)
        others = [shop, shop.replace("..", "%2e%2e"), path.replace("/other", "/other%00shop", 1)]
        for spelled in (*spellings(path), *others):
            status, told = asked_as_is(service, method, spelled, body(path), key)
            assert status in {400, 403, 404, 405}, (method, spelled)
            assert MARK not in told
    assert stored(service, "default", "other") == before


def test_lines_go_to_the_keys_collection_alone(service: httpx.Client) -> None:
    before, line = stored(service, "default", "other"), b'{"id": "line", "text": "a"}\n'
    headers = {"content-type": "application/x-ndjson"} | bearer("writer")
    statuses = [
        service.put(path, content=line, headers=headers).status_code
        for path in ("/documents", "/collections/other/documents", "/collections/shop/documents")
    ]
    assert statuses == [403, 403, 200]
    assert stored(service, "default", "other") == before


def test_lists_have_what_a_key_reaches(service: httpx.Client) -> None:
    for key, names in {
        "reader": ["shop"],
        "both": ["other", "shop"],
        "narrow": [],
        **{key: ["default", "other", "shop"] for key in ("full", "read", "any")},
    }.items():
        listed = service.get("/collections", headers=bearer(key)).json()["collections"]
        info = service.get("/info", headers=bearer(key)).json()
        assert sorted(one["name"] for one in listed) == names
        assert info["collections"] == listed
        assert (info["index"] is not None) == ("default" in names)
    assert service.get("/info", headers=bearer("full")).json()["key"] is None
    assert service.get("/info", headers=bearer("small")).json()["key"] == {
        **{"read": [], "write": ["notes", "shop"]},
        **{"max_documents": 4, "max_bytes": None},
    }


def test_a_key_may_read_one_collection_and_write_another(service: httpx.Client) -> None:
    asked = [("other", "GET", 200), ("other", "PUT", 403), ("shop", "PUT", 200), ("default", "GET", 403)]
    for name, method, status in asked:
        documents = {"documents": [{"id": "both", "text": "a"}]} if method == "PUT" else None
        path = f"/collections/{name}/documents"
        assert service.request(method, path, json=documents, headers=bearer("both")).status_code == status
    assert service.get("/documents", headers=bearer("any")).status_code == 200
    assert service.put("/documents", json=body("/documents"), headers=bearer("any")).status_code == 403
    assert service.post("/backup", headers=bearer("any")).status_code == 403


def test_metrics_need_a_key_of_all_collections(service: httpx.Client) -> None:
    asked = {key: service.get("/metrics", headers=bearer(key)).status_code for key in ("no", "reader", "any", "read")}
    assert asked == {"no": 401, "reader": 403, "any": 200, "read": 200}


def test_a_key_stores_no_more_documents_than_its_limit(service: httpx.Client) -> None:
    path, key = "/collections/notes/documents", bearer("small")
    held = service.get("/collections/shop", headers=bearer("full")).json()["documents"]
    fitting = [{"id": f"n/{number}", "text": TEXTS[number]} for number in range(5)]
    assert service.put(path, json={"documents": fitting[: 4 - held]}, headers=key).status_code == 200
    for documents in (fitting[:5], fitting[4:]):
        refused = service.put(path, json={"documents": documents}, headers=key)
        assert refused.status_code == 507
        assert "its limit is 4 (documents= in CROSSLET_API_KEYS)" in refused.json()["error"]
    replaced = {"documents": [{"id": "n/0", "text": TEXTS[5]}]}
    assert service.put(path, json=replaced, headers=key).status_code == 200  # no document more
    lines = b'{"id": "n/9", "text": "a"}\n'
    headers = key | {"content-type": "application/x-ndjson"}
    assert service.put(path, content=lines, headers=headers).status_code == 507
    assert service.put(path, json={"documents": fitting[4:]}, headers=bearer("any")).status_code == 200  # no limit
    assert service.delete("/collections/notes", headers=key).status_code == 200
    assert service.put(path, json={"documents": fitting[4:]}, headers=key).status_code == 200


def test_a_key_stores_no_more_bytes_than_its_limit(service: httpx.Client) -> None:
    path, key = "/collections/notes/documents", bearer("narrow")
    service.delete("/collections/notes", headers=bearer("full"))
    assert service.put(path, json={"documents": [{"id": "a", "text": "x" * 200}]}, headers=key).status_code == 200
    refused = service.put(path, json={"documents": [{"id": "ü", "text": "x" * 95}]}, headers=key)
    assert refused.status_code == 507
    held = 1 + 200 + 2 + (2 + 95 + 2)  # id, text, {}; ü has two bytes
    assert f"would hold {held} bytes; its limit is 300 (bytes= in CROSSLET_API_KEYS)" in refused.json()["error"]
    assert service.put(path, json={"documents": [{"id": "ü", "text": "x" * 90}]}, headers=key).status_code == 200
    patch = {"metadata": {"note": "y" * 20}}
    assert service.patch(f"{path}/a", json=patch, headers=key).status_code == 507
    assert service.get(f"{path}/a", headers=key).json()["metadata"] == {}
    assert service.put(path, json={"documents": [{"id": "a", "text": "x" * 150}]}, headers=key).status_code == 200
    assert service.patch(f"{path}/a", json=patch, headers=key).status_code == 200
    assert service.patch(f"{path}/a", json={"metadata": {"more": "y" * 30}}, headers=key).status_code == 507


def test_a_key_drops_and_makes_its_collection(service: httpx.Client) -> None:
    assert service.delete("/collections/shop", headers=bearer("reader")).status_code == 403
    assert service.delete("/collections/shop", headers=bearer("writer")).status_code == 200
    made = service.put("/collections/shop", json={"text": "{title}"}, headers=bearer("writer"))
    assert made.json()["text"] == "{title}"
