"""What middleware and routes read of a request: a header, the runtime, whether the client is still there."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.types import Message, Scope

from service.errors import ClientGone
from service.runtime import Runtime

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
WATCH_AFTER_S = 0.1  # watch for a disconnect only after this time: for a shorter answer it costs as much as it saves

T = TypeVar("T")


def header(scope: Scope | Message, name: bytes) -> str:
    """Return the first header of a lower-case name, or an empty string.

    Reads ASGI's raw list: building a `Headers` object takes longer than one look-up.
    """
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_ndjson(scope: Scope) -> bool:
    """Whether the body has one JSON document per line."""
    return header(scope, b"content-type").partition(";")[0].strip().lower() in NDJSON


def runtime_of(request: Request) -> Runtime:
    """Return the runtime of the request's application."""
    runtime: Runtime = request.app.state.runtime
    return runtime


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread on every request.
async def _runtime(request: Request) -> Runtime:
    name = request.path_params.get("collection")
    return runtime_of(request) if name is None else runtime_of(request).for_collection(name)


RuntimeDependency = Annotated[Runtime, Depends(_runtime)]


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it if the client disconnects.

    Raises: ClientGone: the client disconnected.
    """
    working = asyncio.current_task()
    assert working is not None  # noqa: S101 - a coroutine runs in a task
    has_left = False
    leaving: asyncio.Task[None] | None = None

    async def leave() -> None:
        nonlocal has_left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_left = True
        working.cancel()

    def watch() -> None:
        nonlocal leaving
        leaving = asyncio.ensure_future(leave())

    timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, watch)
    try:
        return await work
    except asyncio.CancelledError as exc:
        if has_left and not working.uncancel():  # otherwise the server is shutting down as well
            raise ClientGone("the client disconnected before its answer was ready") from exc
        raise
    finally:
        timer.cancel()
        if leaving is not None:
            leaving.cancel()
