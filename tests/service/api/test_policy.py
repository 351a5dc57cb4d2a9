"""What each route needs, and that no spelling of a path needs less."""

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.routing import Match, Route

from service.api.app import ROUTERS
from service.api.policy import Access, Reach, policy_of
from service.api.routing import RouteTable
from service.documents.document import Document
from service.documents.store.store import DocumentStore
from service.model.artifact import load_manifest
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve, bearer

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
WRITES = {
    (method, route.path.replace("{collection}", "shop").replace("{document_id:path}", "de/1"))
    for route in ROUTES
    for method in route.methods or ()
    if policy_of(route).access is Access.WRITE
}
CONTROL_CHARACTERS = ["%0A", "%0a", "%0D", "%0D%0A", "%00", "%09", "%1F", "%7F", "%C2%85", "%C2%9F"]
BODIES: dict[str, dict[str, object]] = {
    "": {},  # of /collections/shop
    "/documents": {"documents": [{"id": "new", "text": TEXTS[0]}]},
    "/documents/delete": {"ids": ["de/1"]},
    "/documents/de/1": {"metadata": {"changed": True}},
}
DOCUMENT = {"documents": [{"id": id_, "text": TEXTS[1]} for id_ in ("de/1", "de/1/", "DE/1")]}


@pytest.fixture(scope="module")
def locked(serve_module: Serve) -> TestClient:
    client = serve_module(root_path="/api", api_keys="full", read_api_keys="read")
    for path in ("/documents", "/collections/shop/documents"):
        assert client.put(path, json=DOCUMENT, headers=bearer("full")).status_code == 200
    return client


def body_of(path: str) -> object:
    return BODIES.get(path.removeprefix("/collections/shop"))


def stored(client: TestClient) -> list[object]:
    paths = ("/collections", "/documents", "/collections/shop/documents")
    return [client.get(path, headers=bearer("full")).json() for path in paths]


def spellings(path: str) -> list[str]:
    """Of a path: some lead to its route, some to another, most to none."""
    spelled = [path + end for end in ("", "/", "%2F", "//", "?", ";a")]
    spelled += [f"/{path}", f"/api{path}", path.upper(), f"/{quote(path[1:], safe='')}"]
    spelled.append("".join(f"%{byte:02X}" if byte != 0x2F else "/" for byte in path.encode()))
    for escape in CONTROL_CHARACTERS:
        spelled += [path + end for end in (escape, f"/{escape}", f"{escape}?a")]
        spelled += [begin + path for begin in (f"/{escape}", f"/api{escape}")]
        spelled += [f"/{escape}{path[1:]}", f"/api{path}{escape}", path.replace("/", f"{escape}/", 2)]
    return spelled


def test_every_route_that_writes_is_tried_here() -> None:
    of_one = {("PUT", ""), ("POST", "/delete"), ("PATCH", "/de/1"), ("DELETE", "/de/1")}
    of_all = {(method, f"{base}/documents{path}") for method, path in of_one for base in ("", "/collections/shop")}
    assert {*of_all, ("POST", "/backup"), ("DELETE", "/collections/shop"), ("PUT", "/collections/shop")} == WRITES


def test_the_description_has_403_where_a_key_may_not_reach(locked: TestClient) -> None:
    described = locked.get("/openapi.json").json()["paths"]
    refused = {
        (method.upper(), path)
        for path in described
        for method, one in described[path].items()
        if "403" in one["responses"]
    }
    shown = [route for route in ROUTES if getattr(route, "include_in_schema", False)]
    plain = {route.path: route.path.replace(":path}", "}") for route in shown}
    limited = {
        (method, plain[one.path])
        for one in shown
        if policy_of(one).reach in {Reach.COLLECTION, Reach.ALL}
        for method in one.methods or ()
    }
    assert refused == limited | {("GET", "/metrics")}


