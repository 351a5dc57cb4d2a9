import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import anyio
import httpx
import numpy as np
import pytest

from service.cli.mcp import _routes_at
from service.documents.document import Document
from service.errors import InvalidInput, StartError
from service.offline.loading import BATCH_DOCUMENTS
from service.offline.service_client import ServiceClient
from tests.contract.live import live_service
from tests.ports import reserved_port
from tests.service.cli.conftest import Crosslet
from tests.service.offline.files import DOCUMENTS, write_jsonl

KEY = "a-key-that-may-write"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def service(failing_model: Path, data: Path) -> Iterator[httpx.Client]:
    with live_service(failing_model, data, api_keys=KEY, workers=2, chunk="false") as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        yield client


@pytest.fixture(autouse=True)
def client_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a model nor a store: the service has both."""
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "nothing"))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("CROSSLET_API_KEYS", KEY)


def build(crosslet: Crosslet, path: Path, url: object, *options: str, status: int = 0) -> list[str]:
    return crosslet("index", "build", path, "--url", url, *options, status=status).err.splitlines()


def test_build_through_a_service_sends_only_changes_on(
    service: httpx.Client, crosslet: Crosslet, tmp_path: Path
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    assert build(crosslet, path, service.base_url)[-1] == "12 documents read: 12 new or replaced, 0 unchanged"
    for one in DOCUMENTS[:3]:
        answer = service.get(f"/documents/{one['id']}").json()
        assert {key: answer[key] for key in one} == one
    path = tmp_path / "b.csv"
    path.write_text('id,text,price\nnew,hallo,2.5\nlong,"' + "guitar " * 50 + '",\n', encoding="utf-8")
    last = build(crosslet, path, service.base_url, "--types", "price=float")[-1]
    assert last == "2 documents read: 2 new or replaced, 0 unchanged; of 1 the model read only the beginning"
    assert service.get("/documents/new").json()["metadata"] == {"price": 2.5}
    path = write_jsonl(tmp_path / "c.jsonl", [*DOCUMENTS, {"id": "new", "text": "guten morgen"}])
    assert build(crosslet, path, service.base_url)[-1] == "13 documents read: 1 new or replaced, 12 unchanged"


@pytest.fixture
def beside(service: httpx.Client, failing_model: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the service; commands have its store and model."""
    monkeypatch.setenv("CROSSLET_MODEL", str(failing_model))
    monkeypatch.setenv("CROSSLET_DATA", str(data))
    return str(service.base_url).rstrip("/")


@pytest.mark.parametrize("collection", ["default", "shop"])
def test_build_finds_the_service_that_has_the_store(
    service: httpx.Client, beside: str, crosslet: Crosslet, tmp_path: Path, collection: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"id,text\n{collection}/1,hallo\n{collection}/2,guten morgen\n")
    said = crosslet("index", "build", path, "--collection", collection).err
    assert f"the service at {beside} has the documents open: loading through it, as with --url {beside}\n" in said
    assert said.endswith("2 documents read: 2 new or replaced, 0 unchanged\n")
    assert service.get(f"/collections/{collection}/documents/{collection}/2").json()["text"] == "guten morgen"


def test_build_beside_a_service_needs_its_key(
    beside: str, crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROSSLET_API_KEYS")
    said = crosslet("index", "build", write_jsonl(tmp_path / "a.jsonl", DOCUMENTS), status=2).err.splitlines()[-1]
    assert said.startswith(f"crosslet: {beside} answered 401: ")
    assert said.endswith("; this command takes its key from CROSSLET_API_KEYS")


def test_other_writers_name_the_service_that_has_the_store(beside: str, crosslet: Crosslet, tmp_path: Path) -> None:
    documents = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS[:1])
    vectors, backup = tmp_path / "v.npy", tmp_path / "backup"
    np.save(vectors, np.ones((1, 16), np.float32))
    crosslet("index", "backup", backup)
    for command in (["import", documents, vectors], ["repair"], ["compact"], ["restore", backup, "--force"]):
        said = crosslet("index", *command, status=2).err.splitlines()[-1]
        assert f"is in use by the service at {beside} (CROSSLET_DATA): stop the service first" in said, command


