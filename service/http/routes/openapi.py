"""What every route says about itself in OpenAPI: its errors and its headers. Knows descriptions; does no work."""

from typing import Any

from pydantic import BaseModel

from service.schemas.embed import ErrorResponse

Responses = dict[int | str, dict[str, Any]]

DESCRIPTIONS: dict[int | str, str] = {
    400: "The body is not JSON.",
    401: "No key, or an unknown one.",
    403: "A read-only key may not change documents.",
    404: "No such document or model.",
    408: "The body did not arrive within CROSSLET_BODY_TIMEOUT_S.",
    413: "The body is over CROSSLET_MAX_BODY_BYTES, has over 250,000 values, or would never fit the memory.",
    415: "The body is compressed in another way than gzip.",
    422: "A field is invalid, or a text is too long and `truncate` is false.",
    429: "There is no room or no time for it now; Retry-After says when to come back.",
    500: "A bug, or the model raised; the log has the request id.",
    503: "Not ready, or shutting down, or what keeps the documents does not answer.",
    507: "The disk or the index's memory budget is full.",
    "default": "Any other error has this body, too.",
}
ALWAYS: tuple[int | str, ...] = (500, "default")
BODY_ERRORS = (400, 401, 408, 413, 415, 422, 429)
INFERENCE_ERRORS = (*BODY_ERRORS, 503)
EVERY_ANSWER = {"x-request-id": "The request's id: yours if you sent one."}
ERROR_HEADERS: dict[int | str, dict[str, str]] = {
    401: {"www-authenticate": "Always Bearer."},
    429: {"retry-after": "Seconds until it is worth trying again."},
}
COST_HEADERS = {
    "x-tokens": "Tokens read by the model, over all texts.",
    "x-truncated": "How many texts were cut, and their positions when few: `2; indices=0,3`.",
    "x-queue-ms": "Milliseconds until the first text was taken; 0 where the event loop encodes it.",
    "x-inference-ms": "Milliseconds spent encoding, summed over the distinct texts.",
}
SCORE_HEADERS = {"x-reranker": "What has scored: the re-ranker, or the bi-encoder in its place."}


def answers(*statuses: int, error: type[BaseModel] = ErrorResponse, **success: Any) -> Responses:
    """OpenAPI's entries of a route: its headers, these errors and those of every route. success: more about its 200."""
    refused: Responses = {
        status: {
            "model": error,
            "description": DESCRIPTIONS[status],
            "headers": _headers(ERROR_HEADERS.get(status, {})),
        }
        for status in (*sorted(statuses), *ALWAYS)
    }
    return {200: {"headers": _headers({})} | success} | refused


def inference(
    *more: int, error: type[BaseModel] = ErrorResponse, example: object = None, scores: bool = False
) -> Responses:
    """OpenAPI's entries of a route that embeds. example: of its answer, where the answer's schema has none.

    scores: whether it scores pairs, too.
    """
    success: dict[str, Any] = {"headers": _headers(COST_HEADERS | (SCORE_HEADERS if scores else {}))}
    if example is not None:
        success["content"] = {"application/json": {"example": example}}
    return answers(*INFERENCE_ERRORS, *more, error=error, **success)


def _headers(descriptions: dict[str, str]) -> dict[str, Any]:
    every = EVERY_ANSWER | descriptions
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in every.items()}