@pytest.mark.parametrize(
    ("method", "path"),  # an id may be `count`
    [*sorted(WRITES), ("DELETE", "/documents/count"), ("DELETE", "/collections/shop/documents/count")],
)
def test_no_spelling_lets_a_read_only_key_write(locked: TestClient, method: str, path: str) -> None:
    before = stored(locked)
    for plain in (path, f"{path}/"):
        answer = locked.request(method, f"/api{plain}", json=body_of(path), headers=bearer("read"))
        assert_refused(answer, 403, "Unauthorized")
    for spelled in spellings(path):
        answer = locked.request(
            method, f"http://localhost{spelled}", json=body_of(path), headers=bearer("read"), follow_redirects=False
        )
        assert answer.status_code in {400, 403, 404, 405}, spelled
        assert set(answer.json()) == {"error", "error_type"}
    assert stored(locked) == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_no_header_turns_a_method_into_another(locked: TestClient, method: str) -> None:
    before = stored(locked)
    for name in ("x-http-method-override", "x-http-method", "x-method-override"):
        for path in ("/documents/de/1", "/collections/shop"):
            locked.request(method, path, headers=bearer("read") | {name: "DELETE"})
    assert stored(locked) == before


@pytest.mark.parametrize("escape", CONTROL_CHARACTERS)
def test_a_control_character_in_a_path_is_400(locked: TestClient, escape: str) -> None:
    before = stored(locked)
    for method, path in (*sorted(WRITES), ("GET", "/documents/de/1"), ("GET", "/metrics"), ("GET", "/v1/models")):
        for spelled in (path + escape, f"/{escape}{path[1:]}", f"/api{path}{escape}"):
            answer = locked.request(method, spelled, json=body_of(path), headers=bearer("full"))
            assert answer.status_code == 400, spelled
            assert "the path has a control character" in answer.text
    assert stored(locked) == before


def test_without_a_key_every_spelling_is_401(locked: TestClient) -> None:
    for spelled in spellings("/backup"):
        assert locked.post(f"http://localhost{spelled}").status_code == 401


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/openapi.json", "/", "/page/main.js", "/metrics"])
def test_what_needs_no_key_needs_none_for_options(locked: TestClient, path: str) -> None:
    assert [locked.request(method, path).status_code for method in ("HEAD", "OPTIONS")] == [200, 204]
    assert locked.post(path).status_code == 401


def test_the_table_finds_the_route_that_fastapi_calls() -> None:
    table = RouteTable(ROUTES)
    for route in ROUTES:
        path = (
            route.path.replace("{collection}", "shop")
            .replace("{document_id:path}", "de/1")
            .replace("{model:path}", "a")
        )
        for method in route.methods or ():
            scope = {"type": "http", "method": method, "path": path, "headers": [], "root_path": ""}
            called = next(one for one in ROUTES if one.matches(scope)[0] is Match.FULL)
            resource = table.match(method, path).resource
            assert resource is not None
            facts = {(one.path, policy_of(one).access) for one in (resource.route, called, route)}
            assert facts == {(route.path, policy_of(route).access)}


def test_a_route_that_declares_no_policy_stops_the_start() -> None:
    router = APIRouter()

    @router.get("/new")
    async def new() -> None:
        """Nothing."""

    with pytest.raises(AttributeError, match="policy"):
        RouteTable([route for route in router.routes if isinstance(route, Route)])


def test_an_old_id_with_a_control_character_can_be_removed(tiny_model: Path, serve: Serve, tmp_path: Path) -> None:
    manifest, ids = load_manifest(tiny_model), ["a\n", "b\x00c", "d\x85"]
    store = DocumentStore(tmp_path / "documents.sqlite3", fingerprint=manifest.fingerprint, dim=manifest.dim)
    with store.transaction() as transaction:
        transaction.upsert([Document(id_, TEXTS[0], {}) for id_ in ids], np.eye(3, manifest.dim, dtype=np.float32))
        transaction.commit()
    store.close()
    client = serve(data=tmp_path)
    assert [one["id"] for one in client.get("/documents").json()["documents"]] == ids
    for id_ in ids:
        for method in ("GET", "PATCH", "DELETE"):
            answer = client.request(
                method, f"/documents/{quote(id_)}", json={"metadata": {}} if method == "PATCH" else None
            )
            assert_refused(answer, 400, "Validation", "listed by GET /documents and removed by POST /documents/delete")
    assert client.post("/documents/delete", json={"ids": ids}).json() == {"deleted": 3}


def test_only_a_put_of_documents_takes_lines() -> None:
    lines = {(method, one.path) for one in ROUTES if policy_of(one).lines for method in one.methods or ()}
    assert lines == {("PUT", "/documents"), ("PUT", "/collections/{collection}/documents")}


def test_lines_elsewhere_are_a_body_like_any(locked: TestClient) -> None:
    headers = {"content-type": "application/x-ndjson", **bearer("full")}
    response = locked.post("/search", content=b" " * 4_000_001, headers=headers)
    assert response.status_code == 413
