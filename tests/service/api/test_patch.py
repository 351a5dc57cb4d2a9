from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.routes.documents import merged
from tests.service.api.answers import error_of, put
from tests.service.conftest import Serve


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        # A key typed as e and an accent is the é that is there, as in filters.
        ({"\xe9": 1}, {"e\u0301": 2}, {"\xe9": 2}),
        ({"\xe9": 1}, {"e\u0301": None}, {}),
        ({"a": {"e\u0301": 1}}, {"a": {"\xe9": 2}}, {"a": {"e\u0301": 2}}),
        ({"\xe9": 1, "e\u0301": 2}, {"e\u0301": 3}, {"\xe9": 1, "e\u0301": 3}),
        ({}, {"e\u0301": 1, "\xe9": 2}, {"e\u0301": 2}),
    ],
)
def test_a_patch_merges_as_the_rfc_says(before: object, patch: object, after: object) -> None:
    assert merged(before, patch) == after


@pytest.fixture
def filled(client: TestClient) -> TestClient:
    put(client, {"id": "a/1", "text": "hallo", "metadata": {"lang": "de", "n": 1}}, {"id": "b", "text": "hallo welt"})
    return client


def test_patched_metadata_reach_filters_facets_and_revisions(filled: TestClient) -> None:
    before = filled.post("/search", json={"query": "hallo", "include": ["vector"]}).json()["results"]
    answer = filled.patch("/documents/a/1", json={"metadata": {"n": None, "source": {"site": "x"}}})
    assert answer.json() == {"revision": 2}
    assert "x-tokens" not in answer.headers
    metadata = {"lang": "de", "source": {"site": "x"}}
    assert filled.get("/documents/a/1").json() == {"id": "a/1", "text": "hallo", "metadata": metadata, "revision": 2}
    found = filled.post("/search", json={"query": "hallo", "filter": {"source.site": "x"}, "facets": ["n"]}).json()
    assert [result["id"] for result in found["results"]] == ["a/1"]
    assert found["facets"] == {"n": {}}
    assert filled.post("/search", json={"query": "hallo", "include": ["vector"]}).json()["results"] == before
    assert filled.post("/search", json={"query": "welt", "mode": "keywords"}).json()["results"][0]["id"] == "b"
    assert filled.get("/documents/b").json()["revision"] == 1


@pytest.mark.parametrize(
    ("id_", "body", "status", "word"),
    [
        ("nobody", {"metadata": {}}, 404, "no document has this id"),
        ("b", {}, 422, "metadata"),
        ("b", {"metadata": None}, 422, "metadata"),
        ("b", {"metadata": {}, "text": "x"}, 422, "the field 'text' is unknown"),
        ("b", {"metadata": {"n": 2**63}}, 422, "64 bits"),
    ],
)
def test_what_cannot_be_changed_is_refused(filled: TestClient, id_: str, body: Any, status: int, word: str) -> None:
    answer = filled.patch(f"/documents/{id_}", json=body)
    assert answer.status_code == status
    assert word in error_of(answer)
    assert filled.get("/documents/b").json()["revision"] == 1


def test_many_patches_do_not_pass_the_limit_of_one_body(serve: Serve) -> None:
    client = serve(max_body_bytes=200)
    put(client, {"id": "a", "text": "hallo"})
    statuses = [client.patch("/documents/a", json={"metadata": {f"k{n}": "x" * 50}}) for n in range(5)]
    assert [answer.status_code for answer in statuses] == [200, 200, 200, 422, 422]
    assert "the limit is 200 (CROSSLET_MAX_BODY_BYTES)" in statuses[-1].json()["error"]
    assert len(client.get("/documents/a").json()["metadata"]) == 3
