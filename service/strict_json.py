"""Parses request bodies strictly, for every route. Knows JSON; knows no schema."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute

from service.json_parsing import loads


class JsonRequest(Request):
    """A request whose JSON is parsed strictly: no NaN, no lone surrogates, bounded depth."""

    async def json(self) -> Any:
        """The parsed body.

        Raises: json.JSONDecodeError: it is not JSON.
        """
        try:
            return loads(await self.body())
        except orjson.JSONDecodeError as exc:
            # Without the text: the framework would carry it along in its own error.
            raise json.JSONDecodeError("invalid JSON", "", 0) from exc


class JsonRoute(APIRoute):
    """A route that reads its body as a `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler, given a stricter request."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle
