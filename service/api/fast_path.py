"""Calls the endpoints of ordinary JSON requests directly; FastAPI handles all others.

FastAPI's routing, dependencies and validation take longer than a short text on a small model. The fast path calls the
same endpoints with the same arguments. A request that it cannot parse is passed on unchanged, so every refusal is
FastAPI's.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import orjson
from fastapi import Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.json_route import parsed
from service.api.responses import on_service_error
from service.api.routing import spellings
from service.errors import ServiceError
from service.json_parsing import loads

JSON = b"application/json"

Make = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True)
class FastRoute:
    """One route: its endpoint, the type of its body, and its dependencies."""

    route: APIRoute
    body_name: str
    body: TypeAdapter[Any]
    given: dict[str, Make]  # parameter -> dependency

    async def answer(self, request: Request, content: bytes) -> Response | None:
        """Return the endpoint's answer, or that of the ServiceError it raises. None: the body is invalid."""
        try:
            # No variable holds the parsed JSON: it may be large.
            body = await parsed(request, content, lambda: self.body.validate_python(loads(content)))
        except (orjson.JSONDecodeError, ValidationError):
            return None
        arguments = {name: await make(request) for name, make in self.given.items()}
        try:
            response: Response = await self.route.endpoint(**{self.body_name: body}, **arguments)
        except ServiceError as exc:
            return await on_service_error(request, exc)
        return response


class FastPath:
    """The innermost middleware. Bodies are complete when they reach it."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[BaseRoute]) -> None:
        """routes: only POST routes whose parameters are one body and dependencies are answered here."""
        self._app = app
        direct = [one for route in routes if (one := _direct(route)) is not None]
        self._direct = {spelling: one for one in direct for spelling in spellings(one.route.path)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on with its body."""
        direct = self._direct.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if direct is None or scope["query_string"] or (b"content-type", JSON) not in scope["headers"]:
            await self._app(scope, receive, send)
            return
        message = await receive()
        response = await direct.answer(Request(scope, receive), message.get("body", b""))
        if response is None:
            await self._app(scope, _first(message, receive), send)
        else:
            await response(scope, receive, send)


def _direct(route: BaseRoute) -> FastRoute | None:
    """Return the fast route, or None if the endpoint needs path or query parameters."""
    if not isinstance(route, APIRoute) or route.methods != {"POST"} or route.param_convertors:
        return None
    parameters = inspect.signature(route.endpoint).parameters
    given = {name: make for name, one in parameters.items() if (make := _maker(one.annotation)) is not None}
    bodies = [name for name in parameters if name not in given]
    if len(bodies) != 1 or route.dependant.query_params:
        return None
    return FastRoute(route, bodies[0], TypeAdapter(parameters[bodies[0]].annotation), given)


def _maker(annotation: object) -> Make | None:
    """Return the dependency that makes a parameter's value, or None if the parameter is the body."""
    if annotation is Request:
        return _itself
    if get_origin(annotation) is not Annotated:
        return None
    return next((one.dependency for one in get_args(annotation) if isinstance(one, Depends)), None)


async def _itself(request: Request) -> Request:
    return request


def _first(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that first replays `message`."""
    replayed = [message]

    async def replay() -> Message:
        return replayed.pop() if replayed else await receive()

    return replay
