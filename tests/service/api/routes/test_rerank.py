import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import ArtifactError
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.model.tokenizer import Tokenizer
from tests.artifacts import MAX_LENGTH, TEXTS, build_artifact
from tests.reranker_artifact import build_reranker
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

QUERY = "Who plays the guitar?"
LONG = "guitar " * 50
PATHS = ("/rerank", "/v1/rerank", "/v2/rerank")


def ranked(client: TestClient, query: str, texts: list[str], **options: Any) -> list[dict[str, Any]]:
    """The answer in TEI's shape."""
    response = client.post("/rerank", json={"query": query, "texts": texts} | options)
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()
    return results


def in_order(results: list[dict[str, Any]]) -> list[float]:
    """Scores in the order of the texts."""
    return [one["score"] for one in sorted(results, key=lambda one: int(one["index"]))]


def cosines(folder: Path, query: str, texts: list[str]) -> list[float]:
    """The oracle: each text by itself, in float64."""
    encoder = load_encoder(folder)
    query_D = encoder.encode(query).vector.astype(np.float64)
    return [float(encoder.encode(text).vector.astype(np.float64) @ query_D) for text in texts]


def pair_scores(folder: Path, query: str, texts: list[str]) -> list[float]:
    """The oracle: each pair by itself."""
    reranker = Reranker.load(folder)
    return [reranker.score(reranker.tokenize(query, text)) for text in texts]


@pytest.fixture(params=[None, 0.2, "alone"])
def either(request: pytest.FixtureRequest, serve: Serve, tiny_reranker: Path) -> Serve:
    """Starts the service without a re-ranker, with one, and with one alone."""

    def start(**options: Any) -> TestClient:
        weighed = {} if request.param is None else {"reranker": tiny_reranker, "rerank_weight": request.param}
        return serve(**weighed | options)

    return start


@pytest.fixture
def ranker(either: Serve) -> TestClient:
    return either()


# --- without a re-ranker


def test_without_a_reranker_texts_are_ordered_by_cosine(client: TestClient, tiny_model: Path) -> None:
    expected = cosines(tiny_model, QUERY, list(TEXTS))
    results = ranked(client, QUERY, list(TEXTS))
    np.testing.assert_allclose(in_order(results), [(1 + cosine) / 2 for cosine in expected], atol=1e-6)
    assert [one["index"] for one in results] == sorted(range(len(TEXTS)), key=lambda index: -expected[index])
    np.testing.assert_allclose(in_order(ranked(client, QUERY, list(TEXTS), raw_scores=True)), expected, atol=1e-6)


def test_an_answer_names_the_bi_encoder_that_stands_in(client: TestClient) -> None:
    named = "tiny (bi-encoder)"
    for path in PATHS:
        response = client.post(path, json={"query": QUERY, "documents": list(TEXTS)})
        assert (response.json()["model"], response.headers["x-reranker"]) == (named, named)
    assert client.post("/rerank", json={"query": QUERY, "texts": ["a"]}).headers["x-reranker"] == named


def test_a_model_named_in_any_alphabet_is_named_in_the_header(serve: Serve, tmp_path: Path) -> None:
    build_artifact(tmp_path / "model", name="模型\n1")
    response = serve(model=tmp_path / "model").post("/rerank", json={"query": QUERY, "documents": ["a"]})
    assert response.headers["x-reranker"] == "%E6%A8%A1%E5%9E%8B%0A1 (bi-encoder)"
    assert response.json()["model"] == "模型\n1 (bi-encoder)"


def test_query_and_documents_have_their_prompts_before_them(serve: Serve, tmp_path: Path) -> None:
    prompts = {"query": "man : ", "passage": "stock : "}
    build_artifact(tmp_path / "model", prompts=prompts)
    expected = cosines(tmp_path / "model", "man : " + QUERY, ["stock : " + text for text in TEXTS])
    scores = in_order(ranked(serve(model=tmp_path / "model"), QUERY, list(TEXTS), raw_scores=True))
    np.testing.assert_allclose(scores, expected, atol=1e-6)


