"""Paths and methods, over all routes: both spellings of a path, HEAD, OPTIONS, Allow, query parameters, a prefix."""

import re
from pathlib import Path
from urllib.parse import quote, urljoin

import httpx
import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.api.app import create_app
from service.errors import StartError
from service.runtime import load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

DOCUMENT = {"documents": [{"id": "a/", "text": TEXTS[1]}]}
POSTS = {
    "/": {"inputs": "a"},
    "/embed": {"inputs": "a"},
    "/similarity": {"inputs": {"pairs": [["a", "b"]]}},
    "/v1/embeddings": {"input": "a"},
    "/embeddings": {"input": "a"},
    "/search": {"query": "a"},
    "/documents/delete": {"ids": ["b"]},
}
GETS = ["/", "/health", "/ready", "/metrics", "/info", "/docs", "/openapi.json", "/documents", "/v1/models"]
OF_AN_ID, OF_A_FILE = "/documents/a/", "/docs/static/swagger-ui.css"


@pytest.fixture(scope="module")
def client(serve_module: Serve) -> TestClient:
    client = serve_module(metrics_open=False)
    client.follow_redirects = False
    client.put("/documents", json=DOCUMENT)
    return client


def allowed(response: httpx.Response) -> set[str]:
    return set(response.headers["allow"].split(", "))


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
def test_a_post_is_answered_under_both_spellings(client: TestClient, path: str, content_type: str) -> None:
    """As it goes straight to its route, and as it goes the framework's way."""
    headers = {"content-type": content_type}
    answers = [client.post(spelling, json=POSTS[path], headers=headers) for spelling in (path, f"{path.rstrip('/')}/")]
    assert [one.status_code for one in answers] == [200, 200]
    if path != "/search":  # it has took_ms
        assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", GETS)
def test_a_get_is_answered_under_both_spellings(client: TestClient, path: str) -> None:
    plain, slashed = client.get(path), client.get(f"{path.rstrip('/')}/")
    assert plain.status_code == slashed.status_code == (307 if path == "/" else 200)
    if path != "/metrics":  # it counts these two
        assert plain.content == slashed.content


def test_no_answer_leads_to_another_scheme_or_host(client: TestClient) -> None:
    """The service hears http://, whatever its proxy speaks."""
    for path in (*GETS, *POSTS, OF_AN_ID, OF_A_FILE, "/nope", "/v1/nope"):
        for spelling in {path, f"{path.rstrip('/')}/"}:
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
                response = client.request(method, spelling, headers={"x-forwarded-proto": "https"})
                assert "://" not in response.headers.get("location", ""), (method, spelling)
                assert response.is_redirect == (method in {"GET", "HEAD"} and spelling == "/")
    assert client.get("/").headers["location"] == "docs"
    client.put("/documents", json=DOCUMENT)


def test_an_id_keeps_its_slash(client: TestClient) -> None:
    client.put("/documents", json={"documents": [{"id": id_, "text": "a"} for id_ in ("b", "b/", "delete/", "b//")]})
    for id_ in ("b//", "b/", "delete/"):
        assert client.get(f"/documents/{id_}").json()["id"] == id_
        assert client.head(f"/documents/{id_}").status_code == 200
        assert client.delete(f"/documents/{id_}").json() == {"deleted": 1}
        assert client.get(f"/documents/{id_}").status_code == 404
    assert client.get("/documents/b").json()["id"] == "b"


def test_no_id_is_empty(client: TestClient) -> None:
    total = client.get("/documents").json()["total"]
    assert client.delete("/documents/").status_code == 405
    assert client.get("/documents/").json()["total"] == total > 0


@pytest.mark.parametrize("path", [*GETS, OF_AN_ID, OF_A_FILE, "/documents/nope", "/docs/static/nope", "/nope"])
def test_head_is_get_without_its_body(client: TestClient, path: str) -> None:
    get, head = (client.request(method, path, headers={"accept-encoding": "identity"}) for method in ("GET", "HEAD"))
    assert head.status_code == get.status_code
    assert head.content == b""
    changing = {"x-request-id"} | ({"content-length"} if path == "/metrics" else set())
    assert {k: v for k, v in head.headers.items() if k not in changing} == {
        k: v for k, v in get.headers.items() if k not in changing
    }
    assert int(head.headers["content-length"]) > 0 or path == "/"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/", {"GET", "HEAD", "POST"}),
        ("/embed", {"POST"}),
        ("/embed/", {"POST"}),
        ("/health", {"GET", "HEAD"}),
        ("/docs", {"GET", "HEAD"}),
        ("/openapi.json", {"GET", "HEAD"}),
        ("/documents", {"GET", "HEAD", "PUT"}),
        ("/documents/", {"GET", "HEAD", "PUT"}),
        ("/documents/a", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("/documents/delete", {"GET", "HEAD", "PATCH", "DELETE", "POST"}),  # an id may be `delete`
        (OF_A_FILE, {"GET", "HEAD"}),
    ],
)
def test_allow_lists_every_method_of_the_path(client: TestClient, path: str, methods: set[str]) -> None:
    refused = client.request("TRACE", path)
    assert refused.status_code == 405
    assert allowed(refused) == {*methods, "OPTIONS"}
    assert refused.json()["error_type"] == "Validation"
    assert all(method in refused.json()["error"] for method in ("TRACE", *methods))
    options = client.options(path)
    assert (options.status_code, options.content) == (204, b"")
    assert allowed(options) == allowed(refused)


