import base64
import json
import logging
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from service.api.schemas.documents import (
    MAX_METADATA_DEPTH,
    DeleteDocumentsRequest,
    PutDocumentsRequest,
    PutDocumentsResponse,
)
from service.api.schemas.embed import EmbedRequest, SimilarityRequest
from service.api.schemas.openai import OpenAIEmbeddingsRequest
from service.api.schemas.search import SearchRequest
from service.documents.document import Document
from service.model.encoder import load_encoder
from tests.artifacts import DIM, MAX_LENGTH, TEXTS, write_manifest
from tests.service.conftest import Serve

LONG = "guitar " * 50
FIELDS = ("inputs", "input", "query", "queries", "top_k", "filter", "documents", "ids", "dimensions")
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def put(client: TestClient, *documents: dict[str, Any]) -> httpx.Response:
    return client.put("/documents", json={"documents": list(documents)})


def found(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [result["id"] for result in response.json()["results"]]


def assert_refused(response: httpx.Response, status: int, error_type: str, *words: str) -> None:
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error", "error_type"}
    assert body["error_type"] == error_type
    for word in words:
        assert word in body["error"]


# --- /embed


def test_embed_gives_the_encoders_vectors_in_order(client: TestClient, tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    response = client.post("/embed", json={"inputs": list(TEXTS)})
    expected = np.stack([encoder.encode(text).vector for text in TEXTS])
    assert np.array_equal(np.asarray(response.json(), np.float32), expected)  # to the bit, through JSON


def test_one_string_still_gives_a_nested_list(client: TestClient) -> None:
    assert np.shape(client.post("/embed", json={"inputs": "hallo"}).json()) == (1, DIM)


def test_too_many_dimensions_are_refused_before_computing(client: TestClient) -> None:
    def texts_computed() -> str:
        lines = client.get("/metrics").text.splitlines()
        return next(line for line in lines if line.startswith("crosslet_inference_duration_seconds_count"))

    before = texts_computed()
    for path, key in (("/embed", "inputs"), ("/v1/embeddings", "input")):
        response = client.post(path, json={key: "a text that no other test sends", "dimensions": DIM + 1})
        assert response.status_code == 422
    assert texts_computed() == before


def test_fewer_dimensions_are_the_first_ones_scaled_to_norm_1(client: TestClient) -> None:
    whole = np.asarray(client.post("/embed", json={"inputs": "hallo"}).json()[0])
    cut = client.post("/embed", json={"inputs": "hallo", "dimensions": 5}).json()[0]
    np.testing.assert_allclose(cut, whole[:5] / np.linalg.norm(whole[:5]), rtol=1e-5)


def test_the_cost_is_in_the_headers(client: TestClient) -> None:
    response = client.post("/embed", json={"inputs": ["hallo", LONG]}, headers={"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    assert response.headers["x-truncated"] == "1; indices=1"
    assert int(response.headers["x-tokens"]) > MAX_LENGTH
    assert float(response.headers["x-queue-ms"]) >= 0
    assert float(response.headers["x-inference-ms"]) > 0


def test_a_text_too_long_to_tokenise_is_refused(serve: Serve) -> None:
    client = serve(max_text_chars=100, token_ids=True)
    assert client.post("/embed", json={"inputs": "é" * 100}).status_code == 200
    response = client.post("/embed", json={"inputs": ["a", "é" * 101]})
    assert_refused(response, 422, "Tokenizer", "inputs[1] has 101 characters", "100 (CROSSLET_MAX_TEXT_CHARS)")
    response = client.post("/v1/embeddings", json={"input": [[5] * 100, [5] * 101]})
    message = response.json()["error"]["message"]
    assert (response.status_code, message) == (
        422,
        "input[1] has 101 token ids; the limit is 100 (CROSSLET_MAX_TEXT_CHARS)",
    )
    assert_refused(put(client, {"id": "a", "text": "a" * 101}), 422, "Tokenizer", "documents[0]")


def test_a_text_counts_as_what_its_ligatures_are_written_out_to(serve: Serve) -> None:
    client = serve(max_text_chars=100)
    assert client.post("/embed", json={"inputs": "\ufdfa" * 11}).status_code == 200  # of 18 characters each
    words = "has 216 characters once ligatures are written out", "200, twice CROSSLET_MAX_TEXT_CHARS"
    assert_refused(client.post("/embed", json={"inputs": "\ufdfa" * 12}), 422, "Tokenizer", *words)
    assert_refused(put(client, {"id": "a", "text": "\ufdfa" * 12}), 422, "Tokenizer", "documents[0].text", *words)
    assert_refused(client.post("/search", json={"query": "\ufdfa" * 12}), 422, "Tokenizer", *words)


def test_an_id_that_could_break_a_log_is_replaced(client: TestClient) -> None:
    response = client.get("/health", headers={"x-request-id": 'a" b'})
    assert len(response.headers["x-request-id"]) == 32


def test_null_is_the_default_as_in_tei(client: TestClient) -> None:
    plain = client.post("/embed", json={"inputs": LONG}).json()
    response = client.post("/embed", json={"inputs": LONG, "truncate": None, "normalize": None, "dimensions": None})
    assert response.json() == plain


def test_a_forbidden_cut_names_the_input_and_both_lengths(client: TestClient) -> None:
    response = client.post("/embed", json={"inputs": ["hallo", LONG], "truncate": False})
    assert_refused(response, 422, "Tokenizer", "inputs[1] has ", f"the model reads {MAX_LENGTH}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": []}, ["inputs is empty"]),
        ({"inputs": ["a", ""]}, ["inputs[1] is empty"]),
        ({"inputs": ""}, ["inputs is empty; every text"]),
        ({"inputs": ["a", 3]}, ["inputs[1]"]),
        ({}, ["inputs"]),
        ({"inputs": "a", "dimensions": DIM + 1}, [str(DIM), str(DIM + 1)]),
        ({"inputs": "a", "dimensions": 0}, ["dimensions"]),
        ({"inputs": ["a"] * 513}, ["513", "512", "CROSSLET_MAX_TEXTS"]),
        ([], []),
        ("text", []),
        (None, []),
    ],
)
def test_invalid_embed_requests_are_422_and_name_the_field(client: TestClient, body: object, words: list[str]) -> None:
    assert_refused(client.post("/embed", json=body), 422, "Validation", *words)


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
    response = client.post("/embed", content=content, headers={"content-type": "application/json"})
    assert_refused(response, 400 if content else 422, "Validation")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-16"])
def test_a_body_in_another_encoding_than_utf8_is_told_so(client: TestClient, encoding: str, content_type: str) -> None:
    content = '{"inputs": "a"}'.encode(encoding)
    response = client.post("/embed", content=content, headers={"content-type": content_type})
    assert_refused(response, 400, "Validation", f"the body is in {encoding[:6].upper()}; JSON is UTF-8")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.text(st.characters(), min_size=1, max_size=50))
