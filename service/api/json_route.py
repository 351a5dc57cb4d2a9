"""Parses the JSON of request bodies strictly, for every route; that of long ones off the event loop."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from service.api.body_limit import LONG_BYTES
from service.api.request import runtime_of
from service.json_parsing import loads, not_unicode

T = TypeVar("T")


async def parsed(request: Request, body: bytes, parse: Callable[[], T]) -> T:
    """Call `parse`, which parses a request's body: of a long one on the thread that prepares requests."""
    return parse() if len(body) <= LONG_BYTES else await runtime_of(request).preparation.call(parse)


class JsonRequest(Request):
    """A request whose JSON is parsed strictly: no NaN, no lone surrogates, bounded depth.

    errors: of a long body, which is validated with the parsing; FastAPI validates on the event loop.
    """

    def __init__(self, request: Request, route: APIRoute) -> None:
        super().__init__(request.scope, request.receive)
        self._route = route
        self.errors: list[dict[str, Any]] = []

    async def json(self) -> Any:
        """The parsed body; of a long one what the route takes, None if it is invalid.

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
