import json
import re
from collections.abc import Sequence
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
from service.model.encoder import TextInput, load_encoder
from service.model.reranker import Reranker
from service.model.tokenizer import Tokenizer
from tests.artifacts import MAX_LENGTH, TEXTS, build_artifact
from tests.reranker_artifact import build_reranker
from tests.service.api.answers import assert_refused, put_texts, search
from tests.service.conftest import Serve

QUERY = "Who plays the guitar?"
LONG = "guitar " * 50
WEIGHT = 0.4
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


def cosines(folder: Path, query: str, texts: Sequence[TextInput]) -> list[float]:
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


# --- with one


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


@pytest.fixture
def both(serve: Serve, tmp_path: Path, tiny_reranker: Path) -> TestClient:
    build_artifact(tmp_path / "model", prompts={"query": "man : ", "passage": "stock : "})
    return serve(model=tmp_path / "model", reranker=tiny_reranker, rerank_weight=WEIGHT)


def test_a_score_is_the_cosine_raised_by_the_rerankers(both: TestClient, tmp_path: Path, tiny_reranker: Path) -> None:
    """x = c + w p (1 - c), mapped to [0, 1]."""
    cosine_N = np.array(cosines(tmp_path / "model", "man : " + QUERY, ["stock : " + text for text in TEXTS]))
    expected_N = cosine_N + WEIGHT * np.array(pair_scores(tiny_reranker, QUERY, list(TEXTS))) * (1 - cosine_N)
    np.testing.assert_allclose(in_order(ranked(both, QUERY, list(TEXTS), raw_scores=True)), expected_N, atol=1e-6)
    scores = in_order(ranked(both, QUERY, list(TEXTS)))
    np.testing.assert_allclose(scores, (1 + expected_N) / 2, atol=1e-6)
    for path in PATHS:
        response = both.post(path, json={"query": QUERY, "documents": list(TEXTS)})
        found = {one["index"]: one["relevance_score"] for one in response.json()["results"]}
        assert [found[index] for index in range(len(TEXTS))] == scores
        assert (response.json()["model"], response.headers["x-reranker"]) == ("tiny-reranker", "tiny-reranker")


def test_the_rerankers_own_scores_stand_beside_the_scores(both: TestClient, tiny_reranker: Path) -> None:
    own = pair_scores(tiny_reranker, QUERY, list(TEXTS))
    plain = ranked(both, QUERY, list(TEXTS))
    results = ranked(both, QUERY, list(TEXTS), reranker_scores=True)
    assert results == [one | {"reranker_score": own[one["index"]]} for one in plain]
    for path in PATHS:
        answer = both.post(path, json={"query": QUERY, "documents": list(TEXTS), "reranker_scores": True}).json()
        assert [one["reranker_score"] for one in answer["results"]] == [own[one["index"]] for one in answer["results"]]
        answer = both.post(path, json={"query": QUERY, "documents": list(TEXTS)}).json()
        assert all("reranker_score" not in one for one in answer["results"])


def test_a_long_passages_own_score_is_its_best_windows(both: TestClient, tiny_reranker: Path) -> None:
    reranker = Reranker.load(tiny_reranker)
    windows = reranker.windows(QUERY, LONG)
    assert len(windows) > 1
    (result,) = ranked(both, QUERY, [LONG], windows=True, reranker_scores=True)
    assert result["reranker_score"] == max(map(reranker.score, windows))


def test_a_reranker_alone_has_its_own_scores(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, rerank_weight="alone")
    results = ranked(client, QUERY, list(TEXTS), reranker_scores=True)
    assert [one["score"] for one in results] == [one["reranker_score"] for one in results]


def test_without_a_reranker_its_own_scores_are_refused(client: TestClient) -> None:
    for path in PATHS:
        response = client.post(path, json={"query": QUERY, "documents": ["a"], "reranker_scores": True})
        assert_refused(response, 422, "Validation", "reranker_scores", "CROSSLET_RERANKER")


def test_the_weight_0_is_the_bi_encoder(serve: Serve, client: TestClient, tiny_reranker: Path) -> None:
    weightless = serve(reranker=tiny_reranker, rerank_weight=0)
    assert ranked(weightless, QUERY, list(TEXTS)) == ranked(client, QUERY, list(TEXTS))