def test_any_json_string_gives_a_vector_or_a_typed_error(client: TestClient, text: str) -> None:
    content = json.dumps({"inputs": text}).encode()  # lone surrogates as \ud800
    response = client.post("/embed", content=content, headers={"content-type": "application/json"})
    if response.status_code == 200:
        assert abs(float(np.linalg.norm(response.json()[0])) - 1) < 1e-5
    else:
        assert_refused(response, 400, "Validation")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    route=st.sampled_from(["/embed", "/similarity", "/search", "/documents", "/documents/delete", "/v1/embeddings"]),
    body=JSON_VALUES
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(FIELDS, JSON_VALUES),
    ),
)
def test_no_json_body_makes_the_server_fail(client: TestClient, route: str, body: object) -> None:
    method = "PUT" if route == "/documents" else "POST"
    assert client.request(method, route, json=body).status_code in {200, 422, 400}


@pytest.mark.parametrize("inputs", ["hallo", list(TEXTS)])
def test_the_root_embeds_as_clients_with_only_a_base_url_expect(client: TestClient, inputs: object) -> None:
    assert client.post("/", json={"inputs": inputs}).json() == client.post("/embed", json={"inputs": inputs}).json()


def test_the_root_compares_where_the_inputs_are_an_object(client: TestClient) -> None:
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": list(TEXTS[1:3])}}
    assert client.post("/", json=body).json() == client.post("/similarity", json=body).json()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": ["a", ""]}, "inputs[1] is empty"),
        ({"inputs": ["a", 3]}, "inputs[1]: "),
        ({"inputs": {"pairs": [["a", "b"], ["c", 3]]}}, "inputs.pairs[1][1]: "),
        ({"inputs": "a", "encoding_format": "base64"}, "encoding_format has no effect here"),
        (
            {"inputs": {"left": ["a"], "right": ["b"]}, "parameters": {"prompt_name": "query"}},
            "parameters: prompt_name",
        ),
        ({}, "inputs: "),
        ([], "the body must be a JSON object"),
    ],
)
def test_errors_of_the_root_name_the_field(client: TestClient, body: object, message: str) -> None:
    response = client.post("/", json=body)
    assert_refused(response, 422, "Validation")
    assert response.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"truncation_direction": "Left"}, ["truncation_direction is left"]),
        ({"truncation_direction": "left"}, ["truncation_direction is left"]),
        ({"truncation_direction": "up"}, ["truncation_direction"]),
        ({"prompt_name": "query"}, ["prompt_name is set, but this model has no prompts"]),
    ],
)
def test_what_the_model_cannot_do_is_refused_and_not_ignored(
    client: TestClient, options: dict[str, str], words: list[str]
) -> None:
    assert_refused(client.post("/embed", json={"inputs": "a"} | options), 422, "Validation", *words)
    compared = {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": options}
    assert_refused(client.post("/similarity", json=compared), 422, "Validation", *words)


def test_what_teis_clients_send_by_default_is_taken(client: TestClient) -> None:
    plain = client.post("/embed", json={"inputs": LONG}).json()
    options = {"truncation_direction": "Right", "prompt_name": None, "normalize": True, "truncate": True}
    assert client.post("/embed", json={"inputs": LONG} | options).json() == plain


def test_similarity_can_forbid_the_cut(client: TestClient) -> None:
    body = {"inputs": {"source_sentence": "a", "sentences": [LONG]}, "parameters": {"truncate": False}}
    assert_refused(client.post("/similarity", json=body), 422, "Tokenizer", "inputs.sentences[0] has ")


# --- /similarity


def test_the_three_shapes_of_similarity_agree_with_numpy(client: TestClient) -> None:
    a, b, c = (np.asarray(row) for row in client.post("/embed", json={"inputs": list(TEXTS[:3])}).json())

    def ask(inputs: object) -> object:
        return client.post("/similarity", json={"inputs": inputs}).json()

    one_to_many = ask({"source_sentence": TEXTS[0], "sentences": list(TEXTS[1:3])})
    np.testing.assert_allclose(one_to_many, [a @ b, a @ c], atol=1e-6)
    pairs = ask({"pairs": [[TEXTS[0], TEXTS[1]], [TEXTS[1], TEXTS[2]]]})
    np.testing.assert_allclose(pairs, [a @ b, b @ c], atol=1e-6)
    matrix = ask({"left": list(TEXTS[:2]), "right": list(TEXTS[:3])})
    np.testing.assert_allclose(matrix, [[a @ a, a @ b, a @ c], [b @ a, b @ b, b @ c]], atol=1e-6)


def test_a_text_is_never_more_than_identical_to_itself(client: TestClient) -> None:
    scores = client.post("/similarity", json={"inputs": {"pairs": [[text, text] for text in TEXTS]}}).json()
    assert max(scores) <= 1
    assert min(scores) > 0.99999


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"pairs": []},
        {"pairs": [["a"]]},
        {"pairs": [["a", "b", "c"]]},
        {"left": [], "right": ["a"]},
        {"left": ["a"]},
        {"source_sentence": "a", "sentences": []},
        {"source_sentence": "a", "sentences": ["b"], "pairs": []},
        "text",
    ],
)
def test_malformed_similarity_requests_are_422(client: TestClient, inputs: object) -> None:
    assert_refused(client.post("/similarity", json={"inputs": inputs}), 422, "Validation", "inputs")


@pytest.mark.parametrize(
    ("inputs", "place"),
    [
        ({"source_sentence": "", "sentences": ["a"]}, "inputs.source_sentence is empty"),
        ({"source_sentence": "a", "sentences": ["b", ""]}, "inputs.sentences[1] is empty"),
        ({"pairs": [["a", "b"], ["c", ""]]}, "inputs.pairs[1][1] is empty"),
        ({"pairs": [["a", "b"], ["c", 3]]}, "inputs.pairs[1][1]: "),
        ({"left": ["a"], "right": ["b", ""]}, "inputs.right[1] is empty"),
        ({"left": ["a", ""], "right": ["b"]}, "inputs.left[1] is empty"),
        ({"left": [1], "right": ["b"]}, "inputs.left[0]: "),
        ({"left": ["a"]}, "inputs.right: "),
        ({"source_sentence": "a", "sentences": ["b", 3]}, "inputs.sentences[1]: "),
        ({"source_sentence": 1, "sentences": ["b"]}, "inputs.source_sentence: "),
    ],
)
def test_an_error_names_the_place_as_the_client_wrote_it(client: TestClient, inputs: object, place: str) -> None:
    response = client.post("/similarity", json={"inputs": inputs})
    assert_refused(response, 422, "Validation")
    assert response.json()["error"].startswith(place)


