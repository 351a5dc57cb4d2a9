"""The ids that a document may have are those that every client can name in a URL, quoted as `urllib.parse.quote` does.

Clients resolve `.` and `..` in a URL before they send it: asked for another document, the service cannot know.
"""

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import quote

import aiohttp
import httpx
import httpx2
import numpy as np
import pytest
import requests
import urllib3

from service.documents.document import Document
from service.documents.store.store import DocumentStore
from service.model.artifact import load_manifest
from tests.contract.conftest import BUNDLED
from tests.contract.live import live_service

KEPT = [
    *("a/b", "a//b", "//", "/a", "a/", "...", "a/.../b", ".a/b.", "a..b", "a\\b", "a\\..b", "a/..;x/b", "a/.. /b"),
    *("%41", "a%2Fb", "%2E%2Ea", "a/%252e%252e/b", "a?b#c", "a/..?/b", " a ", "a+b", "a:b", "http://x/y", "ü/日本"),
    "‥/a",
]
REFUSED = [
    *(".", "..", "./a", "../a", "a/.", "a/..", "a/./b", "drafts/../notes/a.md", "/../a", "a//../b"),
    *("..\\a", "a\\..\\b", "%2e", "%2E%2e/a", "a/.%2E/b", "a/%2e./b", "a/%2e%2e"),
]

Fetch = Callable[[str, str], str]  # method and URL -> the body of the answer


def by_requests(method: str, url: str) -> str:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, timeout=60).text


def by_urllib3(method: str, url: str) -> str:
    with urllib3.PoolManager() as pool:
        return pool.request(method, url).data.decode()


def by_aiohttp(method: str, url: str) -> str:
    async def fetch() -> str:
        async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
            return await answer.text()

    return asyncio.run(fetch())


CLIENTS: list[Fetch] = [
    lambda method, url: httpx.request(method, url, trust_env=False).text,
    lambda method, url: httpx2.request(method, url, trust_env=False).text,
    *(by_requests, by_urllib3, by_aiohttp),
]


@pytest.mark.parametrize("fetch", CLIENTS, ids=["httpx", "httpx2", "requests", "urllib3", "aiohttp"])
def test_clients_read_and_remove_only_the_document_they_name(bundled: httpx.Client, fetch: Fetch) -> None:
    documents = [{"id": id_, "text": "hallo"} for id_ in KEPT]
    assert bundled.put("/documents", json={"documents": documents}).json()["upserted"] == len(KEPT)
    left = set(KEPT)
    for id_ in KEPT:
        url = f"{bundled.base_url}/documents/{quote(id_)}"
        assert httpx.Response(200, text=fetch("GET", url)).json()["id"] == id_
        assert fetch("DELETE", url) == '{"deleted":1}'
        left.remove(id_)
        assert {one["id"] for one in bundled.get("/documents").json()["documents"]} == left


@pytest.mark.parametrize("id_", REFUSED)
def test_an_id_that_clients_change_in_a_url_is_refused(bundled: httpx.Client, id_: str) -> None:
    answer = bundled.put("/documents", json={"documents": [{"id": "a", "text": "a"}, {"id": id_, "text": "hallo"}]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("documents[1].id: a part between slashes is '.' or '..'")
    assert bundled.get("/documents").json()["total"] == 0


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service whose store was filled when ids were not looked at, with every one that is refused now."""
    folder = tmp_path_factory.mktemp("older")
    manifest = load_manifest(BUNDLED)
    store = DocumentStore(folder / "documents.sqlite3", fingerprint=manifest.fingerprint, dim=manifest.dim)
    vectors_ND = np.eye(len(REFUSED) + 1, manifest.dim, dtype=np.float32)
    with store.transaction() as transaction:
        transaction.upsert([Document(id_, "hallo", {"old": True}) for id_ in [*REFUSED, "notes/a.md"]], vectors_ND)
        transaction.commit()
    store.close()
    with live_service(BUNDLED, folder) as client:
        yield client


def test_a_store_with_such_ids_still_works(older: httpx.Client) -> None:
    listed = [one["id"] for one in older.get("/documents").json()["documents"]]
    assert listed == [*REFUSED, "notes/a.md"]
    body = {"query": "hallo", "top_k": 100, "filter": {"old": True}}
    assert {one["id"] for one in older.post("/search", json=body).json()["results"]} == set(listed)
    assert older.post("/documents/delete", json={"ids": ["a/./b", "%2e"]}).json() == {"deleted": 2}
    assert older.get("/documents").json()["total"] == len(REFUSED) - 1


def test_a_url_that_comes_with_dots_names_that_very_id(older: httpx.Client) -> None:
    """http.client sends a URL as it is."""

    def ask(method: str, path: str) -> tuple[int, dict[str, object]]:
        with closing(http.client.HTTPConnection(older.base_url.host, older.base_url.port, timeout=60)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    urls = ("/documents/drafts/../notes/a.md", "/documents/drafts/%2E%2e/notes/a.md")
    for url in urls:
        assert ask("GET", url)[1]["id"] == "drafts/../notes/a.md"
    assert ask("DELETE", "/documents/x/../notes/a.md")[0] == 404
    assert ask("DELETE", urls[0]) == (200, {"deleted": 1})
    assert [ask("DELETE", url)[0] for url in urls] == [404, 404]
    assert older.get("/documents/notes/a.md").status_code == 200
