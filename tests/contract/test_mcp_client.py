# ruff: noqa: ASYNC212, ASYNC221 - the service is another process
"""The client of MCP's own SDK against `crosslet mcp` and a live service: its tools answer as the routes do."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from service.api.schemas.search import SearchRequest
from service.version import VERSION
from tests.artifacts import TEXTS
from tests.contract.live import live_service
from tests.service.cli.terminal import COMMAND
from tests.service.conftest import bearer

pytestmark = pytest.mark.anyio

STOP_S = 30
Connect = Callable[..., AbstractAsyncContextManager[Client]]
DOCUMENTS = [
    {"id": "en", "text": TEXTS[0], "metadata": {"lang": "en"}},
    {"id": "de/1", "text": TEXTS[1], "metadata": {"lang": "de"}},
    {"id": "tr", "text": TEXTS[4], "metadata": {"lang": "tr"}},
]


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    data = tmp_path_factory.mktemp("data")
    with live_service(tiny_model, data, mcp=True, api_keys="full", read_api_keys="read") as client:
        client.headers.update(bearer("full"))
        assert client.put("/documents", json={"documents": DOCUMENTS}).status_code == 200
        yield client


@asynccontextmanager
async def over_http(service: httpx.Client, *, key: str = "full", mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(key), trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{service.base_url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(*options: str, mode: str = "auto", **settings: object) -> AsyncIterator[Client]:
    environment = {**os.environ, **{f"CROSSLET_{name.upper()}": str(value) for name, value in settings.items()}}
    command, *arguments = COMMAND
    parameters = StdioServerParameters(command=command, args=[*arguments, "mcp", *options], env=environment)
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@pytest.fixture(params=["http", "http, initialized", "stdio here", "stdio here, initialized", "stdio and a service"])
def connect(request: pytest.FixtureRequest, service: httpx.Client, tiny_model: Path, tmp_path: Path) -> Connect:
    """Both revisions of the protocol: since 2026 there is no handshake."""
    mode = "legacy" if "initialized" in request.param else "auto"
    if request.param.startswith("http"):
        return lambda: over_http(service, mode=mode)
    if "service" in request.param:
        return lambda: over_stdio("--url", str(service.base_url), api_keys="full")
    return lambda: over_stdio(model=tiny_model, data=tmp_path / "data", mode=mode)


def answer_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def refusal_of(result: CallToolResult) -> str:
    assert result.is_error
    (content,) = result.content
    return str(getattr(content, "text", None))


async def test_documents_are_added_found_and_read(connect: Connect, service: httpx.Client) -> None:
    async with connect() as client:
        assert client.server_info.name == "crosslet"
        assert client.server_info.version == VERSION
        added = answer_of(await client.call_tool("add_documents", {"documents": DOCUMENTS}))
        assert (added["upserted"], added["ids"]) == (3, ["en", "de/1", "tr"])
        query = {"query": "Gitarre", "top_k": 2, "filter": {"lang": {"ne": "tr"}}}
        found = answer_of(await client.call_tool("search", query))
        whole = answer_of(await client.call_tool("read_document", {"id": "de/1"}))
        part = answer_of(await client.call_tool("read_document", {"id": "de/1", "start": 4, "max_chars": 4}))
    expected = service.post("/search", json={**query, "include": ["passage", "metadata"]}).json()
    for answer in (found, expected):
        del answer["took_ms"]
    assert found == expected
    assert found["results"][0]["id"] == "de/1"
    assert {"confidence", "answered"} <= found.keys()
    assert (whole["text"], whole["metadata"], whole["chars"]) == (TEXTS[1], {"lang": "de"}, len(TEXTS[1]))
    assert (part["text"], part["start"], part["chars"]) == (TEXTS[1][4:8], 4, len(TEXTS[1]))


async def test_the_tools_say_what_they_take_and_change(connect: Connect) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == {"search", "read_document", "add_documents"}
    read_only = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
    assert read_only == {"search": True, "read_document": True, "add_documents": False}
    taken = tools["search"].input_schema
    assert taken["required"] == ["query"]
    assert taken["properties"].keys() - {"collection"} <= SearchRequest.model_fields.keys()


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("search", {}, "query: Field required"),
        ("search", {"query": " "}, "query: has nothing but white space"),
        ("search", {"query": "a", "limit": 3}, "the field 'limit' is unknown; known are collection, query, top_k"),
        ("search", {"query": "a", "top_k": 10**30}, "the limit is 1000 (CROSSLET_MAX_TOP_K)"),
        ("search", {"query": "a", "filter": {"a": {"like": 1}}}, "filter: a field's operators must be at least one of"),
        ("search", {"query": "a", "filter": {"a": 10**30}}, "filter"),
        ("search", {"query": "a", "collection": "nowhere"}, "nowhere"),
        ("search", {"query": "a", "collection": "../info"}, "a collection's name has 1 to 64 characters"),
        ("read_document", {"id": "nobody"}, "no document has this id"),
        ("read_document", {"id": "en", "start": 900}, f"start is 900; the text has {len(TEXTS[0])} characters"),
        ("read_document", {"id": "en", "max_chars": 0}, "max_chars: Input should be greater than or equal to 1"),
        ("add_documents", {"documents": []}, "documents is empty"),
        ("add_documents", {"documents": [{"text": ""}]}, "documents[0].text"),
        ("add_documents", {"documents": [{"metadata": {}}]}, "documents[0].id: Field required"),
    ],
)
async def test_a_refusal_is_the_sentence_of_the_route(
    service: httpx.Client, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with over_http(service) as client:
        assert words in refusal_of(await client.call_tool(tool, arguments))


async def test_an_unknown_tool_is_an_error_that_names_the_known(service: httpx.Client) -> None:
    async with over_http(service) as client:
        with pytest.raises(MCPError, match="there are search, read_document, add_documents"):
            await client.call_tool("delete_everything", {})


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_read_key_searches_but_adds_nothing(service: httpx.Client, transport: str) -> None:
    here = over_stdio("--url", str(service.base_url), read_api_keys="read")
    async with over_http(service, key="read") if transport == "http" else here as client:
        assert answer_of(await client.call_tool("search", {"query": "Gitarre"}))["results"]
        added = await client.call_tool("add_documents", {"documents": [{"id": "new", "text": TEXTS[2]}]})
        assert "CROSSLET_READ_API_KEYS" in refusal_of(added)
    assert service.get("/documents/new").status_code == 404


async def test_read_keys_alone_bind_the_assistant_of_a_store(tiny_model: Path, tmp_path: Path) -> None:
    async with over_stdio(model=tiny_model, data=tmp_path, read_api_keys="read") as client:
        added = await client.call_tool("add_documents", {"documents": [{"text": TEXTS[2]}]})
        assert "CROSSLET_READ_API_KEYS" in refusal_of(added)


async def test_a_text_without_an_id_is_stored_once(service: httpx.Client) -> None:
    document = {"text": TEXTS[8], "metadata": {"kind": "note"}}
    async with over_http(service) as client:
        twice = [await client.call_tool("add_documents", {"documents": [document]}) for _ in range(2)]
        together = await client.call_tool("add_documents", {"documents": [document, document]})
        (first,), (second,), both = (answer_of(result)["ids"] for result in (*twice, together))
        assert first == second
        assert (both, answer_of(together)["upserted"]) == ([first, first], 1)
        assert answer_of(await client.call_tool("read_document", {"id": first}))["text"] == TEXTS[8]


async def test_a_command_has_a_collection_of_its_own(service: httpx.Client) -> None:
    async with over_stdio("--url", str(service.base_url), "--collection", "notes", api_keys="full") as client:
        answer_of(await client.call_tool("add_documents", {"documents": [{"id": "n", "text": TEXTS[5]}]}))
        assert [result["id"] for result in answer_of(await client.call_tool("search", {"query": "a"}))["results"]] == [
            "n"
        ]
        usual = answer_of(await client.call_tool("read_document", {"id": "en", "collection": "default"}))
        assert answer_of(await client.call_tool("read_document", {"id": "n", "collection": ""}))["id"] == "n"
    assert usual["text"] == TEXTS[0]
    assert service.get("/collections/notes/documents/n").status_code == 200


async def test_assistants_beside_a_service_share_its_documents(tiny_model: Path, tmp_path: Path) -> None:
    with live_service(tiny_model, tmp_path) as service:
        async with over_stdio(data=tmp_path, model="nowhere") as one, over_stdio(data=tmp_path, model="nowhere") as two:
            answer_of(await one.call_tool("add_documents", {"documents": DOCUMENTS}))
            assert answer_of(await two.call_tool("read_document", {"id": "tr"}))["text"] == TEXTS[4]
        assert service.get("/documents/tr").status_code == 200


async def test_a_second_assistant_without_a_service_is_told_the_way_out(tiny_model: Path, tmp_path: Path) -> None:
    settings = {"CROSSLET_MODEL": str(tiny_model), "CROSSLET_DATA": str(tmp_path)}
    async with over_stdio(model=tiny_model, data=tmp_path):
        second = subprocess.run([*COMMAND, "mcp"], env={**os.environ, **settings}, capture_output=True, check=False)
    assert second.returncode == 2
    assert b"is in use by another process" in second.stderr
    assert b"start `crosslet serve`" in second.stderr


@pytest.mark.parametrize("stop", [None, signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_its_input_or_a_signal(
    tiny_model: Path, tmp_path: Path, stop: signal.Signals | None
) -> None:
    settings = {"CROSSLET_MODEL": str(tiny_model), "CROSSLET_DATA": str(tmp_path)}
    with subprocess.Popen(
        [*COMMAND, "mcp"], env={**os.environ, **settings}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert b'"id":1' in process.stdout.readline()
        if stop is None:
            process.stdin.close()
        else:
            process.send_signal(stop)
        assert process.wait(STOP_S) == 0


async def test_the_log_has_no_text_at_any_level(tiny_model: Path, tmp_path: Path) -> None:
    settings = {
        "CROSSLET_MODEL": str(tiny_model),
        "CROSSLET_DATA": str(tmp_path / "data"),
        "CROSSLET_LOG_LEVEL": "DEBUG",
    }
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND[1:], "mcp"], env={**os.environ, **settings}
    )
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            await client.call_tool("add_documents", {"documents": [{"text": "geheimes Wort"}]})
            await client.call_tool("search", {"query": "geheimes", "top_k": "geheimes"})
            await client.call_tool("search", {"query": "geheimes"})
    written = (tmp_path / "log").read_text()
    assert '"route":"/search"' in written
    assert "geheimes" not in written
