"""Calls endpoints with JSON bodies that are parsed strictly: through FastAPI, or directly.

FastAPI's routing, dependencies and validation take longer than a short text on a small model. `EndpointCall` calls the
same endpoints with the same arguments. A body that it cannot parse goes to FastAPI, which words every refusal.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from service.api.request import runtime_of
from service.api.responses import on_service_error
from service.errors import ServiceError
from service.json_parsing import loads, not_unicode
from service.runtime import LONG_BYTES

T = TypeVar("T")
MakeArgument = Callable[[Request], Awaitable[Any]]


async def parsed(request: Request, body: bytes, parse: Callable[[], T]) -> T:
    """Call `parse`, which parses a request's body: of a long one on the thread that prepares requests."""
    return parse() if len(body) <= LONG_BYTES else await runtime_of(request).preparation.call(parse)


class JsonRequest(Request):
    """A request whose JSON is parsed strictly: no NaN, no lone surrogates, bounded depth.

    errors: of a long body, which is validated where it is parsed; FastAPI validates on the event loop.
    """

    def __init__(self, request: Request, route: APIRoute) -> None:
        super().__init__(request.scope, request.receive)
        self._route = route
        self.errors: list[dict[str, Any]] = []

    async def json(self) -> Any:
        """Return the parsed body; of a long one the validated value, or None if it is invalid.

        Raises: json.JSONDecodeError: it is not JSON.
        """
        body = await self.body()
        try:
            return await parsed(self, body, lambda: self._parsed(body))
        except orjson.JSONDecodeError as exc:
            encoding = json.detect_encoding(body)
            if encoding.startswith("utf-8"):
                fault = await parsed(self, body, lambda: not_unicode(body)) or "the body is not valid JSON"
            else:
                fault = f"the body is in {encoding[:6].upper()}; JSON is UTF-8"
            # Without the text: FastAPI would copy it into its own error.
            raise json.JSONDecodeError(fault, "", 0) from exc

    def _parsed(self, body: bytes) -> Any:
        field = self._route.body_field
        if len(body) <= LONG_BYTES or field is None:
            return loads(body)
        value, self.errors = field.validate(loads(body), loc=("body",))
        return value


class JsonRoute(APIRoute):
    """A FastAPI route that reads its body as a `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, called with a `JsonRequest`."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            json_request = JsonRequest(request, self)
            try:
                return await handler(json_request)
            except RequestValidationError as exc:
                if json_request.errors:
                    raise RequestValidationError(json_request.errors) from exc
                raise

        return handle


@dataclass(frozen=True)
class EndpointCall:
    """An endpoint that is called without FastAPI.

    body_type: of its body; None: it takes none, or reads it from the request.
    make: how each other argument is made, by its name.
    """

    endpoint: Callable[..., Awaitable[Response]]
    body_name: str
    body_type: TypeAdapter[Any] | None
    make: dict[str, MakeArgument]

    async def answer(self, request: Request, content: bytes = b"") -> Response | None:
        """Return the endpoint's answer, or that of the ServiceError it raises. None: the body is invalid."""
        arguments: dict[str, Any] = {}
        if self.body_type is not None:
            validate = self.body_type.validate_python
            try:
                # No variable holds the parsed JSON: it may be large.
                arguments[self.body_name] = await parsed(request, content, lambda: validate(loads(content)))
            except (orjson.JSONDecodeError, ValidationError):
                return None
        for name, make in self.make.items():
            arguments[name] = await make(request)
        try:
            return await self.endpoint(**arguments)
        except ServiceError as exc:
            return await on_service_error(request, exc)


@cache  # an endpoint may have several paths
def endpoint_call(endpoint: Callable[..., Awaitable[Response]]) -> EndpointCall:
    """Return how to call an endpoint, by its signature.

    Raises: TypeError: more than one parameter is neither the request nor a dependency.
    """
    parameters = inspect.signature(endpoint).parameters
    make = {name: made for name, parameter in parameters.items() if (made := _maker(parameter.annotation)) is not None}
    bodies = [name for name in parameters if name not in make]
    if len(bodies) > 1:
        raise TypeError(f"{endpoint.__name__} takes {', '.join(bodies)}; without FastAPI it can take one body")
    name = bodies[0] if bodies else ""
    return EndpointCall(endpoint, name, TypeAdapter(parameters[name].annotation) if name else None, make)


def _maker(annotation: object) -> MakeArgument | None:
    """Return what makes a parameter's value of a request, or None if the parameter is the body."""
    if annotation is Request:
        return _itself
    if get_origin(annotation) is not Annotated:
        return None
    return next((mark.dependency for mark in get_args(annotation) if isinstance(mark, Depends)), None)


async def _itself(request: Request) -> Request:
    return request
