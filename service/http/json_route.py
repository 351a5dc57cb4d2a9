"""Parses the JSON of request bodies strictly, for every route."""

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
        body = await self.body()
        try:
            return loads(body)
        except orjson.JSONDecodeError as exc:
            encoding = json.detect_encoding(body)
            fault = "not valid JSON" if encoding.startswith("utf-8") else f"in {encoding[:6].upper()}; JSON is UTF-8"
            # Without the text: FastAPI would copy it into its own error.
            raise json.JSONDecodeError(fault, "", 0) from exc


class JsonRoute(APIRoute):
    """A FastAPI route that reads its body as a `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, called with a `JsonRequest`."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle
