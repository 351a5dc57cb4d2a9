import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from hypothesis import given
from hypothesis import strategies as st

from service.api.uploads import Line, LineSplitter
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

HEADERS = {"content-type": "application/x-ndjson"}
LONG = "guitar " * 50


def upload(client: TestClient, *documents: object, **headers: str) -> Response:
    return client.put("/documents", content=body_of(*documents), headers=HEADERS | headers)


def body_of(*documents: object) -> bytes:
    lines = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in documents)
    return b"".join(line + b"\n" for line in lines)


def many(count: int) -> list[dict[str, Any]]:
    return [{"id": f"d{n}", "text": TEXTS[n % len(TEXTS)], "metadata": {"n": n}} for n in range(count)]


def page(client: TestClient) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = client.get("/documents", params={"limit": 1000}).json()["documents"]
    return [{key: one[key] for key in ("id", "text", "metadata")} for one in documents]


def test_lines_are_stored_like_a_list_and_only_changes_embedded(serve: Serve) -> None:
    client, other = serve(), serve()
    answer = upload(client, *many(150))
    assert answer.json() == {"upserted": 150, "revision": 3, "lines": 150, "unchanged": 0, "failed_lines": 0}
    other.put("/documents", json={"documents": many(150)})
    assert page(client) == page(other)
    wanted = {"query": "hallo", "include": ["vector"], "top_k": 150}
    assert client.post("/search", json=wanted).json()["results"] == other.post("/search", json=wanted).json()["results"]
    again = upload(client, *many(149), {**many(150)[-1], "metadata": {"n": True}}, {"id": "new", "text": "hallo"})
    counts = {"upserted": 2, "revision": 4, "lines": 151, "unchanged": 149, "failed_lines": 0}
    assert again.json() == counts
    assert int(again.headers["x-tokens"]) < int(answer.headers["x-tokens"])
    unchanged = upload(client, {"id": "new", "text": "hallo"}).json()
    assert unchanged == {"upserted": 0, "revision": None, "lines": 1, "unchanged": 1, "failed_lines": 0}


def test_bad_line_is_named_and_the_others_are_stored(client: TestClient) -> None:
    bad = [b"{", b"[]", b'{"id": "x"}', b'{"id": "x", "text": ""}', b'{"id": "x", "text": "a", "lang": 1}', b"\xff"]
    answer = upload(client, {"id": "a", "text": "hallo"}, *bad, b"", b"  \r", {"id": "b", "text": "hallo"}).json()
    assert (answer["upserted"], answer["lines"], answer["failed_lines"]) == (2, 8, 6)
    assert [one["line"] for one in answer["errors"]] == [2, 3, 4, 5, 6, 7]
    assert [one["error"] for one in answer["errors"]][:2] == ["not valid JSON", "not a JSON object"]
    assert [one["error"].partition(":")[0] for one in answer["errors"]][2:4] == ["text", "text"]
    assert "did you mean" not in answer["errors"][4]["error"]
    assert "the field 'lang' is unknown" in answer["errors"][4]["error"]
    assert [one["id"] for one in page(client)] == ["a", "b"]


def test_errors_are_listed_up_to_the_limit_and_all_counted(serve: Serve) -> None:
    client = serve(max_line_errors=2, chunk=False)
    cut = [{"id": f"long{n}", "text": LONG} for n in range(3)]
    answer = upload(client, *cut, *[b"{"] * 3)
    assert [one["line"] for one in answer.json()["errors"]] == [4, 5]
    assert answer.json()["failed_lines"] == 3
    assert answer.json()["truncated"] == ["long0", "long1"]
    assert answer.headers["x-truncated"] == "3"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no line"),
        (b"\n \n", "no line"),
        (b"{\n[]", "no line could be stored, of 2; line 1: not valid JSON"),
        pytest.param(b"[" * 250_001, "line 1: the line has more than 250000 lists, objects and strings", id="values"),
    ],
)
def test_a_body_without_a_document_is_refused(client: TestClient, content: bytes, words: str) -> None:
    answer = client.put("/documents", content=content, headers=HEADERS)
    assert_refused(answer, 422, "Validation", words)


@pytest.mark.parametrize("bad", [b"{}", b"", b" \t", b"[" * 100, b"x" * 1001, b'{"id": "a", "text": ""}'])
def test_an_upload_ends_behind_too_many_bad_lines_in_a_row(serve: Serve, bad: bytes) -> None:
    client = serve(max_bad_lines=30, max_body_bytes=1000)
    assert upload(client, *many(3), *[bad] * 29, {"id": "x", "text": "hallo"}, *[bad] * 29).status_code == 200
    answer = upload(client, *many(5), *[bad] * 100, {"id": "y", "text": "hallo"})
    assert answer.status_code == 422
    said = answer.json()["error"]
    assert said.startswith(
        "30 lines in a row are no documents, up to line 35; the limit is 30 (CROSSLET_MAX_BAD_LINES)"
    )
    assert said.endswith("; the lines before 6 are done, send the others again")
    assert "line 35: " in said or not bad.strip()
    assert {one["id"] for one in page(client)} == {"d0", "d1", "d2", "d3", "d4", "x"}


def test_upload_of_bad_lines_alone_ends_at_the_limit(serve: Serve) -> None:
    answer = upload(serve(max_bad_lines=50), *[b"{}"] * 100_000)
    assert_refused(
        answer,
        422,
        "Validation",
        "50 lines in a row are no documents, up to line 50;",
        "line 50: id: Field required; the lines before 1 are done",
    )


def test_documents_between_bad_lines_keep_an_upload_going(serve: Serve) -> None:
    client = serve(max_bad_lines=10)
    answer = upload(client, *[line for one in many(70) for line in [*[b"{"] * 9, one]]).json()
    assert (answer["upserted"], answer["lines"], answer["failed_lines"]) == (70, 700, 630)


