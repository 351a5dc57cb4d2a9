"""`crosslet mcp`: tools for assistants on standard input and output. Heavy modules are imported when used."""

import argparse
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from service.api.startup import check_mcp, import_server
from service.cli.arguments import COLLECTION, PATIENCE_S, URL, Subcommand, running_service
from service.cli.serve import MALLOC_ARENAS
from service.cli.start_trial import Use
from service.errors import StartError, StoreInUse
from service.keys import key_for
from service.process.logs import configure_logging
from service.settings import Settings

if TYPE_CHECKING:  # it needs the extra
    from service.api.mcp_tools import Ask


def speak_mcp(options: argparse.Namespace, settings: Settings) -> None:
    """Answer an assistant until it closes standard input.

    A running service that has the documents is asked, otherwise the same routes in this process.

    Raises: StartError: the SDK is missing, or the model or the documents are refused.  InvalidInput: --url is no URL.
    """
    import asyncio

    check_mcp("crosslet mcp")
    configure_logging(settings.log_level)
    # The thread that reads standard input cannot be woken. The store is consistent at any time.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    keys, url = settings.keys(), running_service(settings) if options.url is None else options.url
    key = key_for(options.collection, keys, write=True) or key_for(options.collection, keys, write=False)
    with _routes_here(settings, key) if url is None else _routes_at(url, key) as ask:
        asyncio.run(_answer(ask, options.collection))


async def _answer(ask: "Ask", collection: str) -> None:
    from mcp.server.stdio import stdio_server

    from service.api.mcp_tools import mcp_server

    server = mcp_server(lambda _: ask, collection=collection)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


@contextmanager
def _routes_here(settings: Settings, key: str | None) -> Iterator["Ask"]:
    from service.process.memory import limit_arenas, settle

    limit_arenas(MALLOC_ARENAS)
    import_server()
    from service.api.app import create_app
    from service.api.mcp_tools import InProcess
    from service.runtime import load_runtime

    headers = [(b"host", b"localhost")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode("utf-8", "surrogateescape")))
    try:
        runtime = load_runtime(settings)
    except StoreInUse as exc:
        raise StartError(f"{exc}; or start `crosslet serve`, which any number of `crosslet mcp` share") from exc
    with closing(runtime):
        app = create_app(runtime)
        runtime.start()
        settle()
        yield InProcess(app).as_caller(headers)


@contextmanager
def _routes_at(url: str, key: str | None) -> Iterator["Ask"]:
    import asyncio
    import json
    import threading

    from service.offline.service_client import ServiceClient

    with ServiceClient(url, key=key, patience_s=PATIENCE_S) as client:
        turn = threading.Lock()  # of the one connection: a call that is cancelled has it until it is answered

        def asked(method: str, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
            with turn:
                return client.ask(method, path, content)

        async def ask(method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
            content = b"" if body is None else json.dumps(body).encode()
            try:
                return await asyncio.to_thread(asked, method, path, content)
            except StartError as exc:
                return 503, {"error": str(exc)}

        yield ask


MCP = Subcommand(
    speak_mcp,
    "give assistants tools to search and add documents (MCP, standard input and output)",
    [URL, COLLECTION],
    Use.DOCUMENTS,
)
