"""Calls endpoints with JSON bodies that are parsed strictly: through FastAPI, or directly.

FastAPI's routing, dependencies and validation take longer than a short text on a small model. `EndpointCall` calls the
same endpoints with the same arguments. A body that it cannot parse goes to FastAPI, which words every refusal.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine
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


class EndpointCall:
    """An endpoint that is called without FastAPI. It takes the request, dependencies, and at most one body."""

    def __init__(self, endpoint: Callable[..., Awaitable[Response]]) -> None:
        """Raises: TypeError: more than one parameter is a body."""
        self._endpoint = endpoint
        self._make: dict[str, MakeArgument] = {}  # how the argument of a dependency is made
        self._request_names: list[str] = []
        bodies: dict[str, Any] = {}
        for name, parameter in inspect.signature(endpoint).parameters.items():
            marks = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else ()
            make = next((mark.dependency for mark in marks if isinstance(mark, Depends)), None)
            if make is not None:
                self._make[name] = make
            elif parameter.annotation is Request:
                self._request_names.append(name)
            else:
                bodies[name] = parameter.annotation
        if len(bodies) > 1:
            raise TypeError(f"{endpoint.__name__} takes {', '.join(bodies)}; without FastAPI it can take one body")
        self._body_name = next(iter(bodies), "")
        self._validate = TypeAdapter(bodies[self._body_name]).validate_python if bodies else None

    async def answer(self, request: Request, content: bytes = b"") -> Response | None:
        """Return the endpoint's answer, or that of the ServiceError it raises. None: the body is invalid."""
        arguments: dict[str, Any] = dict.fromkeys(self._request_names, request)
        if (validate := self._validate) is not None:
            try:
                # No variable holds the parsed JSON: it may be large.
                arguments[self._body_name] = await parsed(request, content, lambda: validate(loads(content)))
            except (orjson.JSONDecodeError, ValidationError):
                return None
        for name, make in self._make.items():
            arguments[name] = await make(request)
        try:
            return await self._endpoint(**arguments)
        except ServiceError as exc:
            return await on_service_error(request, exc)


endpoint_call = cache(EndpointCall)  # an endpoint may have several paths