def test_a_search_by_vectors_and_rerank_give_the_same_scores(both: TestClient) -> None:
    put_texts(both, TEXTS)
    results = search(both, query=QUERY, mode="dense", rerank=True, top_k=len(TEXTS))
    raw = in_order(ranked(both, QUERY, list(TEXTS), raw_scores=True))
    assert {int(one["id"]): one["score"] for one in results} == pytest.approx(dict(enumerate(raw)), abs=1e-6)


def test_the_cost_is_that_of_both_models(serve: Serve, client: TestClient, tiny_reranker: Path) -> None:
    body = {"query": QUERY, "documents": [*TEXTS, TEXTS[0]]}
    alone, both = (serve(reranker=tiny_reranker, rerank_weight=weight) for weight in ("alone", WEIGHT))
    tokens = [int(one.post("/v2/rerank", json=body).headers["x-tokens"]) for one in (client, alone)]
    response = both.post("/v2/rerank", json=body)
    assert int(response.headers["x-tokens"]) == sum(tokens)
    assert response.json()["usage"]["total_tokens"] == sum(tokens)
    assert f"crosslet_tokens_total {float(sum(tokens))}" in both.get("/metrics").text.splitlines()


def test_cosines_come_from_the_cache_and_keep_their_bits(serve: Serve, tiny_reranker: Path) -> None:
    plain, kept = (serve(reranker=tiny_reranker, cache_bytes=size) for size in (0, 1_000_000))
    scores = ranked(plain, QUERY, list(TEXTS))
    for _ in range(2):  # computed, then kept
        assert ranked(kept, QUERY, list(TEXTS)) == scores
    assert f"crosslet_cache_hits_total {float(1 + len(TEXTS))}" in kept.get("/metrics").text.splitlines()


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


def test_empty_and_blank_documents_score_lowest(either: Serve) -> None:
    client = either()
    texts = ["", *TEXTS[:3], " \n\u3000"]
    for windows in (False, True):
        plain, raw = (ranked(client, QUERY, texts, raw_scores=raw, windows=windows) for raw in (False, True))
        assert [hit["index"] for hit in plain] == [hit["index"] for hit in raw]
        assert [(hit["index"], hit["score"]) for hit in plain[3:]] == [(0, 0.0), (4, 0.0)]
        alone = ranked(client, QUERY, list(TEXTS[:3]), windows=windows)
        assert [(hit["index"] - 1, hit["score"]) for hit in plain[:3]] == [
            (hit["index"], hit["score"]) for hit in alone
        ]


def test_texts_may_be_the_best_few(client: TestClient) -> None:
    assert ranked(client, QUERY, list(TEXTS), top_n=2) == ranked(client, QUERY, list(TEXTS))[:2]


def test_documents_may_be_objects_with_a_text(client: TestClient) -> None:
    objects = [{"text": text, "title": "not scored"} for text in TEXTS]
    answers = [
        client.post("/v1/rerank", json={"query": QUERY, "documents": documents}).json()["results"]
        for documents in (objects, list(TEXTS), [*objects[:3], *TEXTS[3:]])
    ]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"query": "a", "texts": []}, ["texts is empty; send at least one text"]),
        ({"query": "a", "documents": []}, ["documents is empty; send at least one text"]),
        ({"query": "a", "documents": ["", ""]}, ["documents[0] is empty; every text"]),
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


# --- what goes in


def test_one_document_and_a_thousand_are_scored(either: Serve) -> None:
    client = either(max_texts=1000)
    texts = [f"{TEXTS[number % len(TEXTS)]} {number}" for number in range(1000)]
    many = ranked(client, QUERY, texts)
    assert sorted(one["index"] for one in many) == list(range(1000))
    assert [one["score"] for one in many] == sorted((one["score"] for one in many), reverse=True)
    assert in_order(ranked(client, QUERY, texts[500:501])) == [in_order(many)[500]]


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


# --- what does not fit

FITS = "guitar " * (MAX_LENGTH - 3)  # the bi-encoder; a pair has the query as well, and half of its room for that


