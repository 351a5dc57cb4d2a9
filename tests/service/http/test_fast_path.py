"""The fast path gives the same answers as FastAPI."""

import pytest
from fastapi.testclient import TestClient

from service.http.app import ROUTERS
from service.http.fast_path import FastPath

PLAIN = {"content-type": "application/json"}
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
