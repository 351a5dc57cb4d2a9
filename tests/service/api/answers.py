"""Documents to put, and what the tests of routes expect of an answer."""

from collections.abc import Iterator
from typing import Any

import httpx
from fastapi.testclient import TestClient


def put(client: TestClient, *documents: dict[str, Any], path: str = "/documents", **options: Any) -> httpx.Response:
    return client.put(path, json={"documents": list(documents)} | options)


def put_texts(client: TestClient, texts: list[str] | tuple[str, ...]) -> TestClient:
    """Put a document for each text, with its position as its id."""
    assert put(client, *({"id": str(n), "text": text} for n, text in enumerate(texts))).status_code == 200
    return client


def nested(depth: int) -> dict[str, Any]:
    """Metadata, or a filter, of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def search(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    response = client.post("/search", json=body)
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def found(response: httpx.Response) -> list[str]:
    """The ids that a search has found."""
    assert response.status_code == 200, response.text
    return [result["id"] for result in response.json()["results"]]


def pages(client: TestClient, path: str = "/documents", **parameters: object) -> Iterator[dict[str, Any]]:
    """Every page of a list of documents."""
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(path, params={"cursor": cursor, **parameters}).json()
        cursor = page["next_cursor"]
        yield page


COHERES = {"/v1/embed", "/v2/embed", "/v1/rerank", "/v2/rerank"}  # paths where errors have a message, too


def error_of(response: httpx.Response) -> str:
    """The sentence of an error, in our shape or in OpenAI's."""
    error = response.json()["error"]
    return str(error if isinstance(error, str) else error["message"])


def assert_refused(response: httpx.Response, status: int, error_type: str, *words: str) -> None:
    """An error in our shape or Cohere's, whose sentence has these words."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error", "error_type"} | ({"message"} if response.url.path in COHERES else set())
    assert body["error_type"] == error_type
    for word in words:
        assert word in body["error"]
