"""JSON bodies: called directly or through FastAPI, the answer is the same; broken Unicode is named by its place."""

import json
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Route

from service.api.app import ROUTERS
from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy
from service.api.routing import Resource, RouteTable
from service.api.schemas.embed import EmbedRequest
from service.runtime import LONG_BYTES
from tests.service.api.answers import assert_refused, error_of

HALF = "\ud83d"  # json.dumps writes it as JSON's \ud83d
SENTENCE = " has half a surrogate pair, which is no character: send both halves, or U+FFFD in place of one"
JSON = "application/json"
DOCUMENT = {"id": "a", "text": "hallo"}


@pytest.mark.parametrize("content_type", [JSON, f"{JSON}; charset=utf-8"])  # the fast path, and the framework's
@pytest.mark.parametrize(
    ("route", "body", "place"),
    [
        ("POST /embed", {"inputs": ["a", f"b{HALF}"]}, "inputs[1]"),
        ("POST /embed", {"inputs": "a", "prompt_name": HALF}, "prompt_name"),
        ("POST /", {"inputs": {"pairs": [["a", HALF]]}}, "inputs.pairs[0][1]"),
        ("POST /similarity", {"inputs": {"left": ["a"], "right": ["b", HALF]}}, "inputs.right[1]"),
        ("POST /v1/embeddings", {"input": ["a", HALF]}, "input[1]"),
        ("POST /embeddings", {"input": "a", "model": HALF}, "model"),
        ("POST /rerank", {"query": "a", "texts": ["a", HALF]}, "texts[1]"),
        ("POST /v2/rerank", {"query": "a", "documents": [{"text": HALF}]}, "documents[0].text"),
        ("POST /search", {"query": "a", "filter": {"lang": {"in": ["de", HALF]}}}, "filter.lang.in[1]"),
        ("POST /search", {"query": "a", "filter": {HALF: 1}}, "a key of filter"),
        ("POST /collections/shop/search", {"query": HALF}, "query"),
        ("PUT /documents", {"documents": [DOCUMENT, {"id": HALF, "text": "a"}]}, "documents[1].id"),
        ("PUT /documents", {"documents": [DOCUMENT | {"metadata": {HALF: 1}}]}, "a key of documents[0].metadata"),
        ("PUT /collections/shop/documents", {"documents": [{"id": "c", "text": HALF}]}, "documents[0].text"),
        ("PATCH /documents/a", {"metadata": {"a b": HALF}}, 'metadata["a b"]'),
        ("POST /documents/delete", {"ids": ["a", HALF]}, "ids[1]"),
        ("POST /documents/count", {"filter": {"and": [{"a": HALF}]}}, "filter.and[0].a"),
        ("POST /embed", {HALF: 1}, "a key"),
    ],
)
def test_half_a_surrogate_pair_is_named_by_its_place(
    client: TestClient, route: str, body: dict[str, Any], place: str, content_type: str
) -> None:
    method, path = route.split()
    response = client.request(method, path, content=json.dumps(body), headers={"content-type": content_type})
    assert response.status_code == 400
    assert error_of(response) == place + SENTENCE


def test_a_byte_beyond_utf8_is_named_by_its_place(client: TestClient) -> None:
    content = b'{"inputs": ["a", "T\xfcr"]}'
    response = client.post("/embed", content=content, headers={"content-type": JSON})
    assert (response.status_code, response.json()["error"]) == (400, "inputs[1] is not valid UTF-8")


def test_half_a_pair_in_a_filter_of_a_url_is_named(client: TestClient) -> None:
    response = client.get("/documents", params={"filter": json.dumps({"a": {"ne": HALF}})})
    assert (response.status_code, response.json()["error"]) == (422, f"filter.a.ne{SENTENCE}")


def test_half_a_pair_in_a_line_is_named(client: TestClient) -> None:
    lines = [DOCUMENT, {"id": "b", "text": f"x{HALF}"}, {"id": "c", "text": "c", "metadata": {"k": {HALF: 1}}}]
    content = "\n".join(map(json.dumps, lines)).encode() + b'\n{"id": "d", "text": "T\xfcr"}'
    response = client.put("/documents", content=content, headers={"content-type": "application/x-ndjson"})
    assert response.json()["upserted"] == 1
    assert response.json()["errors"] == [
        {"line": 2, "error": f"text{SENTENCE}"},
        {"line": 3, "error": f"a key of metadata.k{SENTENCE}"},
        {"line": 4, "error": "text is not valid UTF-8"},
    ]


@pytest.mark.parametrize("name", ["%ED%A0%BD", "%FF", "a%ED%A0%BD"])
def test_a_collections_name_that_is_no_unicode_is_refused(client: TestClient, name: str) -> None:
    for method, path in (("PUT", "documents"), ("POST", "search")):
        body = {"documents": [DOCUMENT]} if method == "PUT" else {"query": "a"}
        response = client.request(method, f"/collections/{name}/{path}", json=body)
        assert (response.status_code, "name has 1 to" in response.json()["error"]) == (422, True)


def test_whole_pairs_are_characters_however_they_are_written(client: TestClient) -> None:
    for content in (b'{"inputs": "\\ud83d\\ude00"}', '{"inputs": "😀"}'.encode()):
        assert client.post("/embed", content=content, headers={"content-type": JSON}).status_code == 200


