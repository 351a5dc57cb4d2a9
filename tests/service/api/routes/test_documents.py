"""Documents are put, read, listed, counted and removed; ids, metadata and filters as they are given."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.api.routes.documents import merged
from service.api.schemas.documents import MAX_METADATA_DEPTH, PutDocumentsResponse
from service.documents.document import Document
from tests.artifacts import DIM, TEXTS
from tests.service.api.answers import assert_refused, error_of, found, nested, pages, put
from tests.service.api.test_uploads import HEADERS, body_of
from tests.service.conftest import Serve

LONG = "guitar " * 50
JSON = {"content-type": "application/json"}


def test_a_document_can_be_put_found_read_replaced_and_removed(client: TestClient) -> None:
    document = {"id": "a", "text": TEXTS[1], "metadata": {"lang": "de"}}
    assert put(client, document, {"id": "b", "text": TEXTS[7]}).json() == {"upserted": 2, "revision": 1}
    assert found(client.post("/search", json={"query": TEXTS[1], "top_k": 1})) == ["a"]
    assert client.get("/documents/a").json() == document | {"revision": 1}
    put(client, {"id": "a", "text": TEXTS[7]})
    assert client.get("/documents/a").json()["metadata"] == {}
    assert client.delete("/documents/a").json() == {"deleted": 1}
    assert_refused(client.get("/documents/a"), 404, "NotFound")
    assert_refused(client.delete("/documents/a"), 404, "NotFound")
    assert found(client.post("/search", json={"query": TEXTS[1]})) == ["b"]


def test_documents_the_model_fails_on_are_named(
    serve: Serve, failing_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(model=failing_model)
    before = {"id": "b", "text": TEXTS[0], "metadata": {"version": 1}}
    put(client, before)
    texts = {"a": TEXTS[1], "b": "kaputt secret", "c": LONG, "d": "kaputt"}
    response = put(client, *({"id": id_, "text": text} for id_, text in texts.items()), chunk=False)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["upserted"], answer["revision"]) == (2, 2)
    assert answer["truncated"] == ["c"]
    assert [one["id"] for one in answer["failed"]] == ["b", "d"]
    assert PutDocumentsResponse.model_validate(answer).model_dump(exclude_unset=True) == answer
    assert all(one["error"].startswith("the model gave no finite vector") for one in answer["failed"])
    assert response.headers["x-truncated"] == "1; indices=2"
    assert client.get("/documents/b").json() == before | {"revision": 1}
    assert client.get("/documents").json()["total"] == 3
    assert found(client.post("/search", json={"query": TEXTS[1], "top_k": 1})) == ["a"]
    (line,) = (vars(record) for record in caplog.records if record.getMessage() == "texts failed")
    assert line["failed"] == 2
    assert "secret" not in response.text + str(line)


def test_documents_that_all_fail_are_an_error_and_change_nothing(serve: Serve, failing_model: Path) -> None:
    client = serve(model=failing_model)
    put(client, {"id": "b", "text": TEXTS[0]})
    for ids in ("b", "bc"):
        response = put(client, *({"id": id_, "text": f"kaputt {id_}"} for id_ in ids))
        assert_refused(response, 500, "Backend", "documents[0].text the model gave no finite vector")
    assert put(client, {"id": "d", "text": TEXTS[2]}).json() == {"upserted": 1, "revision": 2}
    assert client.get("/documents/b").json()["text"] == TEXTS[0]


@pytest.mark.parametrize("path", ["%FF", "%ED%A0%80"])
def test_an_id_in_a_url_is_taken_to_the_byte(client: TestClient, path: str) -> None:
    for known in ("a", "\ufffd"):
        put(client, {"id": known, "text": TEXTS[0]})
    for method in ("GET", "DELETE"):
        assert_refused(client.request(method, f"/documents/{path}"), 404, "NotFound")
    assert client.get("/documents").json()["total"] == 2


IDS = ["de/1", "documents/1", "a b%20", "?#", "ключ", "//", "a/b", "a//b/", "ü", "😀", "a b", "...", "?#%", "delete"]
IDS += ["\u202e", "'; DROP TABLE documents"]


@pytest.mark.parametrize("id_", IDS)
def test_whatever_an_id_holds_a_url_can_name_it(client: TestClient, id_: str) -> None:
    for spelled in (quote(id_), "".join(f"%{byte:02X}" for byte in id_.encode())):
        assert put(client, {"id": id_, "text": "hallo"}).status_code == 200
        assert client.get(f"/documents/{spelled}").json()["id"] == id_
        assert client.delete(f"/documents/{spelled}").json() == {"deleted": 1}


@pytest.mark.parametrize(
    "text", ["\x00", "a\x00b", "😀" * 100, "\u202eabc", "\x07\x1b[2J", "مرحبا", "\ufeff", "\ufdd0"]
)
def test_odd_text_is_kept_as_it_is(client: TestClient, text: str) -> None:
    assert put(client, {"id": "a", "text": text, "metadata": {text: text}}).status_code == 200
    assert client.get("/documents/a").json()["text"] == text
    assert found(client.post("/search", json={"query": f"a{text}", "filter": {text: text}})) == ["a"]


def ids_of(listed: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [[document["id"] for document in page["documents"]] for page in listed]


def test_pages_cover_every_document_once(client: TestClient) -> None:
    put(client, *({"id": f"d{n}", "text": "hallo"} for n in range(7)))
    assert ids_of(pages(client, limit=2)) == [["d0", "d1"], ["d2", "d3"], ["d4", "d5"], ["d6"]]
    assert client.get("/documents").json()["total"] == 7


def test_a_page_ends_early_when_its_documents_are_long(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.documents.MAX_PAGE_CHARS", 25)
    put(client, *({"id": f"d{n}", "text": "x" * size} for n, size in enumerate((10, 10, 30, 10))))
    assert ids_of(pages(client)) == [["d0", "d1"], ["d2"], ["d3"]]


def test_pages_of_a_filter_go_on_after_the_cursor(client: TestClient) -> None:
    put(client, *({"id": f"{n:02}", "text": "hallo", "metadata": {"odd": n % 2 == 1}} for n in range(11)))
    listed = list(pages(client, filter='{"odd": true}', limit=2))
    assert ids_of(listed) == [["01", "03"], ["05", "07"], ["09"]]
    assert {page["total"] for page in listed} == {5}
    assert client.post("/documents/count", json={}).json() == {"count": 11}
    assert client.get("/documents", params={"filter": "{}"}).json()["total"] == 11


def test_a_page_beyond_the_limit_is_422(client: TestClient) -> None:
    answer = client.get("/documents", params={"limit": 1001})
    assert_refused(answer, 422, "Validation", "limit is 1001; the limit is 1000 (CROSSLET_MAX_TOP_K)")


def test_a_bad_cursor_is_422(client: TestClient) -> None:
    for cursor in ("x", "-1", "9" * 19, "١"):
        assert_refused(client.get("/documents", params={"cursor": cursor}), 422, "Validation", "cursor")


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([], ["documents is empty"]),
        ([{"id": "", "text": "a"}], ["documents[0].id"]),
        ([{"id": "a", "text": ""}], ["documents[0].text"]),
        ([{"id": "a", "text": "a"}, {"id": "a", "text": "b"}], ["documents[1].id repeats documents[0].id"]),
        (
            [{"id": "a", "text": "a", "colour": 1}],
            ["documents[0]: the field 'colour' is unknown; known are id, text, metadata"],
        ),
        ([{"id": "a" * 513, "text": "a"}], ["documents[0].id"]),
        ([{"id": "drafts/../notes", "text": "a"}], ["documents[0].id", "between slashes is '.' or '..'"]),
        ([{"id": "a\nb", "text": "a"}], ["documents[0].id"]),
        ([{"id": "a\x00", "text": "a"}], ["documents[0].id"]),
        ([{"id": "a", "text": "a", "metadata": nested(400)}], ["nested too deeply"]),
        ([{"id": "a", "text": "a", "metadata": {"k" * 101: [1] * 1000}}], ["101000", "100000"]),
        ([{"id": "a", "text": "a", "metadata": {"k" * 500: {"l": {"m": [1] * 200}}}}], ["101302", "100000"]),
        ([{"id": "a\x9b", "text": "a"}], ["documents[0].id"]),
        ([{"id": "a", "text": "a", "metadata": []}], ["documents[0].metadata"]),
        ([{"id": str(n), "text": "a"} for n in range(513)], ["513", "512", "CROSSLET_MAX_TEXTS"]),
    ],
)
def test_invalid_documents_are_422_and_none_is_kept(
    client: TestClient, documents: list[dict[str, Any]], words: list[str]
) -> None:
    assert_refused(put(client, *documents), 422, "Validation", *words)
    assert client.get("/documents").json()["total"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("PUT", "/documents", {"documents": [{"id": "a", "text": "a", "x\x1b\n": 1}]}, "documents[0]: "),
        ("PUT", "/documents", {"documents": [], "x\x1b\n": 1}, ""),
        ("PATCH", "/documents/a", {"metadata": {}, "x\x1b\n": 1}, ""),
        ("POST", "/documents/delete", {"ids": ["a"], "x\x1b\n": 1}, ""),
        ("POST", "/documents/count", {"x\x1b\n": 1}, ""),
        ("POST", "/similarity", {"inputs": {"pairs": [], "x\x1b\n": 1}}, "inputs: "),
    ],
)
def test_our_own_routes_name_an_unknown_field(
    client: TestClient, method: str, path: str, body: dict[str, Any], place: str
) -> None:
    response = client.request(method, path, json=body)
    assert response.status_code == 422
    assert response.json()["error"].startswith(f"{place}the field 'x\\x1b\\n' is unknown; known are ")


def test_metadata_that_is_taken_can_be_read_on_every_route(client: TestClient) -> None:
    for depth in range(MAX_METADATA_DEPTH + 1, 256):
        response = put(client, {"id": "a", "text": "hallo", "metadata": nested(depth - 1)})  # and its own level
        assert_refused(response, 422, "Validation", str(depth), str(MAX_METADATA_DEPTH))
    metadata = nested(MAX_METADATA_DEPTH - 1)
    assert put(client, {"id": "a", "text": "hallo", "metadata": metadata}).status_code == 200
    assert client.get("/documents/a").json()["metadata"] == metadata
    assert client.get("/documents").json()["documents"][0]["metadata"] == metadata
    assert client.post("/search", json={"query": "a"}).json()["results"][0]["metadata"] == metadata
    assert client.post("/search", json={"queries": ["a"]}).json()["results"][0][0]["metadata"] == metadata


@pytest.mark.parametrize("body", [{}, {"ids": ["a"], "filter": {"a": 1}}, {"filter": {}}])
def test_a_removal_of_nothing_in_particular_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    put(client, {"id": "a", "text": "hallo"})
    assert_refused(client.post("/documents/delete", json=body), 422, "Validation")
    assert client.get("/documents").json()["total"] == 1


def test_integers_that_lose_digits_are_refused(client: TestClient) -> None:
    for number in (str(2**63), str(-(2**63) - 1), str(2**64 - 1), str(2**64), "1" * 300):
        for metadata in ('{"x": %s}', '{"x": [0.5, %s]}', '{"x": {"y": [{"z": %s}]}}'):
            body = f'{{"documents": [{{"id": "a", "text": "a", "metadata": {metadata % number}}}]}}'
            response = client.put("/documents", content=body, headers=JSON)
            assert_refused(response, 422, "Validation", "documents[0].metadata: a whole number is beyond 64 bits")
            assert str(2**63 - 1) in response.json()["error"]
        for filter_ in ('{"x": %s}', '{"x": {"lt": %s}}', '{"not": {"x": {"in": [1, %s]}}}'):
            for path, more in (("/search", '"query": "a", '), ("/documents/delete", "")):
                response = client.post(path, content=f'{{{more}"filter": {filter_ % number}}}', headers=JSON)
                assert_refused(response, 422, "Validation", "filter", "a whole number is beyond 64 bits")


def test_other_numbers_come_back_and_are_found(client: TestClient) -> None:
    numbers = [str(2**63 - 1), str(-(2**63)), str(2**53 + 1), str(2**53), "1e19", "-0.0", "0.1", "1.5e-300", "1e308"]
    documents = (f'{{"id": "{number}", "text": "a", "metadata": {{"x": {number}}}}}' for number in numbers)
    body = f'{{"documents": [{", ".join(documents)}]}}'
    client.put("/documents", content=body, headers=JSON)
    for number in numbers:
        assert repr(client.get(f"/documents/{number}").json()["metadata"]["x"]) == repr(json.loads(number))
        body = f'{{"query": "a", "filter": {{"x": {number}}}}}'
        assert found(client.post("/search", content=body, headers=JSON)) == [number]


def test_filters_find_nested_fields(client: TestClient) -> None:
    put(
        client,
        {"id": "a", "text": "hallo", "metadata": {"source": {"site": "x", "pages": [{"n": 1}, {"n": 2}]}, "no": None}},
        {"id": "b", "text": "hallo", "metadata": {"source": {"site": "x"}, "source.site": "y", "tags": []}},
        {"id": "c", "text": "hallo", "metadata": {"source": {"site": 1}}},
    )
    for filter_, expected in [
        ({"source.site": "x"}, ["a"]),
        ({"source.pages.n": {"gte": 3}}, []),
        ({"source.pages.n": {"ne": 1}}, ["b", "c"]),
        ({"no": {"exists": True}}, ["a"]),
        ({"source.pages": {"exists": False}}, ["b", "c"]),
        ({"source.nothing": None}, ["a", "b", "c"]),
        ({"not": {"source.site": {"in": ["x", "y"]}}}, ["c"]),
    ]:
        assert found(client.post("/search", json={"query": "hallo", "filter": filter_})) == expected, filter_
        listed = client.get("/documents", params={"filter": json.dumps(filter_)}).json()
        assert [one["id"] for one in listed["documents"]] == expected
        assert listed["total"] == len(expected)
        assert client.post("/documents/count", json={"filter": filter_}).json() == {"count": len(expected)}


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        ("", ["filter is not valid JSON"]),
        ("{nope", ["filter is not valid JSON"]),
        ("[1]", ["filter is not a JSON object"]),
        ('{"a": {"like": 1}}', ["in, ne, exists, contains, gt, gte, lt, lte"]),
        ('{"a": {"exists": 1}}', ["'exists' takes true or false"]),
        ('{"a": 18446744073709551616}', ["a whole number is beyond 64 bits"]),
        ('{"a": ["x", "y"]}', ["a string, a number, a boolean or null", '{"in": [..]}']),
        (
            json.dumps({"a": {"in": [1] * 1000}}),
            ["too many operators and values; the limit is 1000", "several requests"],
        ),
        (json.dumps(nested(17)), ["nested deeper than 16 levels"]),
    ],
)
def test_listing_and_count_refuse_the_same_filters_as_search(
    client: TestClient, filter_: str, words: list[str]
) -> None:
    put(client, {"id": "a", "text": "hallo"})
    assert_refused(client.get("/documents", params={"filter": filter_}), 422, "Validation", *words)
    if filter_.startswith('{"'):
        response = client.post("/documents/count", content=f'{{"filter": {filter_}}}', headers=JSON)
        assert_refused(response, 422, "Validation", *words)
    misspelt = client.post("/documents/count", json={"filters": {}})
    assert_refused(misspelt, 422, "Validation", "the field 'filters' is unknown", "did you mean filter?")


def test_listing_and_count_give_up_slow_filters(serve: Serve) -> None:
    client = serve(request_timeout_s=0.001, max_texts=2000)
    collection = client.app.state.runtime.collection  # past the queue of texts, which would give up, too
    vectors_ND = np.eye(1, DIM, dtype=np.float32).repeat(2000, axis=0)
    collection.put([Document(str(n), "hallo", {"x": n}) for n in range(2000)], vectors_ND)
    slow = {"or": [{"x": {"gte": -number}} for number in range(300)]}
    for response in (
        client.get("/documents", params={"filter": json.dumps(slow)}),
        client.post("/documents/count", json={"filter": slow}),
    ):
        assert_refused(response, 422, "Validation", "the filter takes longer than 0.001 s (CROSSLET_REQUEST_TIMEOUT_S)")


def test_a_full_index_is_507_and_says_both_numbers(serve: Serve) -> None:
    client = serve(max_index_bytes=100)
    put(client, {"id": "a", "text": "hallo"})
    assert_refused(put(client, {"id": "b", "text": "hallo"}), 507, "Backend", "144", "100", "CROSSLET_MAX_INDEX_BYTES")
    assert client.get("/documents").json()["total"] == 1


def test_a_damaged_document_is_named_until_it_is_put_again(serve: Serve, tmp_path: Path) -> None:
    client = serve(data=tmp_path / "data")
    put(client, {"id": "a", "text": "hallo"}, {"id": "b", "text": "danke"})
    with closing(sqlite3.connect(tmp_path / "data/documents.sqlite3")) as connection, connection:
        connection.execute("UPDATE documents SET text = 'hello' WHERE id = 'a'")  # as a flipped bit does
    for response in (client.get("/documents/a"), client.post("/search", json={"query": "hallo"})):
        assert_refused(response, 500, "Backend", 'document "a" is damaged on the disk', "put it again or delete it")
        assert "hello" not in response.text
    assert client.get("/documents/b").json()["text"] == "danke"
    put(client, {"id": "a", "text": "hallo"})
    assert found(client.post("/search", json={"query": "hallo"}))[0] == "a"


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


SENTENCES = " ".join(TEXTS * 6)


def put_cut(client: TestClient, path: str = "/documents", *, chunk: bool = False, **texts: str) -> list[str]:
    """The ids of the answer's `truncated`."""
    documents = [{"id": id_, "text": text, "metadata": {"of": id_[0]}} for id_, text in texts.items()]
    answer = client.put(path, json={"documents": documents, "chunk": chunk})
    assert answer.status_code == 200, answer.text
    return list(answer.json().get("truncated", []))