@pytest.mark.parametrize(
    ("weight", "query", "documents", "truncated", "warnings"),
    [
        (None, QUERY, ["hallo", LONG], "1; indices=1", ["documents[1]"]),
        (None, LONG, ["hallo", "welt"], "0; query", ["query"]),
        (None, LONG, [LONG], "1; indices=0; query", ["query", "documents[0]"]),
        ("alone", "a", ["b", LONG], "1; indices=1", ["documents[1]"]),
        ("alone", FITS, ["hallo"], "0; query", ["query"]),
        (0.2, FITS, ["hallo"], "0; query", ["query"]),
        (0.2, FITS, ["hallo", LONG], "1; indices=1; query", ["query", "documents[1]"]),
        (0.2, QUERY, ["hallo", FITS, LONG], "2; indices=1,2", ["documents[1]", "documents[2]"]),
        (0.2, "a", [LONG], "1; indices=0", ["documents[0]"]),
    ],
)
def test_what_either_model_cuts_is_reported(
    serve: Serve,
    tiny_reranker: Path,
    weight: Any,
    query: str,
    documents: list[str],
    truncated: str,
    warnings: list[str],
) -> None:
    client = serve() if weight is None else serve(reranker=tiny_reranker, rerank_weight=weight)
    body = {"query": query, "documents": documents}
    response = client.post("/v2/rerank", json=body)
    assert response.headers["x-truncated"] == truncated
    assert response.json()["meta"]["warnings"] == [f"{name} was cut" for name in warnings]
    in_windows = client.post("/v2/rerank", json=body | {"windows": True})  # which read all of a passage
    assert in_windows.headers["x-truncated"] == ("0; query" if "query" in warnings else "0")


@pytest.mark.parametrize(
    ("weight", "query", "texts", "message"),  # both models cut LONG: the one that finds it first names it
    [
        (None, QUERY, ["hallo", LONG], r"texts\[1\] has "),
        (None, LONG, ["hallo"], r"query has "),
        (0.2, "a", ["hallo", LONG], r"texts\[1\] (and the query have|has) "),
        (0.2, LONG, ["hallo"], r"(query has|texts\[0\] and the query have) "),
        (0.2, QUERY, ["hallo", FITS], r"texts\[1\] and the query have .* the re-ranker"),
        ("alone", "a", ["hallo", LONG], r"texts\[1\] and the query have 54 tokens"),
        ("alone", LONG, ["a"], r"texts\[0\] and the query have 54 tokens"),
    ],
)
def test_a_forbidden_cut_names_the_text_and_both_lengths(
    serve: Serve, tiny_reranker: Path, weight: Any, query: str, texts: list[str], message: str
) -> None:
    client = serve() if weight is None else serve(reranker=tiny_reranker, rerank_weight=weight)
    response = client.post("/rerank", json={"query": query, "texts": texts, "truncate": False})
    assert_refused(response, 422, "Tokenizer")
    assert re.match(f"{message}.* reads {MAX_LENGTH}", response.json()["error"]), response.text


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


def test_each_model_takes_its_own_best_window(serve: Serve, tiny_model: Path, tiny_reranker: Path) -> None:
    client, long = serve(reranker=tiny_reranker, rerank_weight=WEIGHT), " ".join(TEXTS)
    encoder, reranker = load_encoder(tiny_model), Reranker.load(tiny_reranker)
    parts, pairs = encoder.windows(long, prompt=""), reranker.windows(QUERY, long)
    assert min(len(parts), len(pairs)) > 3
    cosine, score = max(cosines(tiny_model, QUERY, parts)), max(map(reranker.score, pairs))
    found = in_order(ranked(client, QUERY, [long, "hallo"], windows=True, raw_scores=True))
    assert found[0] == pytest.approx(cosine + WEIGHT * score * (1 - cosine), abs=1e-6)
    assert found[1] == in_order(ranked(client, QUERY, ["hallo"], raw_scores=True))[0]


def test_as_many_windows_as_texts_are_allowed_for_each_model(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker, max_texts=len(TEXTS))
    body = {"query": "a", "documents": ["hallo"] * len(TEXTS), "windows": True}
    assert client.post("/v2/rerank", json=body).status_code == 200


def test_too_many_windows_are_refused_with_both_numbers(either: Serve) -> None:
    client = either(max_texts=8)
    body = {"query": "a", "documents": ["hallo", "guitar " * 1000], "windows": True}
    response = client.post("/v1/rerank", json=body)
    assert_refused(response, 422, "Validation", "documents has ", "up to position 1", "is 8 (CROSSLET_MAX_TEXTS)")