# --- with one: test_rerank_both.py has what scores it gives beside the bi-encoder


def test_a_reranker_alone_scores_each_pair(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight="alone")
    expected = pair_scores(tiny_reranker, QUERY, list(TEXTS))
    results = ranked(client, QUERY, list(TEXTS))
    assert in_order(results) == expected
    assert [one["index"] for one in results] == sorted(range(len(TEXTS)), key=lambda index: -expected[index])
    raw = in_order(ranked(client, QUERY, list(TEXTS), raw_scores=True))
    np.testing.assert_allclose(1 / (1 + np.exp(-np.asarray(raw))), expected, rtol=1e-9)
    answer = client.post("/v1/rerank", json={"query": QUERY, "documents": list(TEXTS)})
    assert (answer.json()["model"], answer.headers["x-reranker"]) == ("tiny-reranker", "tiny-reranker")


def test_the_service_says_which_reranker_it_has(serve: Serve, tiny_reranker: Path) -> None:
    info = serve(reranker=tiny_reranker).get("/info").json()["reranker"]
    manifest = load_manifest(tiny_reranker)
    assert (info["name"], info["fingerprint"]) == ("tiny-reranker", manifest.fingerprint)
    assert (info["max_length"], info["languages"]) == (MAX_LENGTH, list(manifest.languages))
    assert info["weight"] == 0.2
    assert serve(reranker=tiny_reranker, rerank_weight="alone").get("/info").json()["reranker"]["weight"] == "alone"
    assert serve().get("/info").json()["reranker"] is None


def test_an_encoder_is_no_reranker(serve: Serve, tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="CROSSLET_RERANKER takes a re-ranker"):
        serve(reranker=tiny_model)
    with pytest.raises(ArtifactError, match=r"does not exist \(CROSSLET_RERANKER, or bundled\)"):
        serve(reranker=tmp_path / "nowhere")


def test_vectors_are_the_same_beside_a_reranker(serve: Serve, client: TestClient, tiny_reranker: Path) -> None:
    beside = serve(reranker=tiny_reranker, rerank_weight="alone", cache_bytes=1_000_000)
    ranked(beside, TEXTS[0], list(TEXTS))
    for _ in range(2):  # computed, then kept
        found = beside.post("/embed", json={"inputs": list(TEXTS)})
        assert found.json() == client.post("/embed", json={"inputs": list(TEXTS)}).json()
        assert in_order(ranked(beside, TEXTS[0], list(TEXTS))) == pair_scores(tiny_reranker, TEXTS[0], list(TEXTS))


# --- shapes


def test_the_shape_of_text_embeddings_inference(client: TestClient) -> None:
    assert all(set(one) == {"index", "score"} for one in ranked(client, QUERY, list(TEXTS)))
    for one in ranked(client, QUERY, list(TEXTS), return_text=True):
        assert one["text"] == TEXTS[one["index"]]


@pytest.mark.parametrize("path", PATHS)
def test_the_shape_of_cohere_and_jina(ranker: TestClient, path: str) -> None:
    client = ranker
    body = {"model": "any", "query": QUERY, "documents": list(TEXTS), "top_n": 3, "return_documents": True}
    response = client.post(path, json=body)
    answer = response.json()
    tokens = int(response.headers["x-tokens"])
    assert set(answer) == {"id", "model", "results", "usage", "meta"}
    assert answer["id"] == response.headers["x-request-id"]
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert answer["meta"] == {"tokens": {"input_tokens": tokens}}
    best = ranked(client, QUERY, list(TEXTS))[:3]
    assert answer["results"] == [
        {"index": one["index"], "relevance_score": one["score"], "document": {"text": TEXTS[one["index"]]}}
        for one in best
    ]
    plain = client.post(path, json={"query": QUERY, "documents": list(TEXTS), "top_n": 99}).json()
    assert len(plain["results"]) == len(TEXTS)
    assert all(set(one) == {"index", "relevance_score"} for one in plain["results"])