PLAIN = {"content-type": JSON}
PADDING = " " * LONG_BYTES
OTHERWISE = {"content-type": f"{JSON}; charset=utf-8"}  # the framework's way


def test_every_post_with_a_body_is_fast() -> None:
    resources = [Resource(route) for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    fast = {resource.route.path for resource in resources if resource.fast is not None}
    assert fast == {resource.route.path for resource in resources if resource.methods == {"POST"}} - {"/backup"}


def test_a_fast_endpoint_with_two_bodies_stops_the_start() -> None:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/new")
    @Policy(Access.READ)
    async def new(left: EmbedRequest, right: EmbedRequest) -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match="new takes left, right"):
        RouteTable([route for route in router.routes if isinstance(route, Route)])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/embed", '{"inputs": ["ein Text", "a text"]}'),
        ("POST", "/embed", '{"inputs": []}'),
        ("POST", "/embed", '{"inputs": "a", "dimensions": 0}'),
        ("POST", "/embed", '{"inputs": 3}'),
        ("POST", "/embed", '{"inputs": "\\ud800"}'),
        ("POST", "/embed", "{"),
        ("POST", "/embed", "null"),
        ("POST", "/", '{"inputs": {"source_sentence": "a", "sentences": ["b"]}}'),
        ("POST", "/", '{"inputs": {"source_sentence": "a", "sentences": [1]}}'),
        ("POST", "/similarity", '{"inputs": {"pairs": [["a", "b"]]}}'),
        ("POST", "/v1/embeddings", '{"input": "a", "encoding_format": "base64"}'),
        ("POST", "/v1/embeddings", '{"input": [[1, true]]}'),
        ("POST", "/v1/rerank", '{"query": "a", "documents": [{"text": "b"}]}'),
        ("POST", "/rerank", '{"query": "a", "texts": ["b"]}'),
        ("POST", "/rerank", '{"query": "a", "texts": [1]}'),
        ("POST", "/documents/count", '{"filter": {"a": 1}}'),
        ("POST", "/documents/delete", '{"ids": ["a"], "filter": {"x": 1}}'),
        ("POST", "/collections/shop/documents/count", "{}"),
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
def test_both_ways_and_both_lengths_give_the_same_answer(client: TestClient, method: str, path: str, body: str) -> None:
    def answer(content: str, headers: dict[str, str]) -> object:
        response = client.request(method, path, content=content, headers=headers)
        kept = {k: v for k, v in response.headers.items() if k not in {"x-request-id", "x-queue-ms", "x-inference-ms"}}
        json_ = response.json()
        own = {"id": None, "revision": None} if isinstance(json_, dict) else {}
        return response.status_code, {**json_, **own} if own else json_, kept

    first, *others = [answer(body + padding, way) for padding in ("", PADDING) for way in (PLAIN, OTHERWISE)]
    assert all(other == first for other in others)


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


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"",
        b'{"inputs": NaN}',
        b'{"inputs": "\\ud800"}',
        b'{"inputs": "\xff"}',
        b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_body_that_is_not_json_is_a_client_error(client: TestClient, content: bytes) -> None:
    response = client.post("/embed", content=content, headers=PLAIN)
    assert_refused(response, 400 if content else 422, "Validation")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("headers", [PLAIN, {"content-type": "application/json; charset=utf-16"}])
def test_a_body_in_another_encoding_than_utf8_is_told_so(
    client: TestClient, encoding: str, headers: dict[str, str]
) -> None:
    response = client.post("/embed", content='{"inputs": "a"}'.encode(encoding), headers=headers)
    assert_refused(response, 400, "Validation", f"the body is in {encoding[:6].upper()}; JSON is UTF-8")


@pytest.mark.parametrize("path", ["/embed", "/embed?a=b"])  # past the framework, and through it
def test_a_byte_order_mark_before_json_is_ignored(client: TestClient, path: str) -> None:
    answer = client.post(path, content=b'\xef\xbb\xbf{"inputs": "hallo"}', headers=PLAIN)
    assert answer.status_code == 200
    assert answer.json() == client.post("/embed", json={"inputs": "hallo"}).json()


def test_a_long_number_changes_nothing_else_of_what_json_is(client: TestClient) -> None:
    """Bodies with long digits are read by another parser: it must refuse what the first one refuses."""
    faults = dict.fromkeys(("NaN", "[1,]", "1e400", "[" * 2000 + "]" * 2000), "not valid JSON")
    for bad, fault in (faults | {'"\\ud800"': "y has half a surrogate pair"}).items():
        response = client.post("/embed", content=f'{{"inputs": "a", "x": {"1" * 30}, "y": {bad}}}', headers=PLAIN)
        assert_refused(response, 400, "Validation", fault)
    deep = f'{{"inputs": "a", "x": {"[" * 1000}{"1" * 30}{"]" * 1000}}}'  # Python's parser may give up before
    assert client.post("/embed", content=deep, headers=PLAIN).status_code in {200, 400}
    content = f'{{"inputs": "{"1" * 30}\\u00e9", "x": 1, "x": {"1" * 30}}}'
    response = client.post("/embed", content=content, headers=PLAIN)
    assert response.json() == client.post("/embed", json={"inputs": "1" * 30 + "é"}).json()