def test_every_method_that_allow_lists_is_answered_and_no_other(client: TestClient) -> None:
    for path in (*GETS, *POSTS, OF_AN_ID, OF_A_FILE):
        allow = allowed(client.options(path))
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert (client.request(method, path).status_code == 405) == (method not in allow), (method, path)
    client.put("/documents", json=DOCUMENT)


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "TRACE"])
def test_an_unknown_path_is_404_whatever_the_method(client: TestClient, method: str) -> None:
    response = client.request(method, "/nope/")
    assert_refused(response, 404, "NotFound")


def test_both_spellings_count_for_the_route(client: TestClient) -> None:
    def count(route: str, status: int) -> float:
        start = f'crosslet_requests_total{{route="{route}",status="{status}"}} '
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))

    before = count("/similarity", 200), count("/similarity", 405), count("/documents/{document_id:path}", 404)
    client.post("/similarity/", json=POSTS["/similarity"])
    client.get("/similarity/")
    client.head("/documents/nope/")
    after = count("/similarity", 200), count("/similarity", 405), count("/documents/{document_id:path}", 404)
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]


# --- query parameters


def test_very_many_query_parameters_are_not_read(client: TestClient) -> None:
    refused = client.get("/documents?" + "limit&" * 101)
    assert_refused(refused, 422, "Validation", "the URL has more than 100 query parameters")


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("GET", "/documents?limt=3", "this route takes "),
        ("GET", "/documents?limit=3&limt=3", "this route takes "),
        ("GET", "/documents/?limt", "this route takes "),
        ("PUT", "/documents?limt=3", "this route takes none"),
        ("GET", "/documents/a/?limt=3", "this route takes none"),
        ("DELETE", "/documents/a/?limt=3", "this route takes none"),
        ("POST", "/documents/delete?limt=3", "this route takes none"),
        ("POST", "/search?limt=3", "this route takes none"),
        ("POST", "/backup?limt=3", "this route takes none"),
    ],
)
def test_our_routes_refuse_unknown_query_parameters(client: TestClient, method: str, path: str, known: str) -> None:
    body = {"PUT": DOCUMENT, "POST": POSTS.get(path.partition("?")[0])}.get(method)
    response = client.request(method, path, json=body)
    assert_refused(response, 422, "Validation", f'the query parameter "limt" is unknown; {known}')
    assert client.get("/documents/a/").status_code == 200  # nothing was done


def test_the_refusal_lists_the_parameters_of_openapi(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]["/documents"]["get"]["parameters"]
    listed = client.get("/documents?x=1").json()["error"].partition("this route takes ")[2].split(", ")
    assert set(listed) == {one["name"] for one in described if one["in"] == "query"} >= {"cursor", "limit"}


def test_the_name_of_an_unknown_parameter_is_cut_in_the_sentence(client: TestClient) -> None:
    error = client.get("/documents?" + "x" * 5000).json()["error"]
    assert len(error) < 200


@pytest.mark.parametrize("path", ["/", "/embed", "/similarity", "/v1/embeddings", "/embeddings"])
def test_teis_and_openais_routes_ignore_unknown_parameters(client: TestClient, path: str) -> None:
    answers = [client.post(f"{path}{query}", json=POSTS[path]) for query in ("", "?api-version=2024-02-01")]
    assert [one.status_code for one in answers] == [200, 200]
    assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/info", "/docs", "/openapi.json", "/v1/models"])
def test_what_probes_scrapers_and_browsers_add_is_ignored(client: TestClient, path: str) -> None:
    assert client.get(f"{path}?_=1").status_code == 200


PREFIX = "/api/crosslet"
KEY = {"authorization": "Bearer full"}
READ_KEY = {"authorization": "Bearer read"}


@pytest.fixture(scope="module")
def service(serve_module: Serve) -> TestClient:
    client = serve_module(root_path=f"{PREFIX}/", api_keys="full", read_api_keys="read")
    client.follow_redirects = False
    return client


