"""`crosslet mcp`: tools for assistants on standard input and output. Heavy modules are imported when used."""

import argparse
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from service.api.startup import check_mcp, import_server
from service.cli.arguments import COLLECTION, Subcommand, argument
from service.cli.serve import MALLOC_ARENAS
from service.cli.start_trial import Use
from service.documents.milvus.address import EMBEDDED
from service.documents.store.locking import service_url
from service.errors import StartError, StoreInUse
from service.keys import key_for
from service.process.logs import configure_logging
from service.settings import Settings

if TYPE_CHECKING:  # it needs the extra
    from service.api.mcp_tools import Ask

PATIENCE_S = 5.0  # with a service that is full or starts again


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
    url = options.url
    if url is None and settings.index == EMBEDDED:
        url = service_url(settings.documents_path)
    with ExitStack() as opened:
        routes = (
            _routes_here(settings, options.collection) if url is None else _routes_at(url, settings, options.collection)
        )
        asyncio.run(_answer(opened.enter_context(routes), options.collection))


async def _answer(ask: "Ask", collection: str) -> None:
    from mcp.server.stdio import stdio_server

    from service.api.mcp_tools import mcp_server

    server = mcp_server(lambda _: ask, collection=collection)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _key(settings: Settings, collection: str) -> str | None:
    """Return the key that may write the collection, else one that may read it."""
    keys = settings.keys()
    return key_for(collection, keys, write=True) or key_for(collection, keys, write=False)


@contextmanager
def _routes_here(settings: Settings, collection: str) -> Iterator["Ask"]:
    from service.process.memory import limit_arenas, settle

    limit_arenas(MALLOC_ARENAS)
    import_server()
    from service.api.app import create_app
    from service.api.mcp_tools import InProcess
    from service.runtime import load_runtime

    key = _key(settings, collection)
    headers = [(b"host", b"localhost")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
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
def _routes_at(url: str, settings: Settings, collection: str) -> Iterator["Ask"]:
    import asyncio
    import json

    from service.offline.service_client import ServiceClient

    with ServiceClient(url, key=_key(settings, collection), patience_s=PATIENCE_S) as client:
        turn = asyncio.Lock()  # one connection

        async def ask(method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
            content = b"" if body is None else json.dumps(body).encode()
            try:
                async with turn:
                    return await asyncio.to_thread(client.ask, method, path, content)
            except StartError as exc:
                return 503, {"error": str(exc)}

        yield ask


MCP = Subcommand(
    speak_mcp,
    "give assistants tools to search and add documents (MCP, standard input and output)",
    [
        argument(
            "--url",
            metavar="URL",
            help="service to ask, with a key of CROSSLET_API_KEYS (default: the one that has the documents, if any)",
        ),
        COLLECTION,
    ],
    Use.DOCUMENTS,
)
