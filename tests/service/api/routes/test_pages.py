"""The page for browsers at GET /: its headers, its files, and that every language has the same words."""

import json
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient

from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
WEB = Path(__file__).resolve().parents[4] / "service" / "web"
FILES = sorted(path.name for path in WEB.iterdir() if path.name != "index.html")
LANGUAGES = sorted(path.stem for path in WEB.glob("??.json"))
REFERENCE = re.compile(r"""(?:src|href)="(page/[^"]+)"|(?:from |import\()"(\./[^"]+)\"""")


@pytest.fixture(scope="module")
def client(serve_module: Serve) -> TestClient:
    return serve_module()


def words(language: str) -> dict[str, str | dict[str, str]]:
    return json.loads((WEB / f"{language}.json").read_text(encoding="utf-8"))


def test_only_a_browser_gets_the_page_at_the_root(client: TestClient) -> None:
    page = client.get("/", headers=BROWSER)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for accept in ("*/*", "application/json", "text/*", ""):
        other = client.get("/", headers={"accept": accept}, follow_redirects=False)
        assert (other.status_code, other.headers["location"]) == (307, "docs")
        assert other.headers["vary"] == page.headers["vary"] == "Accept"


def test_a_post_to_the_same_path_embeds_whatever_is_accepted(client: TestClient) -> None:
    assert len(client.post("/", json={"inputs": "a"}, headers=BROWSER).json()) == 1


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in FILES)])
def test_the_page_loads_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=BROWSER)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src", "base-uri")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    text = answer.text.replace("http://www.w3.org/2000/svg", "")  # a name, no address
    assert not re.search(r"https?://|(?<![:\w])//\w", re.sub(r"(?m)^\s*//.*|\s// .*", "", text))
    assert not re.search(r"""<[^>]+\s(?:style|on\w+)=|<script>|<style>|\.innerHTML|\beval\(""", text)


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in FILES)])
def test_a_file_is_sent_again_only_when_it_has_changed(client: TestClient, path: str) -> None:
    first = client.get(path, headers=BROWSER)
    assert first.headers["cache-control"] == "no-cache"
    for known in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = client.get(path, headers=BROWSER | {"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert client.get(path, headers=BROWSER | {"if-none-match": '"other"'}).content == first.content


def test_the_tag_of_the_page_depends_on_what_is_filled_in(serve: Serve) -> None:
    pages = [serve(root_path=prefix).get("/", headers=BROWSER) for prefix in ("", "/a")]
    assert len({page.headers["etag"] for page in pages}) == 2
    assert not any(blank in page.text for page in pages for blank in ("{base}", "{modes}"))


@pytest.mark.parametrize("name", ["nope.js", "index.html", "%2e%2e%2fsettings.py", "x" * 300 + ".js"])
def test_nothing_but_the_files_of_the_page_is_there(client: TestClient, name: str) -> None:
    answer = client.get(f"/page/{name}")
    assert_refused(answer, 404, "NotFound")


@pytest.mark.parametrize("prefix", ["", "/api/crosslet"])
def test_the_pages_files_are_answered_under_the_prefix(serve: Serve, prefix: str) -> None:
    client = serve(root_path=prefix)
    for address in {f"{prefix}/", prefix or "/"}:  # with a prefix, a browser may ask without the slash
        page = client.get(address, headers=BROWSER).text
        (base,) = re.findall(r'<base href="([^"]+)">', page)
        waiting, seen = {urljoin(urljoin(address, base), path) for path, _ in REFERENCE.findall(page)}, set()
        while waiting:
            url = waiting.pop()
            answer = client.get(url)
            assert (answer.status_code, url.startswith(f"{prefix}/page/")) == (200, True), url
            seen.add(url)
            waiting |= {urljoin(url, module) for _, module in REFERENCE.findall(answer.text) if module} - seen
        assert {url.rpartition("/")[2] for url in seen} == {name for name in FILES if not name.endswith(".json")}


def test_the_page_needs_no_key_and_what_it_asks_for_does(serve: Serve) -> None:
    client = serve(api_keys="full")
    assert client.get("/", headers=BROWSER).status_code == 200
    assert {client.get(f"/page/{name}").status_code for name in FILES} == {200}
    assert client.get("/info").status_code == 401
    assert client.post("/", json={"inputs": "a"}, headers=BROWSER).status_code == 401


def test_the_page_can_be_switched_off(serve: Serve) -> None:
    client = serve(page=False)
    answer = client.get("/", headers=BROWSER, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "docs")
    assert client.get("/page/main.js").status_code == 404


@pytest.mark.parametrize("own", [None, "dense", "keywords"])
def test_the_page_offers_the_services_mode_first(serve: Serve, own: str | None) -> None:
    client = serve(search_mode=own)
    request = client.get("/openapi.json").json()["components"]["schemas"]["SearchRequest"]
    modes = next(one["enum"] for one in request["properties"]["mode"]["anyOf"] if "enum" in one)
    (offered,) = re.findall(r'data-modes="([^"]*)"', client.get("/", headers=BROWSER).text)
    assert offered.split()[0] == (own or "hybrid")
    assert sorted(offered.split()) == sorted(modes)


def test_files_count_under_one_route(client: TestClient) -> None:
    def count() -> float:
        line = next((line for line in client.get("/metrics").text.splitlines() if line.startswith(counter)), "0")
        return float(line.split()[-1])

    counter = 'crosslet_requests_total{route="/page/{name}",status="200"}'
    before = count()
    for name in FILES:
        client.get(f"/page/{name}")
    assert count() - before == len(FILES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_everything_with_the_same_blanks(language: str) -> None:
    assert {"de", "en", "es", "fr"} <= set(LANGUAGES)
    english, other = words("en"), words(language)
    assert other.keys() == english.keys()
    for key, text in english.items():
        forms = [text, other[key]]
        assert isinstance(other[key], type(text)), key
        blanks = [{blank for one in flat(form) for blank in re.findall(r"{(\w+)}", one)} for form in forms]
        assert blanks[0] == blanks[1], key
        assert all(one.strip() for one in flat(other[key])), key


def test_every_word_is_used_and_every_used_word_is_there() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in WEB.iterdir() if path.suffix in {".html", ".js"})
    used = set(re.findall(r"""data-t(?:-\w+)*="([\w.]+)\"""", sources)) | set(re.findall(r'\bt\("([\w.]+)"', sources))
    assert used == words("en").keys()


def flat(text: str | dict[str, str]) -> list[str]:
    return [text] if isinstance(text, str) else list(text.values())