def test_documents_may_be_objects_with_a_text(client: TestClient) -> None:
    objects = [{"text": text, "title": "not scored"} for text in TEXTS]
    answers = [
        client.post("/v1/rerank", json={"query": QUERY, "documents": documents}).json()["results"]
        for documents in (objects, list(TEXTS), [*objects[:3], *TEXTS[3:]])
    ]
    assert answers[0] == answers[1] == answers[2]


def test_null_is_the_default(client: TestClient) -> None:
    plain = client.post("/rerank", json={"query": QUERY, "texts": list(TEXTS)}).json()
    nulls = {"raw_scores": None, "return_text": None, "truncate": None, "truncation_direction": None}
    assert client.post("/rerank", json={"query": QUERY, "texts": list(TEXTS)} | nulls).json() == plain
    body = {"query": QUERY, "documents": list(TEXTS)}
    answer = client.post("/v2/rerank", json=body | {"top_n": None, "return_documents": None, "model": None}).json()
    assert answer["results"] == client.post("/v2/rerank", json=body).json()["results"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"query": "a", "texts": []}, ["texts is empty; send at least one text"]),
        ({"query": "a", "documents": []}, ["documents is empty; send at least one text"]),
        ({"query": "a", "documents": ["a", ""]}, ["documents[1] is empty; every text"]),
        ({"query": "", "texts": ["a"]}, ["query is empty; every text"]),
        ({"query": ["a"], "texts": ["a"]}, ["query: "]),
        ({"query": "a"}, ["documents: "]),
        ({"texts": ["a"]}, ["query: "]),
        ({"query": "a", "texts": "a"}, ["texts: "]),
        ({"query": "a", "texts": [{"text": "a"}]}, ["texts[0]: "]),
        ({"query": "a", "documents": ["a", 3]}, ["documents[1]: "]),
        ({"query": "a", "documents": [{"title": "a"}]}, ['documents[0]: an object needs its "text"']),
        ({"query": "a", "documents": [{"text": 3}]}, ['documents[0]: an object needs its "text"']),
        ({"query": "a", "documents": [{"text": "a"}], "rank_fields": ["text", "title"]}, ["rank_fields names others"]),
        ({"query": "a", "documents": ["a"], "top_n": 0}, ["top_n: "]),
        ({"query": "a", "documents": ["a"], "top_n": True}, ["top_n: "]),
        ({"query": "a", "texts": ["a"], "truncation_direction": "left"}, ["truncation_direction is left"]),
        ({"query": "a", "texts": ["a"] * 513}, ["texts has 513 texts", "512 (CROSSLET_MAX_TEXTS)"]),
        ({"query": "a", "documents": ["a"] * 1000}, ["documents has 1000 texts", "512 (CROSSLET_MAX_TEXTS)"]),
        ([], ["must be a JSON object"]),
        ("text", ["must be a JSON object"]),
        (None, ["must be a JSON object"]),
    ],
)
def test_a_wrong_request_is_a_422_that_names_the_field(client: TestClient, body: object, words: list[str]) -> None:
    assert_refused(client.post("/rerank", json=body), 422, "Validation", *words)
    if not (isinstance(body, dict) and "texts" in body):
        for path in PATHS[1:]:
            assert_refused(client.post(path, json=body), 422, "Validation", *words)


