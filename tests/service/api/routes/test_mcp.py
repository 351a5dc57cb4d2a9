"""POST /mcp as any client of HTTP sees it; tests/contract/test_mcp_client.py has the SDK's own client."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.types import Receive, Scope, Send

from service.api.mcp_tools import InProcess
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused, put_texts
from tests.service.conftest import Serve, bearer
from tests.skeleton.project import ROOT

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SEARCH = {"name": "search", "arguments": {"query": "Gitarre"}}


def send(client: TestClient, method: str, params: Any = None, **headers: str) -> httpx.Response:
    """Send a message of 2025's revision, which needs no handshake where the server keeps no state."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/mcp", json=body, headers=ACCEPT | given)


@pytest.fixture(scope="module")
def assisted(serve_module: Serve) -> TestClient:
    return put_texts(serve_module(mcp=True), TEXTS)


def test_a_message_is_answered_in_json(assisted: TestClient) -> None:
    response = send(assisted, "tools/call", SEARCH)
    assert response.headers["content-type"] == "application/json"
    result = response.json()["result"]
    expected = assisted.post("/search", json={"query": "Gitarre", "top_k": 5, "include": ["passage", "metadata"]})
    assert result["structuredContent"]["results"] == expected.json()["results"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (rb'"query": "\ud800"', "query has half a surrogate pair"),
        (b'"query": "a", "filter": {"a": NaN}', "the body is not valid JSON"),
        (b'"query": "a", "filter": {"a": %b}' % (b"[" * 900 + b"]" * 900), "nested deeper than 16 levels"),
    ],
)
def test_what_is_no_strict_json_is_refused(assisted: TestClient, argument: bytes, words: str) -> None:
    revision = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "search"}
    meta = b"""{"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}"""
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": %b, "name": "search", %b}}'
    content = message % (meta, b'"arguments": {%b}' % argument)
    result = assisted.post("/mcp", content=content, headers=ACCEPT | revision).json()["result"]
    assert result["isError"]
    assert words in result["content"][0]["text"]


def test_the_calls_of_a_tool_have_the_id_of_its_request(assisted: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "service.api.request_log")
    send(assisted, "tools/call", SEARCH, x_request_id="assistant-7")
    lines = [(getattr(record, "route", ""), getattr(record, "request_id", "")) for record in caplog.records]
    assert sorted(lines) == [("/mcp", "assistant-7"), ("/search", "assistant-7")]


def test_without_the_setting_there_is_no_route(client: TestClient) -> None:
    assert_refused(send(client, "ping"), 404, "NotFound", "no such route")


def test_other_methods_are_refused(assisted: TestClient) -> None:
    for method in ("GET", "DELETE"):
        assert assisted.request(method, "/mcp").status_code == 405


def test_a_message_needs_a_key_and_a_write_the_full_one(serve: Serve) -> None:
    client = serve(mcp=True, api_keys="full", read_api_keys="read")
    assert_refused(send(client, "tools/list"), 401, "Unauthorized", "CROSSLET_API_KEYS")
    add = {"name": "add_documents", "arguments": {"documents": [{"id": "1", "text": TEXTS[0]}]}}
    refused = send(client, "tools/call", add, **bearer("read")).json()["result"]
    assert refused["isError"]
    assert "CROSSLET_READ_API_KEYS" in refused["content"][0]["text"]
    assert client.get("/documents/1", headers=bearer("full")).status_code == 404
    assert send(client, "tools/call", add, **bearer("full")).json()["result"]["structuredContent"]["upserted"] == 1


def test_a_page_of_another_origin_is_refused_unless_allowed(assisted: TestClient, serve: Serve) -> None:
    foreign = {"origin": "https://evil.example", "sec_fetch_site": "cross-site"}
    assert_refused(send(assisted, "tools/call", SEARCH, **foreign), 403, "Unauthorized", "CROSSLET_CORS_ORIGINS")
    allowing = serve(mcp=True, cors_origins="https://evil.example")
    assert send(allowing, "tools/list", **foreign).status_code == 200


def test_a_name_of_a_foreign_page_is_misdirected(assisted: TestClient) -> None:
    assert send(assisted, "tools/list", host="evil.example").status_code == 421


def test_limits_hold_within_a_tool(serve: Serve) -> None:
    client = serve(mcp=True, max_texts=1, max_body_bytes=5000)
    documents = [{"id": str(number), "text": TEXTS[number]} for number in range(2)]
    add = {"name": "add_documents", "arguments": {"documents": documents}}
    refused = send(client, "tools/call", add).json()["result"]
    assert "the limit is 1 (CROSSLET_MAX_TEXTS)" in refused["content"][0]["text"]
    assert send(client, "tools/call", {"name": "search", "arguments": {"query": "a" * 5000}}).status_code == 413


@pytest.mark.anyio
async def test_a_cancelled_call_is_a_client_that_leaves() -> None:
    received: list[str] = []

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        received.extend([(await receive())["type"], (await receive())["type"]])

    calling = asyncio.ensure_future(InProcess(app).as_caller([])("GET", "/documents/1"))
    await asyncio.sleep(0.01)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.sleep(0.01)
    assert received == ["http.request", "http.disconnect"]


@pytest.mark.parametrize("is_on", [False, True])
def test_the_sdk_is_imported_only_where_it_is_on(tiny_model: Path, tmp_path: Path, is_on: bool) -> None:
    code = """
import sys
from service.api.app import create_app
from service.runtime import load_runtime
from service.settings import Settings
runtime = load_runtime(Settings())
create_app(runtime)
runtime.close()
print(*sys.modules)
"""
    settings = {"MODEL": tiny_model, "DATA": tmp_path, "MCP": is_on}
    environment = os.environ | {f"CROSSLET_{name}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    for name in ("mcp", "mcp_types", "sse_starlette", "httpx2", "service.api.mcp_tools", "service.api.routes.mcp"):
        assert (name in loaded) == is_on, name