# --- documents and search


def test_a_document_can_be_put_found_read_replaced_and_removed(client: TestClient) -> None:
    response = put(client, {"id": "a", "text": TEXTS[1], "metadata": {"lang": "de"}}, {"id": "b", "text": TEXTS[7]})
    assert response.json() == {"upserted": 2, "revision": 1}
    assert found(client.post("/search", json={"query": TEXTS[1], "top_k": 1})) == ["a"]
    assert client.get("/documents/a").json() == {
        "id": "a",
        "text": TEXTS[1],
        "metadata": {"lang": "de"},
        "revision": 1,
    }
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
    put(client, {"id": "b", "text": TEXTS[0], "metadata": {"version": 1}})
    texts = {"a": TEXTS[1], "b": "kaputt secret", "c": "guitar " * 50, "d": "kaputt"}
    documents = [{"id": id_, "text": text} for id_, text in texts.items()]
    response = client.put("/documents", json={"documents": documents, "chunk": False})
    assert response.status_code == 200
    answer = response.json()
    assert (answer["upserted"], answer["revision"]) == (2, 2)
    assert answer["truncated"] == ["c"]
    assert [one["id"] for one in answer["failed"]] == ["b", "d"]
    assert PutDocumentsResponse.model_validate(answer).model_dump(exclude_unset=True) == answer
    assert all(one["error"].startswith("the model gave no finite vector") for one in answer["failed"])
    assert response.headers["x-truncated"] == "1; indices=2"
    assert client.get("/documents/b").json() == {
        "id": "b",
        "text": TEXTS[0],
        "metadata": {"version": 1},
        "revision": 1,
    }
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


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": ["guitar", "kaputt"]}),
        ("/similarity", {"inputs": {"source_sentence": "guitar", "sentences": ["guitar", "kaputt"]}}),
        ("/search", {"queries": ["guitar", "kaputt"]}),
        ("/v1/embeddings", {"input": ["guitar", "kaputt"]}),
    ],
)
def test_a_text_the_model_fails_on_fails_other_routes(
    serve: Serve, failing_model: Path, path: str, body: dict[str, Any]
) -> None:
    assert serve(model=failing_model).post(path, json=body).status_code == 500


@pytest.mark.parametrize("path", ["%FF", "%ED%A0%80"])
def test_an_id_in_a_url_is_taken_to_the_byte(client: TestClient, path: str) -> None:
    for known in ("a", "\ufffd"):
        put(client, {"id": known, "text": TEXTS[0]})
    for method in ("GET", "DELETE"):
        assert_refused(client.request(method, f"/documents/{path}"), 404, "NotFound")
    assert client.get("/documents").json()["total"] == 2


@pytest.mark.parametrize("id_", ["de/1", "documents/1", "a b%20", "?#", "ключ", "//"])
def test_whatever_an_id_holds_a_url_can_name_it(client: TestClient, id_: str) -> None:
    put(client, {"id": id_, "text": TEXTS[0]})
    url = f"/documents/{quote(id_)}"
    assert client.get(url).json()["id"] == id_
    assert client.delete(url).json() == {"deleted": 1}


def test_a_search_returns_only_what_was_asked_for(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1], "metadata": {"lang": "de"}})
    result = client.post("/search", json={"query": TEXTS[1], "include": []}).json()["results"][0]
    assert set(result) == {"id", "score"}
    assert result["score"] == pytest.approx(1, abs=1e-6)


def test_a_mode_chooses_vectors_keywords_or_both(client: TestClient) -> None:
    put(client, {"id": "code", "text": "Oven shows error WK-1702"}, {"id": "other", "text": TEXTS[8]})
    found = {
        mode: client.post("/search", json={"query": "wk1702", "include": ["ranks"], **({"mode": mode} if mode else {})})
        for mode in ("dense", "keywords", "hybrid", None)
    }
    results = {mode: answer.json()["results"] for mode, answer in found.items()}
    assert results[None] == results["hybrid"]
    assert results["hybrid"][0]["id"] == "code"
    assert [one["ranks"]["keywords"] for one in results["hybrid"]] == [1, None]
    assert {one["ranks"]["dense"] for one in results["hybrid"]} == {1, 2}
    assert [one["ranks"] for one in results["keywords"]] == [{"dense": None, "keywords": 1}]
    assert [one["ranks"]["keywords"] for one in results["dense"]] == [None, None]
    dense = {one["id"]: one["score"] for one in results["dense"]}
    assert {one["id"]: one["score"] for one in results["hybrid"]}["other"] == dense["other"]
    assert "x-tokens" in found["hybrid"].headers
    assert "x-tokens" not in found["keywords"].headers  # nothing was embedded


@pytest.mark.parametrize("mode", ["keywords", "hybrid"])
def test_a_search_by_words_takes_filters_and_pages(client: TestClient, mode: str) -> None:
    documents = [{"id": str(n), "text": f"kettle {'red ' * n}", "metadata": {"n": n}} for n in range(1, 5)]
    put(client, *documents)
    wanted = {"query": "red", "mode": mode, "filter": {"n": {"gte": 3}}}
    whole = [one["id"] for one in client.post("/search", json=wanted).json()["results"]]
    assert sorted(whole) == ["3", "4"]
    second = client.post("/search", json={**wanted, "top_k": 1, "offset": 1}).json()["results"]
    assert [one["id"] for one in second] == whole[1:]
    for query in ('"', "red OR *", "NEAR(a b)", "a\x00b", "🙂", "-", "col: x"):
        assert client.post("/search", json={"query": query, "mode": mode}).status_code == 200


def test_a_search_by_words_has_the_limits_of_one_by_vectors(client: TestClient) -> None:
    for body, setting in (
        ({"query": "x" * 100_001}, "CROSSLET_MAX_TEXT_CHARS"),
        ({"queries": ["x"] * 513}, "CROSSLET_MAX_TEXTS"),
    ):
        refused = client.post("/search", json={"mode": "keywords", "top_k": 1, **body})
        assert refused.status_code == 422 or refused.status_code == 413
        assert setting in refused.json()["error"]
    assert client.post("/search", json={"query": "", "mode": "keywords"}).status_code == 422
    assert client.post("/search", json={"query": "x", "mode": "sparse"}).status_code == 422


