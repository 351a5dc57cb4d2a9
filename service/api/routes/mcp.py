"""POST /mcp: the tools for assistants (CROSSLET_MCP), by MCP's streamable HTTP. Imported only where it is on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from service.api.access import is_of_another_origin
from service.api.mcp_tools import Ask, InProcess, mcp_server
from service.api.policy import Access, Policy, Reach
from service.api.request import RequestFacts, runtime_of, while_connected
from service.errors import Forbidden
from service.runtime import Runtime

PASSED_ON = {b"authorization", b"host", b"origin", b"sec-fetch-site"}  # what `AccessCheck` reads

router = APIRouter(include_in_schema=False)


@asynccontextmanager
async def answering(app: FastAPI, runtime: Runtime) -> AsyncIterator[None]:
    """Answer /mcp while the context lasts."""
    routes = InProcess(app)

    def ask_of(context: ServerRequestContext[Any, Request]) -> Ask:
        assert context.request is not None  # noqa: S101 - this transport always has one
        facts: RequestFacts = context.request.state.facts
        headers = [pair for pair in context.request.scope["headers"] if pair[0] in PASSED_ON]
        return routes.as_caller([*headers, (b"x-request-id", facts.request_id.encode())])

    app.state.mcp = StreamableHTTPSessionManager(
        mcp_server(ask_of),
        stateless=True,  # no memory between requests, and several processes can share the clients
        json_response=True,
        max_request_body_size=runtime.settings.max_body_bytes,
    )
    async with app.state.mcp.run():
        yield


@router.post("/mcp")
@Policy(Access.READ, Reach.NOTHING)
async def mcp(request: Request) -> Response:
    """One message of MCP, and its answer. Each tool needs what its route needs."""
    if is_of_another_origin(request.scope, runtime_of(request).settings.origins()):
        raise Forbidden("a page of another origin may not use MCP; allow its origin (CROSSLET_CORS_ORIGINS)")
    return _Exchange(request)


class _Exchange(Response):
    """An answer that the SDK writes."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager: StreamableHTTPSessionManager = self._request.app.state.mcp
        await while_connected(self._request, manager.handle_request(scope, receive, send))