def test_the_routes_are_described(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in PATHS:
        assert set(paths[path]) == {"post"}
        assert "429" in paths[path]["post"]["responses"]
        assert {"x-reranker", "x-truncated"} <= set(paths[path]["post"]["responses"]["200"]["headers"])


# --- what goes in


def test_one_document_and_a_thousand_are_scored(either: Serve) -> None:
    client = either(max_texts=1000)
    texts = [f"{TEXTS[number % len(TEXTS)]} {number}" for number in range(1000)]
    many = ranked(client, QUERY, texts)
    assert sorted(one["index"] for one in many) == list(range(1000))
    assert [one["score"] for one in many] == sorted((one["score"] for one in many), reverse=True)
    assert in_order(ranked(client, QUERY, texts[500:501])) == [in_order(many)[500]]


def test_a_huge_document_is_cut_and_reported(client: TestClient) -> None:
    huge = "guitar " * 14_000
    response = client.post("/v2/rerank", json={"query": QUERY, "documents": ["hallo", huge]})
    assert response.headers["x-truncated"] == "1; indices=1"
    assert response.json()["meta"]["warnings"] == ["documents[1] was cut"]
    response = client.post("/rerank", json={"query": LONG, "texts": ["hallo", "welt"]})
    assert response.headers["x-truncated"] == "0; query"
    response = client.post("/v1/rerank", json={"query": LONG, "documents": [LONG]})
    assert response.headers["x-truncated"] == "1; indices=0; query"
    assert response.json()["meta"]["warnings"] == ["query was cut", "documents[0] was cut"]


def test_a_forbidden_cut_names_the_text_and_both_lengths(client: TestClient) -> None:
    for path, key in (("/rerank", "texts"), ("/v1/rerank", "documents")):
        response = client.post(path, json={"query": QUERY, key: ["hallo", LONG], "truncate": False})
        assert_refused(response, 422, "Tokenizer", f"{key}[1] has ", f"the model reads {MAX_LENGTH}")
        response = client.post(path, json={"query": LONG, key: ["hallo"], "truncate": False})
        assert_refused(response, 422, "Tokenizer", "query has ", f"the model reads {MAX_LENGTH}")


def test_a_document_too_long_to_rank_is_refused(client: TestClient) -> None:
    response = client.post("/rerank", json={"query": QUERY, "texts": ["a", "a" * 100_001]})
    assert_refused(response, 422, "Tokenizer", "texts[1] has 100001 characters", "100000 (CROSSLET_MAX_TEXT_CHARS)")


def test_equal_documents_have_equal_scores_and_keep_their_order(ranker: TestClient) -> None:
    texts = [TEXTS[0], TEXTS[7], TEXTS[0], TEXTS[7], TEXTS[0]]
    results = ranked(ranker, TEXTS[0], texts)
    first = [0, 2, 4] if texts[results[0]["index"]] == TEXTS[0] else [1, 3]
    assert [one["index"] for one in results] == first + [index for index in range(5) if index not in first]
    assert len({one["score"] for one in results}) == 2


def test_a_score_is_the_same_to_the_bit_alone_and_in_company(ranker: TestClient) -> None:
    alone = [in_order(ranked(ranker, QUERY, [text]))[0] for text in TEXTS]
    assert in_order(ranked(ranker, QUERY, list(TEXTS))) == alone
    with ThreadPoolExecutor(8) as clients:
        shifted = [[*TEXTS[shift:], *TEXTS[:shift]] for shift in range(len(TEXTS))]
        beside = clients.map(lambda texts: ranker.post("/embed", json={"inputs": texts}).status_code, shifted)
        found = list(clients.map(lambda texts: in_order(ranked(ranker, QUERY, texts)), shifted))
    assert set(beside) == {200}
    assert found == [[*alone[shift:], *alone[:shift]] for shift in range(len(TEXTS))]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    windows=st.booleans(),
    query=st.text(st.characters(), max_size=50),
    texts=st.lists(st.text(st.characters(), max_size=90), max_size=4),
)
def test_any_json_strings_give_scores_or_a_typed_error(
    ranker: TestClient, windows: bool, query: str, texts: list[str]
) -> None:
    content = json.dumps({"query": query, "texts": texts, "windows": windows}).encode()  # lone surrogates as \ud800
    response = ranker.post("/rerank", content=content, headers={"content-type": "application/json"})
    if response.status_code == 200:
        assert sorted(one["index"] for one in response.json()) == list(range(len(texts)))
        assert all(0 <= one["score"] <= 1 for one in response.json())
    else:
        assert response.status_code in {400, 422}
        assert set(response.json()) == {"error", "error_type"}


