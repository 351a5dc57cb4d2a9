"""Takes good requests straight to their route; whatever is unusual goes the framework's way. Knows ASGI and routes.

The framework matches, resolves and validates anew for each request, which takes longer than a short text on a small
model. Here the same endpoints get the same arguments: a body that does not fit, or comes in another way than as JSON,
is passed on as it came, so that every refusal is still the framework's.
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

from service.errors import ServiceError
from service.http.responses import on_service_error
from service.http.route_table import spellings
from service.json_parsing import loads

JSON = b"application/json"

Make = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True)
class FastRoute:
    """One route: its endpoint, what its body is, and what else it is given."""

    route: APIRoute
    body_name: str
    body: TypeAdapter[Any]
    given: dict[str, Make]  # by parameter

    async def answer(self, request: Request, content: bytes) -> Response | None:
        """The endpoint's answer, an error's if it raises one of ours; None: the body is no JSON or does not fit."""
        try:
            body = self.body.validate_python(loads(content))  # no name for what it is parsed to: it may be large
        except (orjson.JSONDecodeError, ValidationError):
            return None
        arguments = {name: await make(request) for name, make in self.given.items()}
        try:
            response: Response = await self.route.endpoint(**{self.body_name: body}, **arguments)
        except ServiceError as exc:
            return await on_service_error(request, exc)
        return response


class FastPath:
    """The innermost layer before the framework's way; bodies are whole when they come here."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[BaseRoute]) -> None:
        """routes: those of them that are POST, with a body and else only dependencies, are answered here."""
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
        scope["route"] = direct.route  # what the request is counted as, whatever comes of it
        response = await direct.answer(Request(scope, receive), message.get("body", b""))
        if response is None:
            await self._app(scope, _first(message, receive), send)
        else:
            await response(scope, receive, send)


def _direct(route: BaseRoute) -> FastRoute | None:
    """How to answer a route here; None where it needs more of a request than a body."""
    if not isinstance(route, APIRoute) or route.methods != {"POST"} or route.dependant.path_params:
        return None
    parameters = inspect.signature(route.endpoint).parameters
    given = {name: make for name, one in parameters.items() if (make := _maker(one.annotation)) is not None}
    bodies = [name for name in parameters if name not in given]
    if len(bodies) != 1 or route.dependant.query_params:
        return None
    return FastRoute(route, bodies[0], TypeAdapter(parameters[bodies[0]].annotation), given)


def _maker(annotation: object) -> Make | None:
    """What gives a parameter its value, if that is not the body."""
    if annotation is Request:
        return _itself
    if get_origin(annotation) is not Annotated:
        return None
    return next((one.dependency for one in get_args(annotation) if isinstance(one, Depends)), None)


async def _itself(request: Request) -> Request:
    return request


def _first(message: Message, receive: Receive) -> Receive:
    """Gives a message that was taken back before those to come."""
    waiting = [message]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
