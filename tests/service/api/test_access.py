"""Which keys, host names and pages of which origins may ask what."""

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError
from starlette.types import Message, Receive

from service.api.access import is_known_host, is_of_another_origin
from service.api.app import create_app, create_metrics_app
from service.runtime import load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.api.test_policy import WRITES, body_of
from tests.service.conftest import Serve, bearer


@pytest.fixture(scope="module")
def locked(serve_module: Serve) -> TestClient:
    return serve_module(api_keys="full", read_api_keys="read", metrics_open=False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        {"authorization": "wrong"},
        {"authorization": ""},
        {"authorization": "Bearerfull"},
        {"authorization": "Basic full"},
    ],
)
def test_without_a_known_key_everything_but_the_probes_is_401(locked: TestClient, headers: dict[str, str]) -> None:
    response = locked.post("/embed", json={"inputs": "a"}, headers=headers)
    assert_refused(response, 401, "Unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    assert locked.get("/metrics", headers=headers).status_code == 401
    assert locked.get("/nope", headers=headers).status_code == 401
    assert [locked.get(path, headers=headers).status_code for path in ("/health", "/ready", "/docs")] == [200] * 3


READS = [
    ("GET", "/info", None),
    ("GET", "/reranker/info", None),
    ("GET", "/metrics", None),
    ("GET", "/documents/de/1", None),
    ("GET", "/documents?filter={}", None),
    ("POST", "/documents/count", {"filter": {}}),
    ("POST", "/", {"inputs": "a"}),
    ("POST", "/embed", {"inputs": "a"}),
    ("POST", "/v1/embeddings", {"input": "a"}),
    ("POST", "/api/embed", {"input": "a"}),
    ("GET", "/api/tags", None),
    *(("POST", path, {"texts": ["a"]}) for path in ("/v1/embed", "/v2/embed")),
    ("POST", "/tokenize", {"inputs": "a"}),
    ("POST", "/search", {"query": "hallo"}),
    *(("POST", path, {"query": "a", "documents": ["b"]}) for path in ("/rerank", "/v1/rerank", "/v2/rerank")),
    ("GET", "/collections", None),
    ("GET", "/collections/shop", None),
    ("GET", "/collections/shop/documents/de/1", None),
    ("POST", "/collections/shop/search", {"query": "x"}),
    ("POST", "/collections/shop/documents/count", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), READS)
def test_a_read_only_key_may_ask_and_nobody_without(locked: TestClient, method: str, path: str, body: object) -> None:
    put(locked)
    assert locked.request(method, path, json=body).status_code == 401
    assert locked.request(method, path, json=body, headers=bearer("read")).status_code == 200


def test_a_key_may_stand_without_bearer(locked: TestClient) -> None:
    for key, status in (("full", 200), ("read", 403)):
        assert locked.post("/embed", json={"inputs": "a"}, headers={"authorization": key}).status_code == 200
        given = {"documents": [{"id": "a", "text": "b"}]}
        assert locked.put("/documents", json=given, headers={"authorization": key}).status_code == status


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


ADDRESSES = ["127.0.0.1", "127.0.0.1:8080", "10.1.2.3", "0.0.0.0:80", "[::1]", "[::1]:8080", "[2001:DB8::1]:80"]
NAMES = ["localhost", "localhost:8080", "LOCALHOST", "localhost.:80", "search.example", "Search.Example:443", "my_host"]
FOREIGN = [
    *("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "evil-search.example"),
    *("a.search.example", "localhost:8080.evil.example", "localhost@evil.example", "[::1].evil.example", "[evil]"),
    *("[127.0.0.1]", "::1", "127.1", "0x7f.0.0.1", "2130706433", "127.0.0.1:a", "localhost:8080:80", "", ":80", "[]"),
    *("localhost/", " ", "localhost evil.example", "localhost,evil.example", "lоcalhost"),
]
KNOWN = frozenset({"localhost", "search.example", "my_host"})
ALLOWED, EVIL = "https://app.example", "https://evil.example"


@pytest.fixture(scope="module")
def open_service(serve_module: Serve) -> TestClient:
    """Without keys."""
    return serve_module(allowed_hosts="Search.example., my_host,", cors_origins=ALLOWED)


def put(client: TestClient) -> None:
    documents = {"documents": [{"id": "de/1", "text": TEXTS[0]}]}
    for path in ("/documents", "/collections/shop/documents"):
        assert client.put(path, json=documents, headers=bearer("full")).status_code == 200


# --- Host


@pytest.mark.parametrize("host", [*ADDRESSES, *NAMES])
def test_an_address_and_a_known_name_are_answered(open_service: TestClient, host: str) -> None:
    assert is_known_host(host, KNOWN)
    assert open_service.get("/info", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_any_other_host_is_unknown(host: str) -> None:
    assert not is_known_host(host, KNOWN)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.1", "localhost.evil.example"])
def test_without_keys_a_foreign_host_reads_and_writes_nothing(open_service: TestClient, host: str) -> None:
    put(open_service)
    reads = [
        ("GET", path) for path in ("/", "/info", "/documents", "/documents/de/1", "/collections", "/metrics", "/docs")
    ]
    posts = [("POST", path) for path in ("/embed", "/search", "/documents/count", "/v1/embeddings", "/nope")]
    for method, path in (*reads, *posts, ("GET", "/page/main.js"), ("OPTIONS", "/documents"), *sorted(WRITES)):
        answer = open_service.request(method, path, json=body_of(path), headers={"host": host})
        assert answer.status_code == 421, path
        assert "CROSSLET_ALLOWED_HOSTS" in answer.text
        assert "CROSSLET_API_KEYS" in answer.text
    assert open_service.get("/documents/de/1").status_code == 200
    assert open_service.get("/collections/shop").json()["documents"] == 1


async def no_body() -> Message:
    raise AssertionError("the body is read")


async def empty_body() -> Message:
    return {"type": "http.request", "body": b""}


def status_of(
    settings: Settings, method: str, path: str, *headers: tuple[bytes, bytes], receive: Receive, version: str = "1.1"
) -> int:
    """The status of a request of exactly these headers."""
    runtime, sent = load_runtime(settings), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    asyncio.run(create_app(runtime)({**scope, "headers": headers, "http_version": version}, receive, send))
    runtime.close()
    return int(sent[0]["status"])


def test_a_foreign_host_is_refused_before_the_body_is_read(tiny_model: Path, tmp_path: Path) -> None:
    headers = [(b"host", b"evil.example"), (b"content-type", b"application/json")]
    assert (
        status_of(Settings(model=tiny_model, data=tmp_path, workers=1), "POST", "/embed", *headers, receive=no_body)
        == 421
    )


def test_probes_answer_any_host(open_service: TestClient) -> None:
    for path in ("/health", "/ready", "/ready/"):
        for method in ("GET", "HEAD"):
            assert open_service.request(method, path, headers={"host": "evil.example"}).status_code == 200


def test_with_keys_the_key_decides_under_any_host(serve: Serve) -> None:
    client = serve(api_keys="full")
    host = {"host": "search.example"}
    assert client.get("/info", headers=host | bearer("full")).status_code == 200
    assert client.get("/info", headers=host).status_code == 401
    assert client.get("/docs", headers=host).status_code == 200


def test_the_metrics_port_answers_any_host(tiny_model: Path, tmp_path: Path) -> None:
    runtime = load_runtime(Settings(model=tiny_model, data=tmp_path, workers=1))
    with TestClient(create_metrics_app(runtime), base_url="http://service:9100") as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/metrics%0A").status_code == 400
        assert client.get("/metrics", headers=[("host", "a"), ("host", "a")]).status_code == 400
    runtime.close()


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [
        ("1.1", ["localhost"], 200),
        ("1.1", [], 400),
        ("1.1", ["localhost", "localhost"], 400),
        ("1.1", ["localhost", "evil.example"], 400),
        ("1.0", [], 200),
        ("1.0", ["localhost"], 200),
        ("1.0", ["localhost", "localhost"], 400),
        ("1.0", ["evil.example"], 421),
    ],
)
@pytest.mark.parametrize("keys", ["", "full"])
def test_a_request_has_one_host(
    tiny_model: Path, tmp_path: Path, version: str, hosts: list[str], status: int, keys: str
) -> None:
    settings = Settings(model=tiny_model, data=tmp_path, workers=1, api_keys=keys)
    headers = [*((b"host", host.encode()) for host in hosts), (b"authorization", b"Bearer full")]
    answered = status_of(settings, "GET", "/v1/models", *headers, receive=empty_body, version=version)
    assert answered == (200 if status == 421 and keys else status)


@pytest.mark.parametrize(
    "given", ["https://a.example", "a.example:80", "a.example/b", "*", "*.a.example", "[::1]", "ü.de"]
)
def test_what_is_no_host_name_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a host name; write it like search\.example"):
        Settings(allowed_hosts=f"good.example,{given}")


# --- Origin


def asked(client: TestClient, method: str, path: str, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request(method, path, json=body_of(path), headers=given)


@pytest.mark.parametrize("keys", ["", "full"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL},
        {"origin": EVIL, "sec_fetch_site": "cross-site"},
        {"origin": "http://localhost:3000", "sec_fetch_site": "same-site"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "chrome-extension://abcdef", "sec_fetch_site": "none"},
        {"origin": EVIL, "x_forwarded_host": "evil.example"},
        {"origin": EVIL, "forwarded": "host=evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "", "sec_fetch_site": "cross-site"},
    ],
)
def test_a_page_of_another_origin_writes_nothing(serve: Serve, headers: dict[str, str], keys: str) -> None:
    client = serve(api_keys=keys, cors_origins=ALLOWED)
    put(client)
    for method, path in sorted(WRITES):
        answer = asked(client, method, path, authorization="Bearer full", **headers)
        assert answer.status_code == 403, (method, path)
        assert "CROSSLET_CORS_ORIGINS" in answer.json()["error"]
    assert client.get("/collections/shop/documents/de/1", headers=bearer("full")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},  # curl, SDKs
        {"sec_fetch_mode": "cors"},  # Node's fetch
        {"origin": "http://localhost", "sec_fetch_site": "same-origin"},
        {"origin": "http://localhost"},
        {"origin": "https://localhost"},  # TLS ended at a proxy
        {"origin": "http://localhost:80"},
        {"origin": "http://search.example:8080", "host": "Search.example:8080"},
        {"origin": "https://search.example", "host": "search.example:443"},
        {"origin": "https://search.example", "host": "127.0.0.1:8080", "sec_fetch_site": "same-origin"},  # Host changed
        {"origin": "null", "sec_fetch_site": "same-origin"},  # a form under `no-referrer`
        {"origin": ALLOWED, "sec_fetch_site": "cross-site"},
        {"origin": ALLOWED.upper()},
        {"sec_fetch_site": "none"},
    ],
)
def test_the_own_page_an_allowed_one_and_other_clients_write(open_service: TestClient, headers: dict[str, str]) -> None:
    put(open_service)
    for method, path in sorted(WRITES - {("DELETE", "/collections/shop")}):
        put(open_service)
        assert asked(open_service, method, path, **headers).status_code == 200, (method, path)
    assert asked(open_service, "DELETE", "/collections/shop", **headers).status_code == 200


def test_any_origin_writes_where_any_is_allowed(serve: Serve) -> None:
    client = serve(api_keys="full", cors_origins="*")
    put(client)
    for headers in ({"origin": EVIL}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}):
        answer = asked(client, "POST", "/backup", authorization="Bearer full", **headers)
        assert answer.status_code == 200


def test_a_page_of_another_origin_may_ask_what_it_cannot_read(open_service: TestClient) -> None:
    for method, path, body in (("POST", "/embed", {"inputs": "a"}), ("GET", "/info", None)):
        answer = open_service.request(method, path, json=body, headers={"origin": EVIL})
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers


def test_an_allowed_page_reads_why_its_host_is_refused(open_service: TestClient) -> None:
    answer = open_service.get("/info", headers={"origin": ALLOWED, "host": "evil.example"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (421, ALLOWED)


def test_an_origin_without_a_host_is_another_than_an_empty_host() -> None:
    assert is_of_another_origin({"headers": [(b"origin", b"null"), (b"host", b"")]}, ())
