"""Builds answers: JSON, and the body of every error."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from service.errors import HTTP_OF, InvalidInput, MalformedBody, MethodNotAllowed, NotFound, Overloaded, ServiceError

OPENAI_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
COHERES = frozenset({"/v1/embed", "/v2/embed", "/v1/rerank", "/v2/rerank"})
NO_SUCH_ROUTE = "no such route; GET /docs lists them"
WRITTEN_AT_ONCE = 128  # vectors, some milliseconds: other requests are answered between
LONGEST_PLACE = 120  # characters of a field's path in an error message

logger = logging.getLogger(__name__)


def json_response(content: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer. For a large one call `dump_json` off the event loop, then `dumped_response`."""
    return dumped_response(dump_json(content), status=status, headers=headers)


def fields_of(source: object, *names: str) -> dict[str, object]:
    """Return some attributes of an object, by their names, for an answer."""
    return {name: getattr(source, name) for name in names}


def dump_json(content: object) -> bytes:
    """Return JSON; C-contiguous float32 arrays are written as shortest decimals that give the same float32."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


async def dump_in_turns(
    vectors_BD: npt.NDArray[np.float32],
    entries: Callable[[int, npt.NDArray[np.float32]], object] = lambda _, part_BD: part_BD,
) -> list[bytes | memoryview]:
    """Return the entries of a JSON list, separated by commas; together the parts are megabytes.

    entries: makes those of some vectors, given the position of the first.
    """
    parts: list[bytes | memoryview] = []
    for start in range(0, len(vectors_BD), WRITTEN_AT_ONCE):
        if start:
            parts.append(b",")
            await asyncio.sleep(0)
        parts.append(memoryview(dump_json(entries(start, vectors_BD[start : start + WRITTEN_AT_ONCE])))[1:-1])
    return parts


def dumped_response(body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer whose body is already JSON."""
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def error_response(path: str, error: ServiceError) -> Response:
    """Return the answer to an error: status and type from `HTTP_OF`, in the shape of the route's clients."""
    status, error_type = next(HTTP_OF[kind] for kind in type(error).__mro__ if kind in HTTP_OF)
    headers: dict[str, str] = {}
    if isinstance(error, Overloaded):
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = error.allow
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 408:
        headers["connection"] = "close"  # do not wait for the rest of a slow body
    return _error(path, str(error), status, error_type, headers)


def is_openais(path: str) -> bool:
    """Whether clients of a path expect OpenAI's shapes, also where no route has it."""
    return path.startswith("/v1/") or path.removesuffix("/") in {"/v1", "/embeddings"}


def _error(path: str, message: str, status: int, error_type: str, headers: Mapping[str, str]) -> Response:
    body: dict[str, object] = {"error": message, "error_type": error_type}
    if path.removesuffix("/") in COHERES:
        body["message"] = message
    elif is_openais(path):
        kind = "server_error" if status >= 500 else OPENAI_KINDS.get(status, "invalid_request_error")
        body = {"error": {"message": message, "type": kind, "param": None, "code": error_type}}
    return json_response(body, status=status, headers=headers)


async def on_service_error(request: Request, exc: Exception) -> Response:
    """Answer a ServiceError; log its cause if the status is 5xx."""
    assert isinstance(exc, ServiceError)  # noqa: S101 - registered for this class
    response = error_response(request.url.path, exc)
    if exc.__cause__ is not None and response.status_code >= 500:
        logger.error("request failed", exc_info=exc.__cause__, extra={"request_id": request.state.facts.request_id})
    return response


async def on_validation_error(request: Request, exc: Exception) -> Response:
    """Answer an invalid body or parameter with the field and the rule, never the value."""
    assert isinstance(exc, RequestValidationError)  # noqa: S101 - registered for this class
    error = max(exc.errors(), key=lambda one: len(one["loc"]))  # the deepest: the most specific in a union
    if error["type"] == "json_invalid":
        return error_response(request.url.path, MalformedBody(error["ctx"]["error"]))
    place, message = _place(error["loc"]), str(error["msg"]).removeprefix("Value error, ")
    message = message.replace("valid tuple", "valid list")  # of fixed length, which JSON calls a list, too
    if place:
        message = f"{place}: {message}"
    elif error["type"] != "value_error":  # rules over several fields name them in their message
        message = "the body must be a JSON object, sent with content-type: application/json"
    return error_response(request.url.path, InvalidInput(message))


async def on_http_error(request: Request, exc: Exception) -> Response:
    """Answer what FastAPI refuses itself: a static file that is missing or unreadable."""
    assert isinstance(exc, HTTPException)  # noqa: S101 - registered for this class
    if exc.status_code == 404:
        return error_response(request.url.path, NotFound(NO_SUCH_ROUTE))
    return _error(request.url.path, str(exc.detail), exc.status_code, "Validation", exc.headers or {})


def internal_error_response(path: str) -> Response:
    """Return the answer to a bug. Its cause is in the log only."""
    return _error(path, "internal error; look for this answer's x-request-id in the log", 500, "Backend", {})


def _place(location: tuple[int | str, ...]) -> str:
    """Name a field: ('body', 'inputs', 'list[str]', 3) -> inputs[3]. The tags of a union's members are left out."""
    place = ""
    for part in location[1:]:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part.isidentifier() and part not in {"str", "int"}:
            place += f".{part}" if place else part
    return place[:LONGEST_PLACE]
