"""The service under a proxy's path prefix, which the proxy strips or not."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from service.api.app import create_app
from service.errors import StartError
from service.runtime import load_runtime
from service.settings import Settings
from tests.artifacts import TEXTS
from tests.service.conftest import Serve

PREFIX = "/api/crosslet"
KEY = {"authorization": "Bearer full"}
READ_KEY = {"authorization": "Bearer read"}


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    data = tmp_path_factory.mktemp("data")
    settings = Settings(
        model=tiny_model, data=data, workers=1, root_path=f"{PREFIX}/", api_keys="full", read_api_keys="read"
    )
    with TestClient(create_app(load_runtime(settings)), base_url="http://localhost", follow_redirects=False) as client:
        yield client


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


def test_keys_are_asked_for_as_without_a_prefix(service: TestClient, base: str) -> None:
    assert service.get(f"{base}/info").status_code == 401
    assert service.post(f"{base}/", json={"inputs": "a"}).status_code == 401
    assert service.post(f"{base}/documents/delete", json={"ids": ["a"]}, headers=READ_KEY).status_code == 403
    open_ = ("/health", "/ready", "/docs", "/docs/", "/openapi.json", "/metrics")
    assert [service.get(f"{base}{path}").status_code for path in open_] == [200] * len(open_)


def test_the_root_leads_to_the_page(service: TestClient, base: str) -> None:
    for root in {f"{base}/", base or "/"}:
        assert service.get(root).headers["location"] == f"{PREFIX}/docs"


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


def test_requests_count_for_their_routes(service: TestClient, base: str) -> None:
    service.post(f"{base}/similarity", headers=KEY)
    service.post(f"{base}/similarity/")
    lines = service.get(f"{base}/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith('crosslet_requests_total{route="/similarity",')]
    assert {line.rpartition(" ")[0].partition("status=")[2] for line in counted} == {'"422"}', '"401"}'}


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
            StartError, match=f"CROSSLET_ROOT_PATH is {prefix}.*must not begin with /backup, /collections, /docs, "
        ):
            create_app(runtime)
    finally:
        runtime.close()
