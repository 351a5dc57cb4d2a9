"""Requests of pages of other origins, as browsers make them (Fetch standard, "HTTP-network-or-cache fetch")."""

import threading
import time
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.runtime import EMBEDDED_READERS, Runtime
from service.settings import Settings
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

PAGE, OTHER = "https://app.example", "https://evil.example"
KEY = {"authorization": "Bearer full"}
COST = {"x-request-id", "x-tokens", "x-truncated", "x-queue-ms", "x-inference-ms", "x-reranker", "retry-after"}


@pytest.fixture(scope="module")
def service(serve_module: Serve) -> TestClient:
    return serve_module(
        cors_origins=f"http://localhost:3000, {PAGE.upper()}",
        api_keys="full",
        max_body_bytes=1000,
        max_queue_reads=1,
        gzip_min_bytes=100,
    )


def listed(response: httpx.Response, name: str) -> set[str]:
    return {one.strip().lower() for one in response.headers.get(name, "").split(",")} - {""}


def assert_readable(response: httpx.Response, status: int) -> None:
    """By a script of the page, its headers too."""
    assert response.status_code == status
    assert response.headers.get_list("access-control-allow-origin") == [PAGE]
    assert listed(response, "access-control-expose-headers") >= COST
    assert "origin" in listed(response, "vary")


def preflight(client: TestClient, path: str, method: str, headers: str, origin: str = PAGE) -> httpx.Response:
    asked = {"origin": origin, "access-control-request-method": method, "access-control-request-headers": headers}
    return client.options(path, headers=asked)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/embed"),
        ("POST", "/v1/embeddings/"),
        ("PUT", "/documents"),
        ("DELETE", "/documents/a"),
        ("GET", "/info"),
    ],
)
def test_a_preflight_is_answered_without_a_key(service: TestClient, method: str, path: str) -> None:
    answer = preflight(service, path, method, "authorization,content-type,x-request-id,x-stainless-lang")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert method.lower() in listed(answer, "access-control-allow-methods")
    allowed = listed(answer, "access-control-allow-headers")
    assert allowed == {"authorization", "content-type", "x-request-id", "x-stainless-lang"}
    assert "origin" in listed(answer, "vary")
    assert answer.headers["x-request-id"]


def test_a_page_reads_answers_with_the_key_that_it_sends(service: TestClient) -> None:
    headers = KEY | {"origin": PAGE}
    assert_readable(service.post("/embed", json={"inputs": "a"}, headers=headers), 200)
    packed = service.post("/embed", json={"inputs": ["a", "b"]}, headers=headers | {"accept-encoding": "gzip"})
    assert_readable(packed, 200)
    assert listed(packed, "vary") == {"origin", "accept-encoding"}


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (401, {"method": "GET", "url": "/info"}),
        (404, {"method": "GET", "url": "/v1/nope", "headers": KEY}),
        (405, {"method": "DELETE", "url": "/embed", "headers": KEY}),
        (413, {"method": "POST", "url": "/embed", "headers": KEY, "content": b"x" * 1001}),
        (415, {"method": "POST", "url": "/embed", "headers": KEY | {"content-encoding": "br"}}),
        (422, {"method": "POST", "url": "/embed", "headers": KEY, "json": {"inputs": ""}}),
        (422, {"method": "GET", "url": "/documents?nope=1", "headers": KEY}),
    ],
)
def test_a_page_reads_errors(service: TestClient, status: int, asked: dict[str, Any]) -> None:
    assert_readable(service.request(**asked | {"headers": asked.get("headers", {}) | {"origin": PAGE}}), status)


def test_a_page_reads_429_and_503(service: TestClient) -> None:
    runtime: Runtime = service.app.state.runtime  # type: ignore[attr-defined]
    portal, done = service.portal, threading.Event()
    assert portal is not None
    look_ups = [portal.start_task_soon(runtime.read, done.wait) for _ in range(EMBEDDED_READERS + 1)]
    while not runtime.readers.waiting:
        time.sleep(0.01)
    refused = service.get("/documents", headers=KEY | {"origin": PAGE})
    done.set()
    assert [look_up.result() for look_up in look_ups] == [True] * len(look_ups)
    assert_readable(refused, 429)
    runtime.lifecycle.is_draining = True
    refused = service.get("/ready", headers={"origin": PAGE})
    runtime.lifecycle.is_draining = False
    assert_readable(refused, 503)


def test_a_page_reads_that_there_is_a_bug(service: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.embed.json_response", None)
    assert_readable(service.post("/embed", json={"inputs": "a"}, headers=KEY | {"origin": PAGE}), 500)


@pytest.mark.parametrize("origin", [OTHER, "https://app.example.evil.example", "http://app.example", "null"])
def test_a_page_of_an_origin_that_is_not_listed_reads_nothing(service: TestClient, origin: str) -> None:
    refused = preflight(service, "/embed", "POST", "authorization", origin)
    assert refused.status_code == 400
    assert refused.json()["error"].endswith("not allowed because of its origin (CROSSLET_CORS_ORIGINS)")
    answer = service.get("/info", headers=KEY | {"origin": origin})
    for response in (refused, answer):
        assert "access-control-allow-origin" not in response.headers
        assert "origin" in listed(response, "vary")


def test_a_method_that_no_route_has_is_refused(service: TestClient) -> None:
    refused = preflight(service, "/embed", "TRACE", "authorization")
    assert_refused(refused, 400, "Validation", "not allowed because of its method")


def test_who_is_no_page_gets_what_does_not_depend_on_one(service: TestClient) -> None:
    answer = service.get("/info", headers=KEY)
    assert "access-control-allow-origin" not in answer.headers
    assert "origin" in listed(answer, "vary")  # a cache must not give it to a page


def test_preflights_are_counted(service: TestClient) -> None:
    preflight(service, "/similarity", "POST", "authorization")
    lines = service.get("/metrics", headers=KEY).text.splitlines()
    assert 'crosslet_requests_total{route="/similarity",status="200"} 1.0' in lines


def test_every_method_of_every_route_is_allowed(service: TestClient) -> None:
    allowed = listed(preflight(service, "/embed", "POST", ""), "access-control-allow-methods")
    described = service.get("/openapi.json").json()["paths"]
    assert {method for methods in described.values() for method in methods} <= allowed


def test_any_origin_may_be_allowed_with_keys_all_the_same(serve: Serve) -> None:
    client = serve(cors_origins="*", api_keys="full")
    answer = preflight(client, "/embed", "POST", "authorization,content-type", OTHER)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
    assert listed(answer, "access-control-allow-headers") == {"authorization", "content-type"}
    for headers, status in ((KEY, 200), ({}, 401)):
        answer = client.get("/info", headers=headers | {"origin": OTHER})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, "*")


def test_without_the_setting_there_is_no_cors(serve: Serve) -> None:
    client = serve()
    answer = client.get("/info", headers={"origin": PAGE})
    assert not [name for name in answer.headers if name.startswith("access-control-") or name == "vary"]
    assert not [name for name in preflight(client, "/embed", "POST", "").headers if name.startswith("access-control-")]


@pytest.mark.parametrize("given", ["https://a.example/", "a.example", "https://a.example,b", "https://*.a.example"])
def test_what_is_no_origin_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match=r"is not an origin; write it like https://app\.example"):
        Settings(cors_origins=given)


def test_origins_are_listed_between_commas() -> None:
    assert Settings(cors_origins=" https://A.example:8443 ,tauri://localhost,null,").origins() == {
        "https://a.example:8443",
        "tauri://localhost",
        "null",
    }
    assert Settings().origins() == set()