def test_a_document_the_model_fails_on_is_named(serve: Serve, failing_model: Path, tmp_path: Path) -> None:
    build_reranker(tmp_path / "reranker", fails_on="kaputt")
    for client in (serve(model=failing_model), serve(reranker=tmp_path / "reranker")):
        response = client.post("/rerank", json={"query": QUERY, "texts": ["hallo", "kaputt"]})
        assert_refused(response, 500, "Backend", "texts[1] ")
        assert client.post("/rerank", json={"query": QUERY, "texts": ["hallo"]}).status_code == 200


# --- long passages


def test_windows_give_a_long_passage_the_score_of_its_best_part(serve: Serve, tiny_model: Path) -> None:
    query, long = TEXTS[0], " ".join([TEXTS[7]] * 6 + [TEXTS[0]])
    client = serve()
    response = client.post("/rerank", json={"query": query, "texts": [long, TEXTS[1]], "windows": True})
    assert response.headers["x-truncated"] == "0"
    encoder = load_encoder(tiny_model)
    ids = Tokenizer(tiny_model / "tokenizer.json", max_length=10_000).tokenise(long).input_ids[1:-1]
    room = MAX_LENGTH - 2
    starts = [*range(0, len(ids) - room, room // 2), len(ids) - room]
    query_D = encoder.encode(query).vector
    best = max(float(encoder.encode((2, *ids[start : start + room], 3)).vector @ query_D) for start in starts)
    scores = in_order(response.json())
    assert scores[0] == pytest.approx((1 + best) / 2, abs=1e-6)
    assert scores[1] == in_order(ranked(client, query, [TEXTS[1]]))[0]
    assert scores[0] > in_order(ranked(client, query, [long]))[0]


def test_windows_of_pairs_leave_no_token_out(serve: Serve, tiny_reranker: Path) -> None:
    long = " ".join(TEXTS)
    client = serve(reranker=tiny_reranker, rerank_weight="alone")
    response = client.post("/rerank", json={"query": "guitar", "texts": [long, "hallo"], "windows": True})
    assert response.headers["x-truncated"] == "0"
    reranker = Reranker.load(tiny_reranker)
    parts = reranker.windows("guitar", long)
    assert len(parts) > 3
    assert in_order(response.json())[0] == max(map(reranker.score, parts))
    cut = client.post("/rerank", json={"query": "guitar", "texts": [long, "hallo"]})
    assert cut.headers["x-truncated"] == "1; indices=0"
    assert in_order(cut.json())[1] == in_order(response.json())[1]


def test_too_many_windows_are_refused_with_both_numbers(either: Serve) -> None:
    client = either(max_texts=8)
    body = {"query": "a", "documents": ["hallo", "guitar " * 1000], "windows": True}
    response = client.post("/v1/rerank", json=body)
    assert_refused(response, 422, "Validation", "documents has ", "up to position 1", "is 8 (CROSSLET_MAX_TEXTS)")


def test_a_pair_too_long_names_the_text_and_both_lengths(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight="alone")
    for query, texts, position in (("a", ["hallo", LONG], 1), (LONG, ["a"], 0)):
        response = client.post("/rerank", json={"query": query, "texts": texts, "truncate": False})
        words = f"texts[{position}] and the query have 54 tokens", f"reads {MAX_LENGTH}"
        assert_refused(response, 422, "Tokenizer", *words)
    response = client.post("/rerank", json={"query": "a", "texts": [LONG], "truncate": False, "windows": True})
    assert response.status_code == 200
    cut = client.post("/v1/rerank", json={"query": "a", "documents": ["b", LONG]}).json()
    assert cut["meta"]["warnings"] == ["documents[1] was cut"]


# --- what every route passes


def test_what_is_ranked_is_counted(client: TestClient) -> None:
    response = client.post("/v1/rerank", json={"query": QUERY, "documents": [LONG, "hallo"]})
    lines = client.get("/metrics").text.splitlines()
    assert 'crosslet_requests_total{route="/v1/rerank",status="200"} 1.0' in lines
    assert f"crosslet_tokens_total {float(response.headers['x-tokens'])}" in lines
    assert "crosslet_truncated_inputs_total 1.0" in lines
