"""What every route says about itself in OpenAPI: its errors and its headers. Knows descriptions; does no work."""

from typing import Any

from service.schemas import ErrorResponse

DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "No key, or an unknown one.",
    403: "A read-only key may not change documents.",
    404: "No such document.",
    413: "The body is over CROSSLET_MAX_BODY_BYTES.",
    422: "A field is invalid, or a text is too long and `truncate` is false.",
    429: "The queue is full; Retry-After says when to come back.",
    503: "Not ready, or shutting down.",
    507: "The disk or the index's memory budget is full.",
}
INFERENCE_ERRORS = (400, 401, 413, 422, 429, 503)
COST_HEADERS = {
    "x-request-id": "The request's id: yours if you sent one.",
    "x-tokens": "Tokens read by the model, over all texts.",
    "x-truncated": "How many texts were cut, and their positions when few: `2; indices=0,3`.",
    "x-queue-ms": "Milliseconds until a worker took the first text.",
    "x-inference-ms": "Milliseconds of worker time, summed over the texts.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's entries for these error statuses."""
    return {status: {"model": ErrorResponse, "description": DESCRIPTIONS[status]} for status in statuses}


def inference(*more: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's entries of a route that embeds: its headers and its errors."""
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in COST_HEADERS.items()}
    return {200: {"headers": headers}} | errors(*INFERENCE_ERRORS, *more)
