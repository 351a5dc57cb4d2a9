"""The fast path gives the same answers as FastAPI."""

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from service.api.app import ROUTERS
from service.api.body_limit import LONG_BYTES
from service.api.fast_path import FastPath

PLAIN = {"content-type": "application/json"}
PADDING = " " * LONG_BYTES
OTHERWISE = {"content-type": "application/json; charset=utf-8"}  # the framework's way


def test_posts_with_a_body_alone_go_straight() -> None:
    routes = [route for router in ROUTERS for route in router.routes]
    layer = FastPath(ROUTERS[0], routes=routes)
    documents = {"/search", "/documents/delete", "/documents/count"}
    reranking = {"/rerank", "/v1/rerank", "/v2/rerank"}
    paths = {"/embed", "/similarity", "/embeddings", "/v1/embeddings"} | documents | reranking
    assert set(layer._direct) == {"/"} | paths | {f"{path}/" for path in paths}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", '{"inputs": ["ein Text", "a text"]}'),
        ("/", '{"inputs": {"source_sentence": "a", "sentences": ["b"]}}'),
        ("/similarity", '{"inputs": {"pairs": [["a", "b"]]}}'),
        ("/v1/embeddings", '{"input": "a", "encoding_format": "base64"}'),
        ("/embed", '{"inputs": []}'),
        ("/embed", '{"inputs": "a", "dimensions": 0}'),
        ("/embed", '{"inputs": 3}'),
        ("/embed", '{"inputs": "\\ud800"}'),
        ("/embed", "{"),
        ("/embed", ""),
        ("/embed", "null"),
        ("/v1/embeddings", '{"input": [[1, true]]}'),
        ("/documents/delete", '{"ids": ["a"], "filter": {"x": 1}}'),
    ],
)
def test_both_ways_give_the_same_answer(client: TestClient, path: str, body: str) -> None:
    straight, otherwise = (client.post(path, content=body, headers=headers) for headers in (PLAIN, OTHERWISE))
    assert straight.status_code == otherwise.status_code
    assert straight.content == otherwise.content
    timed = {"x-request-id", "x-queue-ms", "x-inference-ms"}
    assert {k: v for k, v in straight.headers.items() if k not in timed} == {
        k: v for k, v in otherwise.headers.items() if k not in timed
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/embed", '{"inputs": ["ein Text", "a text"]}'),
        ("POST", "/", '{"inputs": {"source_sentence": "a", "sentences": ["b"]}}'),
        ("POST", "/", '{"inputs": {"source_sentence": "a", "sentences": [1]}}'),
        ("POST", "/similarity", '{"inputs": {"pairs": [["a", "b"]]}}'),
        ("POST", "/v1/embeddings", '{"input": [[1, true]]}'),
        ("POST", "/v1/rerank", '{"query": "a", "documents": [{"text": "b"}]}'),
        ("POST", "/rerank", '{"query": "a", "texts": ["b"]}'),
        ("POST", "/rerank", '{"query": "a", "texts": [1]}'),
        ("POST", "/documents/count", '{"filter": {"a": 1}}'),
        ("PUT", "/documents", '{"documents": [{"id": "a", "text": "b", "metadata": {"a": 1}}]}'),
        ("PUT", "/documents", '{"documents": [{"id": "a", "text": "b"}, {"id": "a"}]}'),
        ("PUT", "/documents", '{"documents": [{"id": "a", "text": "b", "metadata": {"a": 12345678901234567890}}]}'),
        ("PUT", "/documents", '{"documents": 1, "more": 2}'),
        ("PUT", "/documents", "null"),
        ("PUT", "/documents", "{"),
        ("PATCH", "/documents/z", '{"metadata": {"a": null}}'),
        ("PATCH", "/documents/z", '{"metadata": []}'),
    ],
)
def test_a_long_body_gives_the_same_answer_as_a_short_one(
    client: TestClient, method: str, path: str, body: str
) -> None:
    for headers in (PLAIN, OTHERWISE):
        short, long = (client.request(method, path, content=one, headers=headers) for one in (body, body + PADDING))
        assert long.status_code == short.status_code
        assert _without_ids(long) == _without_ids(short)


def _without_ids(response: Response) -> object:
    answer = response.json()
    return {**answer, "id": None, "revision": None} if isinstance(answer, dict) else answer


def test_a_search_finds_the_same_both_ways(client: TestClient) -> None:
    client.put("/documents", json={"documents": [{"id": "a", "text": "guitar"}, {"id": "b", "text": "bread"}]})
    body = '{"query": "a guitar", "top_k": 1}'
    found = [client.post("/search", content=body, headers=headers).json()["results"] for headers in (PLAIN, OTHERWISE)]
    assert found[0] == found[1]
    assert found[0][0]["id"] == "a"


def test_the_route_is_counted_by_its_template_both_ways(client: TestClient) -> None:
    for headers in (PLAIN, OTHERWISE):
        client.post("/embed", content='{"inputs": "a"}', headers=headers)
    counted = [line for line in client.get("/metrics").text.splitlines() if 'route="/embed",status="200"' in line]
    assert counted[0].endswith(" 2.0")