def test_bad_and_refused_lines_are_named_by_number(service: httpx.Client, crosslet: Crosslet, tmp_path: Path) -> None:
    rows = ["", {"id": "x", "text": "hallo"}, "{", {"id": "y", "text": "kaputt"}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    error = build(crosslet, path, service.base_url, status=2)
    assert f"crosslet: {path}: line 3: is not valid JSON (skip bad lines with --on-bad-line skip)" in error
    error = build(crosslet, path, service.base_url, "--on-bad-line", "skip", status=2)
    assert any(line.startswith("crosslet: line 4: ") and "no finite vector" in line for line in error)
    assert "1 documents read: 1 new or replaced, 0 unchanged, 1 bad lines skipped, 1 could not be embedded" in error
    assert error[-1].startswith("crosslet: 1 documents were not stored; earlier versions of them stay")


def test_refused_batch_does_not_end_the_load(service: httpx.Client, crosslet: Crosslet, tmp_path: Path) -> None:
    rows = [{"id": f"d{number}", "text": "hallo"} for number in range(BATCH_DOCUMENTS)]
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": f"bad{row['id']}", "text": "kaputt"} for row in rows] + rows)
    error = build(crosslet, path, service.base_url, status=2)
    assert f"{BATCH_DOCUMENTS} documents read: {BATCH_DOCUMENTS} new or replaced" in error[-2]
    assert error[-1].startswith(f"crosslet: {BATCH_DOCUMENTS} documents were not stored; earlier versions of them stay")


@pytest.mark.parametrize("collection", ["default", "shop"])
def test_search_asks_the_service_that_has_the_store(
    service: httpx.Client, beside: str, crosslet: Crosslet, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"id": f"{collection}/found", "text": "guten abend", "metadata": {"price": 1}}
    service.put(f"/collections/{collection}/documents", json={"documents": [document]}).raise_for_status()
    wanted = ["guten abend", "--collection", collection, "--filter", '{"price": 1}', "--sort", "price"]
    alone = crosslet("search", *wanted, "--url", beside)
    with monkeypatch.context() as without_model:  # only the service has it
        without_model.setenv("CROSSLET_MODEL", "/nothing")
        assert crosslet("search", *wanted) == alone
    (line,) = alone.out.splitlines()
    assert {key: value for key, value in json.loads(line).items() if key != "score"} == document
    monkeypatch.setenv("CROSSLET_API_KEYS", "another")
    printed = crosslet("search", *wanted)
    assert printed.out == alone.out
    assert printed.err.startswith(f"crosslet: {beside} answered 401: ")
    assert "without it" in printed.err
    assert "answered 401" in crosslet("search", *wanted, "--url", beside, status=2).err


def test_search_through_a_service_passes_refusals_on(beside: str, crosslet: Crosslet) -> None:
    for options, words in (
        (["--collection", "none"], "there is no collection none"),
        (["--filter", '{"x": {"like": 1}}'], "a field's operators"),
        (["--top-k", "5000"], "CROSSLET_MAX_TOP_K"),
    ):
        assert words in crosslet("search", "hallo", *options, status=2).err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8080", "write it like http://host:8080"),
        ("ftp://localhost", "write it like"),
        ("http://me:secret@localhost", "CROSSLET_API_KEYS"),
        ("http://localhost:x", "write it like"),
        ("http://a..b:80", "write it like"),
        ("http://localhost/\udcff", "write it like"),
    ],
)
def test_what_is_no_address_is_refused(url: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        ServiceClient(url)
    assert "secret" not in str(refusal.value)


def test_wrong_key_and_missing_service_are_one_sentence(
    service: httpx.Client, crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    monkeypatch.setenv("CROSSLET_API_KEYS", "another")
    error = build(crosslet, path, service.base_url, status=2)[-1]
    assert "answered 401: send a known key" in error
    with reserved_port() as port:
        for prefix in ("", "/é", "/a b"):
            assert "cannot be reached" in build(crosslet, path, f"http://127.0.0.1:{port}{prefix}", status=2)[-1]
    assert (
        "--engine ray and --url exclude each other"
        in build(crosslet, path, service.base_url, "--engine", "ray", status=2)[-1]
    )


class FullAtFirst(BaseHTTPRequestHandler):
    """A server that is full once, and closes its connections."""

    requests: list[str] = []  # noqa: RUF012 - of the class: one server

    def do_PUT(self) -> None:
        self.requests.append(self.path)
        body = self.rfile.read(int(self.headers["content-length"]))
        is_full = len(self.requests) == 1
        answer = {"error": "full"} if is_full else {"upserted": 1, "unchanged": 0, "lines": 1, "failed_lines": 0}
        assert json.loads(body)["id"] == "a"
        content = json.dumps(answer).encode()
        self.send_response(429 if is_full else 200)
        self.send_header("retry-after", "1")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Slow(BaseHTTPRequestHandler):
    """Answers with the path, the first time after half a second."""

    protocol_version = "HTTP/1.1"
    is_first = True

    def do_GET(self) -> None:
        if Slow.is_first:
            Slow.is_first = False
            time.sleep(0.5)
        content = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.anyio
async def test_a_cancelled_call_of_an_assistant_spoils_no_other() -> None:
    server = HTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with _routes_at(f"http://127.0.0.1:{server.server_port}", None) as ask:
            with anyio.move_on_after(0.1):  # as the SDK cancels
                await ask("GET", "/first")
            assert await ask("GET", "/second") == (200, {"path": "/second"})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_key_may_have_any_letters() -> None:
    for key in ("schlüssel-1", "ключ-1"):
        client = ServiceClient("http://127.0.0.1:9", key=key)
        client._connection.putrequest("GET", "/")
        client._connection.putheader("authorization", client._key["authorization"])
        assert f"Bearer {key}".encode() in b"".join(client._connection._buffer)


def test_client_waits_for_a_full_service_for_a_while() -> None:
    server = HTTPServer(("127.0.0.1", 0), FullAtFirst)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/prefix/"
    try:
        with pytest.raises(StartError, match="answered 429: full"):
            ServiceClient(url, patience_s=0).put([Document("a", "hallo", {})])
        FullAtFirst.requests.clear()
        started_at = time.monotonic()
        assert ServiceClient(url).put([Document("a", "hallo", {})])["upserted"] == 1
        assert time.monotonic() - started_at >= 1
        assert FullAtFirst.requests == ["/prefix/documents"] * 2
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_real_server_stores_lines_while_the_body_arrives(service: httpx.Client) -> None:
    seen: list[int] = []

    def count() -> int:
        answer = httpx.post(
            service.base_url.join("/documents/count"),
            json={"filter": {"slow": True}},
            headers=service.headers,
            timeout=100,
        )
        return int(answer.json()["count"])

    def arriving() -> Iterator[bytes]:
        for number in range(100):
            yield json.dumps({"id": f"s{number}", "text": "hallo", "metadata": {"slow": True}}).encode() + b"\n"
        deadline = time.monotonic() + 60
        while not seen or (seen[-1] < 64 and time.monotonic() < deadline):
            seen.append(count())
            time.sleep(0.05)
        yield b'{"id": "last", "text": "hallo"}'

    answer = service.put("/documents", content=arriving(), headers={"content-type": "application/x-ndjson"})
    assert answer.json()["upserted"] == 101
    assert seen[-1] == 64