def test_documents_that_cannot_be_stored_are_bad_lines_too(serve: Serve) -> None:
    client = serve(max_bad_lines=100, max_passages=1, max_texts=10)
    answer = upload(client, {"id": "a", "text": "hallo"}, *[{"id": f"l{n}", "text": LONG} for n in range(300)])
    assert_refused(answer, 422, "Validation", "lines in a row are no documents", "(CROSSLET_MAX_PASSAGES)")
    assert [one["id"] for one in page(client)] == ["a"]


def test_an_upload_compressed_too_much_is_413_with_the_ratio(client: TestClient) -> None:
    headers = HEADERS | {"content-encoding": "gzip"}
    answer = client.put("/documents", content=gzip.compress(b"{}\n" * 1_100_000), headers=headers)
    assert_refused(answer, 413, "TooLarge", "more than 1000000 bytes and 100 times as many; compress it less")


def test_upload_batches_count_bytes_of_metadata_too(client: TestClient) -> None:
    heavy = [{"id": f"d{n}", "text": "hallo", "metadata": {"m": "a" * 300_000}} for n in range(4)]
    answer = upload(client, *heavy).json()
    assert (answer["upserted"], answer["revision"]) == (4, 4)  # a transaction each


def test_upload_to_a_malformed_collection_name_is_refused(client: TestClient) -> None:
    answer = client.put("/collections/-a/documents", content=body_of(*many(3)), headers=HEADERS)
    assert answer.status_code == 422
    assert "no line could be stored" not in answer.json()["error"]


def test_of_two_lines_with_one_id_the_later_stays(client: TestClient) -> None:
    answer = upload(client, {"id": "a", "text": "hallo"}, {"id": "a", "text": "guten morgen"}).json()
    assert answer["upserted"] == 2
    assert client.get("/documents/a").json()["text"] == "guten morgen"


def test_upload_may_exceed_the_body_limit_but_no_line_may(serve: Serve) -> None:
    client = serve(max_body_bytes=1000, max_text_chars=500)
    documents = many(100)
    assert len(body_of(*documents)) > 5000
    too_long = {"id": "line", "text": "x", "metadata": {"y": "y" * 1000}}
    answer = upload(client, *documents, too_long, {"id": "text", "text": "x" * 501}).json()
    assert answer["upserted"] == 100
    assert [one["line"] for one in answer["errors"]] == [101, 102]
    assert "1000 bytes (CROSSLET_MAX_BODY_BYTES)" in answer["errors"][0]["error"]
    assert "501 characters; the limit is 500 (CROSSLET_MAX_TEXT_CHARS)" in answer["errors"][1]["error"]
    assert client.put("/documents", json={"documents": documents}).status_code == 413


@pytest.mark.parametrize(
    "media_type", ["application/x-ndjson; charset=utf-8", "application/jsonl", "APPLICATION/NDJSON"]
)
def test_a_compressed_body_is_read_as_a_plain_one(client: TestClient, media_type: str) -> None:
    headers = {"content-type": media_type, "content-encoding": "gzip"}
    answer = client.put("/documents", content=gzip.compress(body_of(*many(70))), headers=headers)
    assert answer.json()["upserted"] == 70


def test_lines_before_a_broken_upload_are_stored_and_said(client: TestClient) -> None:
    whole = gzip.compress(body_of(*many(130)))
    headers = HEADERS | {"content-encoding": "gzip"}
    answer = client.put("/documents", content=whole[:-4], headers=headers)
    assert_refused(answer, 400, "Validation", "the body ends inside a gzip stream; the lines before 129 are done")
    assert page(client) == many(128)
    bomb = gzip.compress(b" " * 20_000_000)
    assert client.put("/documents", content=bomb, headers=headers).status_code == 413


def test_line_that_the_model_fails_on_is_named(serve: Serve, failing_model: Path) -> None:
    client = serve(model=failing_model)
    answer = upload(client, {"id": "a", "text": "hallo"}, {"id": "b", "text": "kaputt"}).json()
    assert (answer["upserted"], [one["line"] for one in answer["errors"]]) == (1, [2])
    alone = upload(client, {"id": "b", "text": "kaputt"})
    assert_refused(alone, 422, "Validation", "line 1: text the model gave no finite vector")


def test_an_upload_ends_where_the_service_shuts_down(client: TestClient) -> None:
    runtime = client.app.state.runtime  # type: ignore[attr-defined]
    runtime.lifecycle.is_draining = True
    answer = upload(client, *many(3))
    assert_refused(answer, 503, "NotReady", "shutting down; the lines before 1 are done")


@given(
    parts=st.lists(st.binary(max_size=4) | st.sampled_from([b"\n", b"ab\ncd", b" \r\n"])), max_bytes=st.integers(1, 6)
)
def test_lines_are_those_of_the_whole_body_however_it_arrives(parts: list[bytes], max_bytes: int) -> None:
    splitter = LineSplitter(max_bytes=max_bytes)
    found = [line for part in parts for line in splitter.add(part)] + [*splitter.end()]
    whole = b"".join(parts).split(b"\n")
    whole = whole[: len(whole) - (not whole[-1])]  # no line begins behind the last line end
    expected = [None if len(content) > max_bytes else content if content.strip() else b"" for content in whole]
    assert found == [Line(number, content) for number, content in enumerate(expected, 1)]


def test_a_part_is_split_no_further_than_its_lines_are_taken() -> None:
    lines = LineSplitter(max_bytes=10).add(b"a\n" * 1_000_000)
    assert next(lines) == Line(1, b"a")
    assert next(lines) == Line(2, b"a")