def truncated(client: TestClient, path: str = "/documents", **parameters: str) -> list[str]:
    """All ids that are listed, two a page."""
    listed = list(pages(client, path, truncated="true", limit=2, **parameters))
    ids = [one["id"] for page in listed for one in page["documents"]]
    assert {page["total"] for page in listed} == {len(ids)}
    return ids


def test_cut_documents_are_listed_until_put_whole(client: TestClient) -> None:
    assert truncated(client) == []
    cut = put_cut(client, a1=SENTENCES, a2="kurz", b1=SENTENCES, b2=SENTENCES, b3="kurz", a3=SENTENCES)
    assert cut == ["a1", "b1", "b2", "a3"]
    assert truncated(client) == cut
    assert truncated(client, filter='{"of": "a"}') == ["a1", "a3"]
    assert truncated(client, filter='{"of": "x"}') == []
    assert client.get("/documents").json()["total"] == 6
    assert client.patch("/documents/a1", json={"metadata": {"n": 1}}).status_code == 200
    assert truncated(client) == cut
    assert put_cut(client, chunk=True, a1=SENTENCES) == []
    assert put_cut(client, b1="kurz") == []
    assert put_cut(client, b3=SENTENCES) == ["b3"]
    assert truncated(client) == ["b2", "b3", "a3"]
    assert client.delete("/documents/b2").status_code == 200
    assert truncated(client) == ["b3", "a3"]


def test_cut_lines_are_listed_by_collection(serve: Serve) -> None:
    client = serve(chunk=False)
    assert put_cut(client, a=SENTENCES) == ["a"]
    lines = body_of({"id": "b", "text": "kurz"}, {"id": "c", "text": SENTENCES})
    answer = client.put("/collections/shop/documents", content=lines, headers=HEADERS)
    assert answer.json()["truncated"] == ["c"]
    assert truncated(client) == ["a"]
    assert truncated(client, "/collections/shop/documents") == ["c"]
    assert client.get("/documents", params={"truncated": "perhaps"}).status_code == 422
