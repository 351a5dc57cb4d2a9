import pytest
from fastapi.testclient import TestClient

from tests.service.conftest import Serve

DOCUMENT = {"documents": [{"id": "a", "text": "hallo"}]}


@pytest.fixture
def locked(serve: Serve) -> TestClient:
    return serve(api_keys="full", read_api_keys="read", metrics_open=False)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers", [{}, bearer("wrong"), bearer(""), {"authorization": "full"}, {"authorization": "Basic full"}]
)
def test_without_a_known_key_everything_but_the_probes_is_401(locked: TestClient, headers: dict[str, str]) -> None:
    response = locked.post("/embed", json={"inputs": "a"}, headers=headers)
    assert response.status_code == 401
    assert response.json()["error_type"] == "Unauthorized"
    assert response.headers["www-authenticate"] == "Bearer"
    assert locked.get("/metrics", headers=headers).status_code == 401
    assert locked.get("/nope", headers=headers).status_code == 401
    assert [locked.get(path, headers=headers).status_code for path in ("/health", "/ready", "/docs")] == [200] * 3


def test_the_root_embeds_only_with_a_key(locked: TestClient) -> None:
    assert locked.get("/", follow_redirects=False).status_code == 307
    assert locked.post("/", json={"inputs": "a"}).status_code == 401
    assert locked.post("/", json={"inputs": "a"}, headers=bearer("read")).status_code == 200


def test_a_full_key_may_write_and_a_read_only_key_may_search(locked: TestClient) -> None:
    assert locked.put("/documents", json=DOCUMENT, headers=bearer("full")).status_code == 200
    assert locked.post("/search", json={"query": "hallo"}, headers=bearer("read")).status_code == 200
    assert locked.get("/documents/a", headers=bearer("read")).status_code == 200
    assert locked.get("/documents", params={"filter": "{}"}, headers=bearer("read")).status_code == 200
    assert locked.post("/documents/count", json={"filter": {}}, headers=bearer("read")).json() == {"count": 1}
    assert locked.get("/metrics", headers=bearer("read")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/documents", DOCUMENT),
        ("DELETE", "/documents/a", None),
        ("DELETE", "/documents/count", None),
        ("DELETE", "/documents/count/", None),
        ("POST", "/documents/delete", {"ids": ["a"]}),
        ("POST", "/documents/delete/", {"ids": ["a"]}),
    ],
)
def test_a_read_only_key_may_not_change_documents(locked: TestClient, method: str, path: str, body: object) -> None:
    locked.put("/documents", json=DOCUMENT, headers=bearer("full"))
    response = locked.request(method, path, json=body, headers=bearer("read"))
    assert response.status_code == 403
    assert locked.get("/documents/a", headers=bearer("read")).status_code == 200


def test_an_unknown_key_is_refused_before_the_body_is_looked_at(locked: TestClient) -> None:
    assert locked.post("/embed", content=b"{" * 100, headers=bearer("wrong")).status_code == 401


@pytest.mark.parametrize("key", ["schlüssel", "voilà", "успех"])  # the last bytes of two are spaces in latin-1
def test_a_key_may_hold_any_letters(serve: Serve, key: str) -> None:
    client = serve(api_keys=key)
    given = {b"authorization": f"Bearer {key} ".encode()}  # as curl sends it
    assert client.post("/embed", json={"inputs": "a"}, headers=given).status_code == 200
    assert client.post("/embed", json={"inputs": "a"}, headers=bearer("schlussel")).status_code == 401


def test_what_is_refused_before_it_comes_to_a_route_counts_there(serve: Serve) -> None:
    client = serve(api_keys="full", metrics_open=True, max_body_bytes=100)
    assert client.post("/embed", json={"inputs": "a"}).status_code == 401
    assert client.post("/embed", json={"inputs": "a" * 100}, headers=bearer("full")).status_code == 413
    assert client.post("/nowhere").status_code == 401
    lines = client.get("/metrics").text.splitlines()
    for route, status in (("/embed", 401), ("/embed", 413), ("unmatched", 401)):
        assert f'crosslet_requests_total{{route="{route}",status="{status}"}} 1.0' in lines