def test_several_queries_give_a_list_each(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1]}, {"id": "b", "text": TEXTS[8]})
    results = client.post("/search", json={"queries": [TEXTS[8], TEXTS[1]], "top_k": 1}).json()["results"]
    assert [[result["id"] for result in one] for one in results] == [["b"], ["a"]]


def test_too_long_an_answer_is_refused_before_it_is_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document is in the answer once for each query that finds it."""
    monkeypatch.setattr("service.api.routes.search.MAX_ANSWER_BYTES", 50_000)
    put(client, {"id": "long", "text": "so " * 5000})
    wanted = {"queries": ["so so", "soso", "so", "oso"], "top_k": 1}
    assert client.post("/search", json={**wanted, "queries": wanted["queries"][:3]}).status_code == 200
    refused = client.post("/search", json=wanted)
    assert_refused(refused, 422, "Validation", "50000 bytes", "include")
    assert len(client.post("/search", json={**wanted, "include": ["metadata"]}).json()["results"]) == 4


def test_a_filter_is_applied_inside_the_search(client: TestClient) -> None:
    put(client, *({"id": f"de{n}", "text": TEXTS[1], "metadata": {"lang": "de"}} for n in range(50)))
    put(client, *({"id": f"zh{n}", "text": TEXTS[11], "metadata": {"lang": "zh"}} for n in range(5)))
    ids = found(client.post("/search", json={"query": TEXTS[1], "top_k": 5, "filter": {"lang": "zh"}}))
    assert ids == [f"zh{n}" for n in range(5)]
    assert client.post("/documents/delete", json={"filter": {"lang": "de"}}).json() == {"deleted": 50}
    assert client.get("/info").json()["index"]["documents"] == 5


def test_pages_of_a_search_follow_each_other(client: TestClient) -> None:
    put(client, *({"id": f"d{n}", "text": TEXTS[n % len(TEXTS)]} for n in range(25)))
    whole = found(client.post("/search", json={"query": TEXTS[1], "top_k": 25}))
    pages = [found(client.post("/search", json={"query": TEXTS[1], "top_k": 10, "offset": n})) for n in (0, 10, 20, 30)]
    assert [*pages[0], *pages[1], *pages[2]] == whole
    assert pages[3] == []
    response = client.post("/search", json={"query": "a", "top_k": 10, "offset": 10**6})
    assert_refused(response, 422, "Validation", "offset and top_k together are 1000010", "CROSSLET_MAX_TOP_K")


def test_min_score_leaves_out_the_rest(client: TestClient) -> None:
    put(client, {"id": "a", "text": TEXTS[1]}, {"id": "b", "text": TEXTS[11]})
    assert found(client.post("/search", json={"query": TEXTS[1], "min_score": 0.999})) == ["a"]


def test_an_empty_collection_finds_nothing(client: TestClient) -> None:
    assert found(client.post("/search", json={"query": "hallo", "filter": {"not": {"a": 1}}})) == []


@pytest.mark.parametrize(
    "id_", ["a/b", "a//b/", "ü", "😀", "a b", "...", "?#%", "delete", "\u202e", "'; DROP TABLE documents"]
)
def test_any_id_names_its_document(client: TestClient, id_: str) -> None:
    assert put(client, {"id": id_, "text": "hallo"}).status_code == 200
    path = "/documents/" + "".join(f"%{byte:02X}" for byte in id_.encode())
    assert client.get(path).json()["id"] == id_
    assert client.delete(path).json() == {"deleted": 1}


@pytest.mark.parametrize(
    "text", ["\x00", "a\x00b", "😀" * 100, "\u202eabc", "\x07\x1b[2J", "مرحبا", "\ufeff", "\ufdd0"]
)
def test_odd_text_is_kept_as_it_is(client: TestClient, text: str) -> None:
    assert put(client, {"id": "a", "text": text, "metadata": {text: text}}).status_code == 200
    assert client.get("/documents/a").json()["text"] == text
    assert found(client.post("/search", json={"query": f"a{text}", "filter": {text: text}})) == ["a"]


def test_pages_cover_every_document_once(client: TestClient) -> None:
    put(client, *({"id": f"d{n}", "text": "hallo"} for n in range(7)))
    seen, cursor = [], ""
    for _ in range(4):
        page = client.get("/documents", params={"limit": 2, "cursor": cursor}).json()
        seen += [document["id"] for document in page["documents"]]
        cursor = page["next_cursor"] or ""
    assert seen == [f"d{n}" for n in range(7)]
    assert cursor == ""
    assert page["total"] == 7


def test_a_page_ends_early_when_its_documents_are_long(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.documents.MAX_PAGE_CHARS", 25)
    put(client, *({"id": f"d{n}", "text": "x" * size} for n, size in enumerate((10, 10, 30, 10))))
    seen, cursor = [], ""
    for _ in range(3):
        page = client.get("/documents", params={"cursor": cursor}).json()
        seen.append([document["id"] for document in page["documents"]])
        cursor = page["next_cursor"] or ""
    assert seen == [["d0", "d1"], ["d2"], ["d3"]]
    assert cursor == ""


def test_the_results_of_all_queries_together_are_limited(serve: Serve) -> None:
    client = serve(max_results=20)
    put(client, {"id": "a", "text": "hallo"})
    assert client.post("/search", json={"queries": ["a"] * 2, "top_k": 10}).status_code == 200
    response = client.post("/search", json={"queries": ["a"] * 3, "top_k": 7})
    assert_refused(response, 422, "Validation", "21 results", "20 (CROSSLET_MAX_RESULTS)")
    assert_refused(client.post("/search", json={"query": "a", "top_k": 21}), 422, "Validation", "CROSSLET_MAX_RESULTS")


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


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
    ("body", "words"),
    [
        ({"query": "a", "queries": ["a"]}, ["either query or queries", "one of the four"]),
        ({}, ["either query or queries", "one of the four"]),
        ({"query": "a", "like": "a"}, ["one of the four"]),
        ({"vector": [1.0], "like": "a"}, ["one of the four"]),
        ({"vector": []}, ["vector has 0 numbers", "`dim`"]),
        ({"vector": ["1"]}, ["vector[0]"]),
        ({"vector": [1.0], "mode": "hybrid"}, ["mode is hybrid", "leave mode out"]),
        ({"like": "a", "rerank": True}, ["rerank", "send a query"]),
        ({"queries": []}, ["queries is empty"]),
        ({"query": ""}, ["query is empty"]),
        ({"queries": ["a", ""]}, ["queries[1] is empty"]),
        ({"query": "a", "top_k": 0}, ["top_k"]),
        ({"query": "a", "top_k": 1001}, ["1001", "1000", "CROSSLET_MAX_TOP_K"]),
        ({"query": "a", "rerank": True}, ["no re-ranker (CROSSLET_RERANKER)"]),
        ({"query": "a", "include": ["vectors"]}, ["include[0]"]),
        ({"query": "a", "filter": {"a": {"gt": None}}}, ["filter"]),
        ({"query": "a", "filter": nested(100)}, ["filter"]),
        ({"query": "a", "x" * 100_000: 3}, ["the field '" + "x" * 40 + "' is unknown"]),
        (
            {"query": "a", "top-k": 3},
            ["the field 'top-k' is unknown; known are query, queries, vector, like, top_k", "did you mean top_k?"],
        ),
    ],
)
def test_invalid_searches_are_422(client: TestClient, body: dict[str, Any], words: list[str]) -> None:
    assert_refused(client.post("/search", json=body), 422, "Validation", *words)


@pytest.mark.parametrize(("given", "ours"), [("limit", "top_k"), ("K", "top_k"), ("q", "query"), ("offest", "offset")])
def test_an_unknown_field_of_a_search_is_named_with_ours(client: TestClient, given: str, ours: str) -> None:
    for body in ({given: 5}, {"query": "a", given: 5}):
        response = client.post("/search", json=body)
        assert_refused(response, 422, "Validation", f"the field '{given}' is unknown", f"did you mean {ours}?")


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


INVISIBLE = [" ", "\n\t ", "\u3000\u2003\xa0\u2028", "\u200b\u200d\ufeff\u2060", "\u3164\uffa0\u115f", "\u2800"]
INVISIBLE += ["\x00\x1f\x85", "\xad\ufe0f\u200e"]


@pytest.mark.parametrize("text", INVISIBLE)
def test_a_query_without_a_visible_character_is_refused(client: TestClient, text: str) -> None:
    put(client, {"id": "a", "text": "hallo"})
    for mode in ("dense", "keywords", "hybrid"):
        refused = client.post("/search", json={"query": text, "mode": mode})
        assert_refused(refused, 422, "Validation", "query: has nothing but white space and invisible characters")
    refused = client.post("/search", json={"queries": ["hallo", text]})
    assert_refused(refused, 422, "Validation", "queries[1]: has nothing but white space")
    for texts in ("texts", "documents"):
        refused = client.post("/rerank", json={"query": text, texts: ["hallo"]})
        assert_refused(refused, 422, "Validation", "query: has nothing but white space")
    assert put(client, {"id": "b", "text": text}).status_code == 200  # what is stored is kept as it is


@pytest.mark.parametrize("text", ["a", " . ", "\u200b\u0e01", "\u0301", "🙂\ufe0f", "ᠠ\u180b", "\u3164x"])
def test_a_query_with_a_visible_character_is_taken(client: TestClient, text: str) -> None:
    assert client.post("/search", json={"query": text}).status_code == 200


def test_white_space_is_embedded_as_other_servers_do(client: TestClient) -> None:
    assert client.post("/embed", json={"inputs": [" "]}).status_code == 200
    assert client.post("/v1/embeddings", json={"input": " ", "model": "any"}).status_code == 200


@pytest.mark.parametrize("body", [{}, {"ids": ["a"], "filter": {"a": 1}}, {"filter": {}}])
def test_a_removal_of_nothing_in_particular_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    put(client, {"id": "a", "text": "hallo"})
    assert_refused(client.post("/documents/delete", json=body), 422, "Validation")
    assert client.get("/documents").json()["total"] == 1


LARGE = [str(2**63), str(-(2**63) - 1), str(2**64 - 1), str(2**64), "1" * 300]


def test_integers_that_lose_digits_are_refused(client: TestClient) -> None:
    json_type = {"content-type": "application/json"}
    for number in LARGE:
        for metadata in ('{"x": %s}', '{"x": [0.5, %s]}', '{"x": {"y": [{"z": %s}]}}'):
            body = f'{{"documents": [{{"id": "a", "text": "a", "metadata": {metadata % number}}}]}}'
            response = client.put("/documents", content=body, headers=json_type)
            assert_refused(response, 422, "Validation", "documents[0].metadata: a whole number is beyond 64 bits")
            assert str(2**63 - 1) in response.json()["error"]
        for filter_ in ('{"x": %s}', '{"x": {"lt": %s}}', '{"not": {"x": {"in": [1, %s]}}}'):
            for path, more in (("/search", '"query": "a", '), ("/documents/delete", "")):
                body = f'{{{more}"filter": {filter_ % number}}}'
                response = client.post(path, content=body, headers=json_type)
                assert_refused(response, 422, "Validation", "filter", "a whole number is beyond 64 bits")


def test_other_numbers_come_back_and_are_found(client: TestClient) -> None:
    numbers = [str(2**63 - 1), str(-(2**63)), str(2**53 + 1), str(2**53), "1e19", "-0.0", "0.1", "1.5e-300", "1e308"]
    documents = (f'{{"id": "{number}", "text": "a", "metadata": {{"x": {number}}}}}' for number in numbers)
    body = f'{{"documents": [{", ".join(documents)}]}}'
    client.put("/documents", content=body, headers={"content-type": "application/json"})
    for number in numbers:
        assert repr(client.get(f"/documents/{number}").json()["metadata"]["x"]) == repr(json.loads(number))
        body = f'{{"query": "a", "filter": {{"x": {number}}}}}'
        assert found(client.post("/search", content=body, headers={"content-type": "application/json"})) == [number]


def test_a_long_number_changes_nothing_else_of_what_json_is(client: TestClient) -> None:
    """Bodies with long digits are read by another parser: it must refuse what the first one refuses."""
    faults = dict.fromkeys(("NaN", "[1,]", "1e400", "[" * 2000 + "]" * 2000), "not valid JSON")
    for bad, fault in (faults | {'"\\ud800"': "y has half a surrogate pair"}).items():
        content = f'{{"inputs": "a", "x": {"1" * 30}, "y": {bad}}}'
        response = client.post("/embed", content=content, headers={"content-type": "application/json"})
        assert_refused(response, 400, "Validation", fault)
    deep = f'{{"inputs": "a", "x": {"[" * 1000}{"1" * 30}{"]" * 1000}}}'  # Python's parser may give up before
    response = client.post("/embed", content=deep, headers={"content-type": "application/json"})
    assert response.status_code in {200, 400}
    content = f'{{"inputs": "{"1" * 30}\\u00e9", "x": 1, "x": {"1" * 30}}}'
    response = client.post("/embed", content=content, headers={"content-type": "application/json"})
    assert response.json() == client.post("/embed", json={"inputs": "1" * 30 + "é"}).json()


def test_filters_find_nested_fields(client: TestClient) -> None:
    put(
        client,
        {"id": "a", "text": "hallo", "metadata": {"source": {"site": "x", "pages": [{"n": 1}, {"n": 2}]}, "no": None}},
        {"id": "b", "text": "hallo", "metadata": {"source": {"site": "x"}, "source.site": "y", "tags": []}},
        {"id": "c", "text": "hallo", "metadata": {"source": {"site": 1}}},
    )
    for filter_, expected in [
        ({"source.site": "x"}, ["a"]),
        ({"source.site": "y"}, ["b"]),
        ({"source.pages.n": 2}, ["a"]),
        ({"source.pages.n": {"gte": 3}}, []),
        ({"source.site": {"ne": "x"}}, ["b", "c"]),
        ({"source.pages.n": {"ne": 1}}, ["b", "c"]),
        ({"no": {"ne": None}}, []),
        ({"no": {"exists": True}}, ["a"]),
        ({"no": {"exists": False}}, ["b", "c"]),
        ({"tags": {"exists": True}}, ["b"]),
        ({"source.pages": {"exists": False}}, ["b", "c"]),
        ({"source.nothing": None}, ["a", "b", "c"]),
        ({"not": {"source.site": {"in": ["x", "y"]}}}, ["c"]),
    ]:
        assert found(client.post("/search", json={"query": "hallo", "filter": filter_})) == expected, filter_
        listed = client.get("/documents", params={"filter": json.dumps(filter_)}).json()
        assert [one["id"] for one in listed["documents"]] == expected
        assert listed["total"] == len(expected)
        assert client.post("/documents/count", json={"filter": filter_}).json() == {"count": len(expected)}


def test_pages_of_a_filter_go_on_after_the_cursor(client: TestClient) -> None:
    put(client, *({"id": f"{n:02}", "text": "hallo", "metadata": {"odd": n % 2 == 1}} for n in range(11)))
    seen, cursor = [], ""
    while True:
        params = {"filter": '{"odd": true}', "limit": 2, "cursor": cursor}
        page = client.get("/documents", params=params).json()
        seen.append([document["id"] for document in page["documents"]])
        assert page["total"] == 5
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [["01", "03"], ["05", "07"], ["09"]]
    assert client.post("/documents/count", json={}).json() == {"count": 11}
    assert client.get("/documents", params={"filter": "{}"}).json()["total"] == 11


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        ("", ["filter is not valid JSON"]),
        ("{nope", ["filter is not valid JSON"]),
        ("[1]", ["filter is not a JSON object"]),
        ('{"a": {"like": 1}}', ["in, ne, exists, gt, gte, lt, lte"]),
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
        headers = {"content-type": "application/json"}
        response = client.post("/documents/count", content=f'{{"filter": {filter_}}}', headers=headers)
        assert_refused(response, 422, "Validation", *words)
    assert_refused(
        client.post("/documents/count", json={"filters": {}}),
        422,
        "Validation",
        "the field 'filters' is unknown",
        "did you mean filter?",
    )


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


def test_a_bad_cursor_is_422(client: TestClient) -> None:
    for cursor in ("x", "-1", "9" * 19, "١"):
        assert_refused(client.get("/documents", params={"cursor": cursor}), 422, "Validation", "cursor")


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


# --- /v1/embeddings


def test_openai_base64_is_the_float32_bytes(client: TestClient) -> None:
    floats = client.post("/v1/embeddings", json={"input": TEXTS[0], "model": "any"}).json()
    packed = client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": "base64"}).json()
    values = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
    assert np.array_equal(np.asarray(floats["data"][0]["embedding"], np.float32), values)
    assert floats["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(("input_", "place"), [("", "input is"), (["a", ""], "input[1] is"), ([10**6], "input has")])
def test_openai_errors_name_the_place(serve: Serve, input_: object, place: str) -> None:
    client = serve(token_ids=True)
    error = client.post("/v1/embeddings", json={"input": input_}).json()["error"]
    assert error["message"].startswith(place)


@pytest.mark.parametrize("input_", [[5], [[5], [6, 7]], [2**70], [[]]])
def test_token_ids_are_refused_by_default(client: TestClient, input_: object) -> None:
    response = client.post("/v1/embeddings", json={"input": input_})
    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "Validation")
    assert error["message"].startswith("input has token ids")
    assert "check_embedding_ctx_length=False" in error["message"]
    assert "CROSSLET_TOKEN_IDS=true" in error["message"]


def test_openai_token_ids_are_this_models_where_they_are_allowed(serve: Serve, tiny_model: Path) -> None:
    client = serve(token_ids=True)
    ids = json.loads((tiny_model / "parity.json").read_text(encoding="utf-8"))["input_ids"][:2]
    texts = client.post("/v1/embeddings", json={"input": list(TEXTS[:2])}).json()["data"]
    assert client.post("/v1/embeddings", json={"input": ids}).json()["data"] == texts
    assert client.post("/v1/embeddings", json={"input": ids[0]}).json()["data"] == texts[:1]


@pytest.mark.parametrize("input_", [[], "", [""], [[]], [10**6], [-1], [2**70], {"a": 1}, [True]])
def test_openai_errors_have_openais_shape(serve: Serve, input_: object) -> None:
    for client in (serve(), serve(token_ids=True)):
        response = client.post("/v1/embeddings", json={"input": input_})
        assert response.status_code == 422
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", ["/embeddings", "/embeddings/", "/v1/embeddings/"])
def test_openais_route_is_there_without_its_version_too(client: TestClient, path: str) -> None:
    body = {"input": list(TEXTS[:2]), "encoding_format": "base64"}
    assert client.post(path, json=body).json() == client.post("/v1/embeddings", json=body).json()
    refused = client.post(path, json={"input": [""]})
    assert refused.status_code == 422
    assert refused.json() == client.post("/v1/embeddings", json={"input": [""]}).json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/embeddings", 405),
        ("DELETE", "/embeddings/", 405),
        ("DELETE", "/v1/models/", 405),
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/chat/completions", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/", 404),
        ("GET", "/v1/nope/", 404),
    ],
)
def test_errors_under_v1_have_openais_shape(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (status, "invalid_request_error", None)
    assert error["code"] == {404: "NotFound", 405: "Validation"}[status]


@pytest.mark.parametrize("path", ["/v1nope", "/embeddingsnope", "/embeddings/nope", "/v2/v1/"])
def test_errors_elsewhere_have_the_shape_of_all_others(client: TestClient, path: str) -> None:
    assert_refused(client.get(path), 404, "NotFound")


def test_the_one_model_is_listed_as_openai_does(client: TestClient) -> None:
    model = {"id": "tiny", "object": "model", "created": 1767225600, "owned_by": "crosslet"}  # 2026-01-01T00:00:00Z
    for path in ("/v1/models", "/v1/models/"):
        assert client.get(path).json() == {"object": "list", "data": [model]}
    for path in ("/v1/models/tiny", "/v1/models/tiny/"):
        assert client.get(path).json() == model
    message = client.get("/v1/models/other").json()["error"]["message"]
    assert message == "no such model; this service serves tiny"


@pytest.mark.parametrize(
    ("name", "created_at", "created"),
    [
        ("org/name", "2026-01-01T00:00:00", 1767225600),
        ("a b", "yesterday", 0),
        ("ü", "2026-01-01T01:00:00+01:00", 1767225600),
    ],
)
def test_a_model_is_found_whatever_its_manifest_calls_it(
    serve: Serve, tiny_model: Path, tmp_path: Path, name: str, created_at: str, created: int
) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    write_manifest(tmp_path / "model", name=name, created_at=created_at)
    client = serve(model=tmp_path / "model")
    (listed,) = client.get("/v1/models").json()["data"]
    assert (listed["id"], listed["created"]) == (name, created)
    for spelling in (quote(name), quote(name, safe="")):
        assert client.get(f"/v1/models/{spelling}").json() == listed


def test_openai_takes_null_for_what_is_left_out(client: TestClient) -> None:
    nulls = {"model": None, "encoding_format": None, "dimensions": None, "user": None}
    answers = [client.post("/v1/embeddings", json={"input": TEXTS[0], **more}).json() for more in ({}, nulls)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": "a", "dimensions": True}),
        ("/v1/embeddings", {"input": "a", "dimensions": "2"}),
        ("/search", {"query": "a", "top_k": True}),
        ("/search", {"query": "a", "min_score": True}),
        ("/search", {"query": "a", "min_score": "0.3"}),
    ],
)
def test_what_is_no_number_is_not_taken_for_one(client: TestClient, path: str, body: dict[str, object]) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 422
    assert f"valid {'number' if 'min_score' in body else 'integer'}" in response.text


def test_a_whole_number_may_have_a_point(client: TestClient) -> None:
    assert client.post("/search", json={"query": "a", "top_k": 10.0}).status_code == 200
    assert client.post("/search", json={"query": "a", "top_k": 1.5}).status_code == 422


# --- compression


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br"])
def test_a_large_answer_is_gzip_where_that_is_on_and_accepted(serve: Serve, accepted: str) -> None:
    plain, packing = serve(), serve(gzip_min_bytes=1000)
    body = {"inputs": list(TEXTS)}
    packed = packing.post("/embed", json=body, headers={"accept-encoding": accepted})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["x-tokens"]) > 0
    assert packed.json() == plain.post("/embed", json=body).json()
    assert int(packed.headers["content-length"]) < len(packed.content)


def test_gzip_is_for_large_answers_that_ask_for_it(serve: Serve) -> None:
    body = {"inputs": list(TEXTS)}
    off = serve().post("/embed", json=body, headers={"accept-encoding": "gzip"})
    packing = serve(gzip_min_bytes=1000)
    small = packing.post("/embed", json={"inputs": "a"}, headers={"accept-encoding": "gzip"})
    unasked = packing.post("/embed", json=body, headers={"accept-encoding": "identity"})
    assert len(off.content) > 1000
    assert [one.headers.get("content-encoding") for one in (off, small, unasked)] == [None] * 3


# --- operation


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_probe_may_ask_for_no_body(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 200


def test_probes_and_info_answer(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ok"}
    info = client.get("/info").json()
    assert (info["model"], info["dim"], info["max_length"]) == ("tiny", DIM, MAX_LENGTH)
    assert info["limits"]["max_texts"] == 512
    assert info["min_scores"] == {}
    assert info["white_space_stripped_by"] == "service"  # a zero-width space is a piece of its tokenizer
    # By these, clients of text-embeddings-inference size their requests (continuedev/continue: HuggingFaceTEI.ts).
    assert (info["model_id"], info["max_client_batch_size"], info["max_input_length"]) == ("tiny", 512, MAX_LENGTH)


def test_metrics_count_what_happened(client: TestClient) -> None:
    client.post("/embed", json={"inputs": ["hallo", LONG]})
    put(client, {"id": "a/b", "text": "hallo"})
    client.get("/documents/a/b")
    lines = client.get("/metrics").text.splitlines()
    for line in (
        'crosslet_requests_total{route="/embed",status="200"} 1.0',
        'crosslet_requests_total{route="/documents/{document_id:path}",status="200"} 1.0',
        "crosslet_truncated_inputs_total 1.0",
        "crosslet_index_documents 1.0",
        f"crosslet_index_bytes {DIM * 4 + 8}.0",
        "crosslet_queue_depth 0.0",
        "crosslet_memory_budget_bytes 0.0",
        'crosslet_request_duration_seconds_count{route="/embed"} 1.0',
        "crosslet_inference_duration_seconds_count 2.0",
        "crosslet_queue_duration_seconds_count 2.0",
    ):
        assert line in lines
    text = "\n".join(lines)
    assert "_created" not in text
    assert 'crosslet_build_info{fingerprint="' in text
    assert float(text.split("\ncrosslet_process_resident_bytes ")[1].split()[0]) > 1e7


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (EmbedRequest, {"inputs": [1.5] * 1000}),
        (SimilarityRequest, {"inputs": {"pairs": [[1, 2]] * 1000}}),
        (SimilarityRequest, {"inputs": {"left": [1] * 1000, "right": [1] * 1000}}),
        (SimilarityRequest, {"inputs": {"source_sentence": "a", "sentences": [1] * 1000}}),
        (PutDocumentsRequest, {"documents": [1] * 1000}),
        (DeleteDocumentsRequest, {"ids": [1] * 1000}),
        (SearchRequest, {"queries": [1] * 1000, "include": [1] * 1000}),
        (SearchRequest, {"query": "a"} | {str(number): 1 for number in range(1000)}),
        (OpenAIEmbeddingsRequest, {"input": [1.5] * 1000}),
        (OpenAIEmbeddingsRequest, {"input": [[1.5] * 1000] * 1000}),
    ],
)
def test_a_thousand_wrong_elements_cost_no_thousand_errors(model: type[BaseModel], body: object) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    assert caught.value.error_count() <= 4


@pytest.mark.parametrize("depth", range(MAX_METADATA_DEPTH - 2, 256))
def test_metadata_that_is_taken_can_be_read_on_every_route(client: TestClient, depth: int) -> None:
    metadata = nested(depth - 1)  # and its own level
    response = put(client, {"id": "a", "text": "hallo", "metadata": metadata})
    if depth > MAX_METADATA_DEPTH:
        assert_refused(response, 422, "Validation", str(depth), str(MAX_METADATA_DEPTH))
        return
    assert response.status_code == 200
    assert client.get("/documents/a").json()["metadata"] == metadata
    assert client.get("/documents").json()["documents"][0]["metadata"] == metadata
    assert client.post("/search", json={"query": "a"}).json()["results"][0]["metadata"] == metadata
    assert client.post("/search", json={"queries": ["a"]}).json()["results"][0][0]["metadata"] == metadata


def test_user_text_reaches_neither_the_log_nor_an_error(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    secret = "geheimnis"  # noqa: S105 - no password
    with caplog.at_level(logging.DEBUG):
        bodies = [{"inputs": secret}, {"inputs": {secret: secret}}, {"inputs": [secret, 3]}, {"inputs": [secret, ""]}]
        answers = [client.post("/embed", json=body).text for body in bodies]
        answers.append(put(client, {"id": "a", "text": secret, "metadata": secret}).text)
        answers.append(client.post("/search", json={"query": "a", "top_k": secret, "filter": {"x": [secret]}}).text)
        answers.append(client.post("/v1/embeddings", json={"input": "a", "encoding_format": secret}).text)
        answers.append(client.get("/documents", params={"limit": secret}).text)
        # The name of an unknown field is answered, but not logged.
        client.post("/search", json={"query": "a", secret: 1})
        client.post("/similarity", json={"inputs": {"pairs": [["a", "b"]], secret: 1}})
        put(client, {"id": "a", "text": "a", secret: 1})
    logged = [str(vars(record)) for record in caplog.records if record.name.startswith("service")]
    assert any("/embed" in line for line in logged)
    assert not [line for line in logged + answers if secret in line]


def operations(client: TestClient) -> list[tuple[str, dict[str, Any]]]:
    paths = client.get("/openapi.json").json()["paths"]
    return [(f"{method} {path}", one) for path, methods in paths.items() for method, one in methods.items()]


def test_every_field_is_described_with_an_example(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert not {"HTTPValidationError", "ValidationError"} & set(schemas)  # the framework's own, never sent
    fields = {f"{name}.{field}": facts for name, one in schemas.items() for field, facts in one["properties"].items()}
    assert [name for name, facts in fields.items() if not (facts.get("description") and facts.get("examples"))] == []


def test_every_route_and_parameter_is_described_with_an_example(client: TestClient) -> None:
    bare = [name for name, one in operations(client) if not (one["summary"] and one["description"])]
    for name, one in operations(client):
        for parameter in one.get("parameters", []):
            described = parameter.get("description") and parameter["schema"].get("examples", parameter.get("examples"))
            if not described:
                bare.append(f"{name} {parameter['name']}")
    assert bare == []


def test_every_schema_that_openapi_names_is_there(client: TestClient) -> None:
    response = client.get("/openapi.json")
    named = set(re.findall(r'"#/components/schemas/(\w+)"', response.text))
    assert named == set(response.json()["components"]["schemas"]) > {"ErrorResponse", "OpenAIErrorResponse"}


def test_every_answer_is_described(client: TestClient) -> None:
    for name, one in operations(client):
        assert {"200", "500"} <= set(one["responses"]), name
        for status, answer in one["responses"].items():
            assert answer["description"], (name, status)
            assert "x-request-id" in answer["headers"], (name, status)
            (content,) = answer["content"].values()
            assert "$ref" in content["schema"] or "example" in content, (name, status)
            if status != "200":
                openais = ("post /embeddings", "post /v1/embeddings", "get /v1/")
                model = "OpenAIErrorResponse" if name.startswith(openais) else "ErrorResponse"
                assert content["schema"]["$ref"].endswith(f"/{model}"), (name, status)
            if status == "429":
                assert "retry-after" in answer["headers"]


def test_the_docs_can_send_a_key(client: TestClient) -> None:
    (scheme,) = client.get("/openapi.json").json()["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert {name for name, one in operations(client) if "security" not in one} == {"get /health", "get /ready"}


def test_the_documentation_page_needs_no_other_host(client: TestClient) -> None:
    assert client.get("/", follow_redirects=True).url.path == "/docs"
    page = client.get("/docs").text
    assert "https://" not in page
    for part in page.split('"'):
        if part.startswith("/docs/static"):
            assert client.get(part).status_code == 200


def test_static_files_count_under_their_mount(client: TestClient) -> None:
    assert client.get("/docs/static/swagger-ui.css").status_code == 200
    assert client.get("/docs/static/nope").status_code == 404
    assert client.get("/nope").status_code == 404
    lines = client.get("/metrics").text.splitlines()
    for route, status in (("/docs/static", 200), ("/docs/static", 404), ("unmatched", 404)):
        assert f'crosslet_requests_total{{route="{route}",status="{status}"}} 1.0' in lines


def test_unknown_routes_and_methods_have_the_error_body(client: TestClient) -> None:
    assert_refused(client.get("/nope"), 404, "NotFound")
    assert_refused(client.get("/embed"), 405, "Validation")


def test_what_the_docs_fill_in_is_a_request_that_works(client: TestClient) -> None:
    """Examples of single fields, all together, would be both a query and queries."""
    put(client, {"id": "de/1", "text": "Ein Mann spielt Gitarre."})
    described = client.get("/openapi.json").json()
    for path in ("/embed", "/search", "/documents/delete", "/v1/rerank", "/v2/rerank"):
        content = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        example = described["components"]["schemas"][content["$ref"].rpartition("/")[2]]["example"]
        assert client.post(path, json=example).status_code == 200, path


@pytest.mark.parametrize("path", ["/embed", "/embed?a=b"])  # past the framework, and through it
def test_a_byte_order_mark_before_json_is_ignored(client: TestClient, path: str) -> None:
    answer = client.post(path, content=b'\xef\xbb\xbf{"inputs": "hallo"}', headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert answer.json() == client.post("/embed", json={"inputs": "hallo"}).json()
