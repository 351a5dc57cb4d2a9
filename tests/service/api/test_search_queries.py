import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.api.schemas.search import SearchRequest
from tests.artifacts import DIM
from tests.service.api.answers import assert_refused, put, search
from tests.service.conftest import Serve

TEXTS = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "hallo", "guten morgen", "good morning"]


@pytest.fixture
def filled(client: TestClient) -> TestClient:
    put(client, *({"id": str(n), "text": text, "metadata": {"odd": n % 2}} for n, text in enumerate(TEXTS)))
    return client


def test_vector_of_any_norm_finds_what_its_text_finds(filled: TestClient) -> None:
    by_text = search(filled, query=TEXTS[1], mode="dense")
    (vector,) = filled.post("/embed", json={"inputs": TEXTS[1]}).json()
    for scale in (1, 1e-30, 1e300):
        by_vector = search(filled, vector=(np.asarray(vector, np.float64) * scale).tolist())
        assert [one["id"] for one in by_vector] == [one["id"] for one in by_text]
        scores = [one["score"] for one in by_text]
        assert [one["score"] for one in by_vector] == pytest.approx(scores, abs=1e-6)


def test_vector_search_is_dense_though_searches_are_hybrid(serve: Serve) -> None:
    client = serve(search_mode="keywords")
    put(client, {"id": "a", "text": "hallo"})
    (vector,) = client.post("/embed", json={"inputs": "hallo"}).json()
    answer = client.post("/search", json={"vector": vector, "include": ["ranks"]})
    assert answer.json()["results"] == [
        {"id": "a", "score": pytest.approx(1, abs=1e-6), "ranks": {"dense": 1, "keywords": None}}
    ]
    assert "x-tokens" not in answer.headers  # nothing was embedded


@pytest.mark.parametrize(
    ("numbers", "status", "words"),
    [
        (["1.0"], 422, ["vector has 1 numbers", "`dim`"]),
        (["0.0"] * DIM, 422, ["only zeros"]),
        (["1e400"] * DIM, 400, ["body is not valid JSON"]),
    ],
)
def test_a_vector_without_direction_or_of_another_dim_is_refused(
    filled: TestClient, numbers: list[str], status: int, words: list[str]
) -> None:
    content = f'{{"vector": [{", ".join(numbers)}]}}'
    answer = filled.post("/search", content=content, headers={"content-type": "application/json"})
    assert_refused(answer, status, "Validation", *words)


def test_like_finds_neighbours_by_stored_vectors(filled: TestClient) -> None:
    vectors = {one["id"]: one["vector"] for one in search(filled, query="x", mode="dense", include=["vector"])}
    found = search(filled, like="1", include=["ranks"])
    expected = {id_: float(np.dot(vectors["1"], vector)) for id_, vector in vectors.items() if id_ != "1"}
    assert [one["id"] for one in found] == sorted(expected, key=lambda id_: (-expected[id_], id_))
    assert [one["score"] for one in found] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-6)
    assert [one["ranks"]["dense"] for one in found] == [1, 2, 3, 4]


def test_like_leaves_its_own_document_out_of_pages(filled: TestClient) -> None:
    whole = [one["id"] for one in search(filled, like="2")]
    pages = [one["id"] for offset in range(4) for one in search(filled, like="2", top_k=1, offset=offset)]
    assert pages == whole
    assert [one["id"] for one in search(filled, like="2", top_k=2)] == whole[:2]
    assert {one["id"] for one in search(filled, like="2", filter={"odd": 1})} == {"1", "3"}
    assert {one["id"] for one in search(filled, like="2", filter={"odd": 0})} == {"0", "4"}


def test_an_id_that_no_document_has_is_not_found(filled: TestClient) -> None:
    answer = filled.post("/search", json={"like": "nobody"})
    assert_refused(answer, 404, "NotFound", "no document has the id that like names")


def test_vectors_are_given_where_asked_for(filled: TestClient) -> None:
    found = {one["id"]: one for one in search(filled, query="hallo", include=["vector", "text"])}
    embedded = filled.post("/embed", json={"inputs": TEXTS}).json()
    for number, vector in enumerate(embedded):
        assert found[str(number)]["vector"] == vector
        assert found[str(number)]["text"] == TEXTS[number]
    assert "vector" not in search(filled, query="hallo")[0]


def test_vectors_count_towards_the_size_of_an_answer(filled: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.search.MAX_ANSWER_BYTES", 500)
    assert filled.post("/search", json={"query": "hallo", "include": []}).status_code == 200
    answer = filled.post("/search", json={"query": "hallo", "include": ["vector"]})
    assert_refused(answer, 422, "Validation", "500", "vector")


def test_every_way_to_ask_is_named_where_none_is_used() -> None:
    with pytest.raises(ValueError, match="query or queries, or vector, or like"):
        SearchRequest.model_validate({"top_k": 3})
