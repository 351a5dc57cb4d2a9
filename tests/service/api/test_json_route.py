"""A request with half a surrogate pair, or with bytes that are not UTF-8, is told where."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

HALF = "\ud83d"  # json.dumps writes it as JSON's \ud83d
SENTENCE = " has half a surrogate pair, which is no character: send both halves, or U+FFFD in place of one"
JSON = "application/json"
DOCUMENT = {"id": "a", "text": "hallo"}


@pytest.mark.parametrize("content_type", [JSON, f"{JSON}; charset=utf-8"])  # the fast path, and the framework's
@pytest.mark.parametrize(
    ("route", "body", "place"),
    [
        ("POST /embed", {"inputs": HALF}, "inputs"),
        ("POST /embed", {"inputs": ["a", f"b{HALF}"]}, "inputs[1]"),
        ("POST /embed", {"inputs": "a", "prompt_name": HALF}, "prompt_name"),
        ("POST /", {"inputs": ["a", HALF]}, "inputs[1]"),
        ("POST /", {"inputs": {"pairs": [["a", HALF]]}}, "inputs.pairs[0][1]"),
        ("POST /similarity", {"inputs": {"pairs": [["a", HALF]]}}, "inputs.pairs[0][1]"),
        ("POST /similarity", {"inputs": {"source_sentence": "a", "sentences": [HALF]}}, "inputs.sentences[0]"),
        ("POST /similarity", {"inputs": {"left": ["a"], "right": ["b", HALF]}}, "inputs.right[1]"),
        ("POST /v1/embeddings", {"input": ["a", HALF]}, "input[1]"),
        ("POST /embeddings", {"input": "a", "model": HALF}, "model"),
        ("POST /rerank", {"query": "a", "texts": ["a", HALF]}, "texts[1]"),
        ("POST /v1/rerank", {"query": HALF, "documents": ["a"]}, "query"),
        ("POST /v2/rerank", {"query": "a", "documents": [{"text": HALF}]}, "documents[0].text"),
        ("POST /search", {"query": HALF}, "query"),
        ("POST /search", {"queries": [HALF, "a"]}, "queries[0]"),
        ("POST /search", {"like": HALF}, "like"),
        ("POST /search", {"query": "a", "filter": {"lang": {"in": ["de", HALF]}}}, "filter.lang.in[1]"),
        ("POST /search", {"query": "a", "filter": {HALF: 1}}, "a key of filter"),
        ("POST /search", {"query": "a", "facets": [HALF]}, "facets[0]"),
        ("POST /collections/shop/search", {"query": HALF}, "query"),
        ("PUT /documents", {"documents": [DOCUMENT, DOCUMENT, {"id": "c", "text": HALF}]}, "documents[2].text"),
        ("PUT /documents", {"documents": [{"id": HALF, "text": "a"}]}, "documents[0].id"),
        (
            "PUT /documents",
            {"documents": [DOCUMENT | {"metadata": {"a": {"b": [HALF]}}}]},
            "documents[0].metadata.a.b[0]",
        ),
        ("PUT /documents", {"documents": [DOCUMENT | {"metadata": {HALF: 1}}]}, "a key of documents[0].metadata"),
        ("PUT /collections/shop/documents", {"documents": [{"id": "c", "text": HALF}]}, "documents[0].text"),
        ("PATCH /documents/a", {"metadata": {"a b": HALF}}, 'metadata["a b"]'),
        ("PATCH /collections/shop/documents/a", {"metadata": {"a": {HALF: 1}}}, "a key of metadata.a"),
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
    error = response.json()["error"]
    assert (error if isinstance(error, str) else error["message"]) == place + SENTENCE


def test_a_byte_beyond_utf8_is_named_by_its_place(client: TestClient) -> None:
    content = b'{"inputs": ["a", "T\xfcr"]}'
    response = client.post("/embed", content=content, headers={"content-type": JSON})
    assert (response.status_code, response.json()["error"]) == (400, "inputs[1] is not valid UTF-8")


def test_half_a_pair_in_a_filter_of_a_url_is_named(client: TestClient) -> None:
    response = client.get("/documents", params={"filter": json.dumps({"a": {"ne": HALF}})})
    assert (response.status_code, response.json()["error"]) == (422, f"filter.a.ne{SENTENCE}")


def test_half_a_pair_in_a_line_is_named_and_the_others_are_stored(client: TestClient) -> None:
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