@pytest.fixture(params=["cut off", "left there"])
def base(request: pytest.FixtureRequest) -> str:
    """What the proxy puts before a path that it has from the client without the prefix."""
    return "" if request.param == "cut off" else PREFIX


def test_routes_are_answered_under_the_prefix(service: TestClient, base: str) -> None:
    assert len(service.post(f"{base}/embed", json={"inputs": "a"}, headers=KEY).json()) == 1
    assert service.post(f"{base}/embed/", json={"inputs": "a"}, headers=KEY).status_code == 200
    assert service.post(f"{base}/", json={"inputs": "a"}, headers=KEY).status_code == 200
    assert service.head(f"{base}/info", headers=KEY).status_code == 200
    assert service.get(f"{base}/v1/nope", headers=KEY).json()["error"]["code"] == "NotFound"
    assert service.get(f"{base}/nope", headers=KEY).json()["error_type"] == "NotFound"
    assert service.get(f"{PREFIX}{base}/nope{PREFIX}", headers=KEY).status_code == 404


@pytest.mark.parametrize("id_", ["a/b/", "ü", f"{PREFIX}/documents/a", "documents/a", "/", "%2F"])
def test_an_id_is_taken_to_the_byte(service: TestClient, base: str, id_: str) -> None:
    service.put(f"{base}/documents", json={"documents": [{"id": id_, "text": TEXTS[0]}]}, headers=KEY)
    for spelled in (quote(id_), "".join(f"%{byte:02X}" for byte in id_.encode())):
        assert service.get(f"{base}/documents/{spelled}", headers=KEY).json()["id"] == id_
    assert service.delete(f"{base}/documents/{quote(id_)}", headers=KEY).json() == {"deleted": 1}


def test_a_prefix_may_be_escaped(service: TestClient) -> None:
    service.put("/documents", json={"documents": [{"id": "%", "text": TEXTS[0]}]}, headers=KEY)
    assert service.get("/%61pi/crossl%65t/documents/%25", headers=KEY).json()["id"] == "%"
    assert service.get("/%61pi/crosslet", headers=KEY).headers["location"] == f"{PREFIX}/docs"


def test_every_url_that_the_page_names_is_answered(service: TestClient, base: str) -> None:
    for page_path in ("/docs", "/docs/"):
        page = service.get(f"{base}{page_path}").text
        named = re.findall(r"""(?:href=|src=|url:\s*|Url:[^'"]*)["']([^"']+)["']""", page)
        assert len(named) == 4  # a script, a style, an icon, the description
        assert page.count("/docs/static/") == 3
        for url in named:
            absolute = urljoin(f"{PREFIX}{page_path}", url)  # as a browser asks its proxy
            assert absolute.startswith(f"{PREFIX}/")
            answer = service.get(base + absolute.removeprefix(PREFIX))
            assert (answer.status_code, len(answer.content) > 100) == (200, True), url


def test_the_description_says_where_its_paths_begin(service: TestClient, serve: Serve, base: str) -> None:
    described = service.get(f"{base}/openapi.json").json()
    assert described["servers"] == [{"url": PREFIX}]
    for path, methods in described["paths"].items():
        if "get" in methods and "{" not in path:
            proxied = described["servers"][0]["url"] + path
            assert service.get(base + proxied.removeprefix(PREFIX), headers=KEY).status_code == 200, path
    assert "servers" not in serve().get("/openapi.json").json()


@pytest.mark.parametrize("given", ["crosslet", "/a//b", "/a b", "/a/../b", "/.", "/ü", "/a?b", "https://a.example/b"])
def test_what_is_no_path_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="write it like /crosslet"):
        Settings(root_path=given)


@pytest.mark.parametrize(("given", "taken"), [("/", ""), ("/a/", "/a"), ("/a/b-c.d_e~1", "/a/b-c.d_e~1")])
def test_a_path_may_end_in_a_slash(given: str, taken: str) -> None:
    assert Settings(root_path=given).root_path == taken


@pytest.mark.parametrize("prefix", ["/documents", "/v1", "/embed/a", "/docs"])
def test_a_prefix_as_a_route_begins_is_refused(tiny_model: Path, tmp_path: Path, prefix: str) -> None:
    runtime = load_runtime(Settings(model=tiny_model, data=tmp_path, workers=1, root_path=prefix))
    try:
        with pytest.raises(
            StartError,
            match=f"CROSSLET_ROOT_PATH is {prefix}.*must not begin with /backup, /collections, /decode, /docs, ",
        ):
            create_app(runtime)
    finally:
        runtime.close()
