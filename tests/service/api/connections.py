"""A server of the service's connections, and an answer that its client must read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.connection import Connection

MUCH_BYTES = 20_000_000  # more than the system takes from the service


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[tuple[str, int]]:
    """The address of a server of connections."""
    config = uvicorn.Config(app, http=Connection, lifespan="off", timeout_keep_alive=1, log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for connection in list(state.connections):  # one that outlived the loop would warn in a later test
            connection.transport.abort()


async def respond(send: Send, body: bytes, *, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def much(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, bytes(MUCH_BYTES))
