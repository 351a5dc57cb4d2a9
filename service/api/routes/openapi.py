"""The routes' errors and headers, as OpenAPI describes them."""

from typing import Any

from pydantic import BaseModel

from service.api.schemas.embed import ErrorResponse

Responses = dict[int | str, dict[str, Any]]

DESCRIPTIONS: dict[int | str, str] = {
    400: "The body is not JSON, or the path has a control character.",
    401: "No key, or an unknown one.",
    403: "The key does not reach these documents, or may only read; or a page of another origin asks for a change.",
    404: "No such document or model.",
    408: "The body did not arrive within CROSSLET_BODY_TIMEOUT_S.",
    409: "The collection has documents, or it or the document changed meanwhile.",
    413: "The body is over CROSSLET_MAX_BODY_BYTES, has over 250,000 values, or could never fit in memory.",
    415: "The body is compressed, but not with gzip.",
    421: "No keys are set, and Host is neither an address, localhost nor one of CROSSLET_ALLOWED_HOSTS.",
    422: "A field is invalid, or a text is too long and `truncate` is false.",
    429: "A queue or memory limit is reached; Retry-After says when to try again.",
    500: "The model failed, or there is a bug; the log has the request id.",
    503: "The service is not ready or shutting down, or Milvus does not answer.",
    507: "The disk or the memory for documents is full.",
    "default": "Every other error has this body.",
}
ALWAYS: tuple[int | str, ...] = (500, "default")
BODY_ERRORS = (400, 401, 408, 413, 415, 422, 429)
INFERENCE_ERRORS = (*BODY_ERRORS, 503)
EVERY_ANSWER = {"x-request-id": "The request's id; your own if you sent one."}
ERROR_HEADERS: dict[int | str, dict[str, str]] = {
    401: {"www-authenticate": "Always Bearer."},
    429: {"retry-after": "Seconds to wait before trying again."},
}
COST_HEADERS = {
    "x-tokens": "Tokens the model read, over all texts.",
    "x-truncated": "How many texts were truncated, and the positions of up to 20: `2; indices=0,3`.",
    "x-queue-ms": "Milliseconds until the first text left the queue; 0 if it was not queued.",
    "x-inference-ms": "Milliseconds spent encoding, summed over the distinct texts.",
}
SCORE_HEADERS = {"x-reranker": "What has scored: the re-ranker, where there is one; else the bi-encoder."}


def answers(*statuses: int, error: type[BaseModel] = ErrorResponse, **success: Any) -> Responses:
    """Return a route's `responses` for OpenAPI: 200, these errors and every route's. success: more about the 200."""
    # A model given to FastAPI is compiled anew for every status of every route, at each start; named once, it is known.
    if 401 in statuses:
        statuses = (*statuses, 421)  # where there are no keys, Host is checked instead
    named = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{error.__name__}"}}}}
    refused: Responses = {
        status: {
            "description": DESCRIPTIONS[status],
            "headers": _headers(ERROR_HEADERS.get(status, {})),
            **({"model": error} if status == "default" else named),
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
