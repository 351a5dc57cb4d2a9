"""The tools that assistants call by MCP (Model Context Protocol): search, read and add documents.

Each tool calls the service's own routes, which check its caller's key and every limit. Needs the extra `mcp`.
"""

import asyncio
import hashlib
import inspect
import json
import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Protocol
from urllib.parse import quote, unquote

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError, WithJsonSchema
from starlette.types import ASGIApp, Message

from service.api.responses import dump_json
from service.api.schemas.documents import FILTER_EXAMPLES
from service.api.schemas.embed import Listed, Number, Strict, Whole, described, first_fault
from service.documents.names import DEFAULT_NAME, check_name
from service.errors import InvalidInput
from service.json_parsing import loads
from service.version import VERSION

INSTRUCTIONS = (
    "Documents in many languages. A query finds documents in any of them: search in the user's own words, read what "
    "was found, and name the ids that an answer rests on."
)
READ_CHARS = 20_000  # some 5,000 tokens of an assistant's window
ID_DIGITS = 32  # of a text's SHA-256

Headers = list[tuple[bytes, bytes]]


class Ask(Protocol):
    """Calls a route of the service."""

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of the answer. path: quoted, as in a URL."""


class ToolCall(Strict):
    """The arguments of a tool; its docstring is what assistants read."""

    collection: str = described("Named set of documents; empty: the usual one.", "manuals", default="")

    @property
    def prefix(self) -> str:
        """The path of the collection. Raises: InvalidInput: none has such a name."""
        if self.collection in {"", DEFAULT_NAME}:
            return ""
        check_name(self.collection)
        return f"/collections/{self.collection}"

    @abstractmethod
    async def call(self, ask: Ask) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer of the route. Raises: InvalidInput: an argument is refused before."""


class SearchCall(ToolCall):
    """Find documents that answer a question, by meaning in any language and by words.

    Returns each document's id, score, metadata and best passage. `confidence` is the probability that the first result
    answers; null: it cannot be told. Where `answered` is false, say that nothing was found.
    """

    query: str = described("What to look for, in any language.", "Wo ist der Bahnhof?")
    top_k: Whole = described("How many documents to return.", 5, default=5, ge=1)
    filter: dict[str, Any] = described(
        "Conditions on the metadata: a value, or an object with in, ne, gt, gte, lt, lte, contains or exists; and, or, "
        "not.",
        *FILTER_EXAMPLES,
        default_factory=dict,
    )
    min_confidence: Number = described("Return nothing if `confidence` is lower.", 0.8, default=0.0, ge=0, le=1)

    async def call(self, ask: Ask) -> tuple[int, dict[str, Any]]:
        """Ask POST /search."""
        given = self.model_dump(exclude={"collection"}, exclude_unset=True)
        body = {"top_k": self.top_k, "include": ["passage", "metadata"]} | given
        return await ask("POST", f"{self.prefix}/search", body)


class ReadDocumentCall(ToolCall):
    """Read a document's text and metadata by its id, a long one in parts.

    `text` begins at `start`; the whole text has `chars` characters.
    """

    id: str = described("The document's id.", "de/1", min_length=1)
    start: Whole = described("Where to begin, in characters.", READ_CHARS, default=0, ge=0)
    max_chars: Whole = described("Most characters to return.", default=READ_CHARS, ge=1)

    async def call(self, ask: Ask) -> tuple[int, dict[str, Any]]:
        """Ask GET /documents/{id}."""
        status, answer = await ask("GET", f"{self.prefix}/documents/{quote(self.id, safe='')}")
        if status == 200:
            text = answer["text"]
            if self.start and self.start >= len(text):
                raise InvalidInput(f"start is {self.start}; the text has {len(text)} characters")
            part = text[self.start : self.start + self.max_chars]
            answer |= {"text": part, "start": self.start, "chars": len(text)}
        return status, answer


DOCUMENT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Its name; left out: a hash of the text."},
        "text": {"type": "string", "description": "What is embedded and found."},
        "metadata": {"type": "object", "description": "Any JSON object; filters can use it."},
    },
    "additionalProperties": True,  # of collections that take documents with their own fields
}


class AddDocumentsCall(ToolCall):
    """Store documents, so that later searches find them. A document with an id that is there is replaced.

    Returns how many were stored, and their ids.
    """

    documents: Listed[Annotated[dict[str, Any], WithJsonSchema(DOCUMENT_SCHEMA)]] = described(
        "Documents with a text each.", [{"text": "Ein Mann spielt Gitarre.", "metadata": {"lang": "de"}}]
    )

    async def call(self, ask: Ask) -> tuple[int, dict[str, Any]]:
        """Ask PUT /documents."""
        documents = [
            {"id": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS]} | document
            if isinstance(text := document.get("text"), str)
            else document
            for document in self.documents
        ]
        # The route takes an id once; the same text may come twice.
        distinct = [*{json.dumps(document): document for document in documents}.values()]
        status, answer = await ask("PUT", f"{self.prefix}/documents", {"documents": distinct})
        return status, answer | {"ids": [document["id"] for document in documents]} if status == 200 else answer


CALLS: dict[str, tuple[type[ToolCall], ToolAnnotations]] = {
    "search": (SearchCall, ToolAnnotations(read_only_hint=True, open_world_hint=False)),
    "read_document": (ReadDocumentCall, ToolAnnotations(read_only_hint=True, open_world_hint=False)),
    "add_documents": (
        AddDocumentsCall,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False),
    ),
}


def mcp_server(
    ask_of: Callable[[ServerRequestContext[Any, Any]], Ask], *, collection: str = DEFAULT_NAME
) -> Server[Any]:
    """Return a server of the tools, for any transport.

    Args:   ask_of: how the caller of a tool reaches the routes.  collection: of calls that name none.
    """
    # At DEBUG the SDK logs messages, which hold user text; at INFO a line for each request, as `RequestLog` does.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    tools = [
        Tool(
            name=name,
            description=inspect.getdoc(arguments),
            input_schema=arguments.model_json_schema(),
            annotations=annotations,
        )
        for name, (arguments, annotations) in CALLS.items()
    ]

    async def list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        if params.name not in CALLS:
            raise MCPError(INVALID_PARAMS, f"there is no such tool; there are {', '.join(CALLS)}")
        try:
            given = params.arguments or {}
            usual = {"collection": collection} if given.get("collection", "") == "" else {}
            call = CALLS[params.name][0].model_validate(given | usual)
            status, answer = await call.call(ask_of(context))
        except ValidationError as exc:
            return _refused(first_fault(exc))
        except InvalidInput as exc:
            return _refused(str(exc))
        if status != 200:
            return _refused(str(answer["error"]))
        return CallToolResult(content=[TextContent(text=dump_json(answer).decode())], structured_content=answer)

    return Server(
        "crosslet",
        version=VERSION,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class InProcess:
    """Calls routes of an application in this process, through all its middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._answering: set[asyncio.Task[None]] = set()  # the loop keeps no task alive

    def as_caller(self, headers: Headers) -> Ask:
        """Return calls with these headers: a key, a host, an origin."""

        async def ask(method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
            # Python's own writer: the route words the refusal of what orjson would not write.
            return await self._answer(method, path, b"" if body is None else json.dumps(body).encode(), headers)

        return ask

    async def _answer(self, method: str, path: str, body: bytes, headers: Headers) -> tuple[int, dict[str, Any]]:
        messages: list[Message] = [{"type": "http.request", "body": body}]
        has_left = asyncio.Event()
        status, parts = 0, []

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await has_left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [*headers, (b"content-type", b"application/json")],
            "client": None,
            "server": None,
        }
        answering = asyncio.ensure_future(self._app(scope, receive, send))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            await asyncio.shield(answering)
        finally:
            has_left.set()  # cancelled: the route learns it as from any client that leaves
        return status, loads(b"".join(parts))


def _refused(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=sentence)], is_error=True)
