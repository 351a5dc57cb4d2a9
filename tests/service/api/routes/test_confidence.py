"""POST /search: how sure it is, what is withheld, and which requests are refused."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.errors import ArtifactError
from service.model.artifact import load_manifest
from tests.artifacts import TEXTS, build_artifact, write_manifest
from tests.service.api.answers import assert_refused, put, put_texts
from tests.service.conftest import Serve, serving
from tests.service.model.test_confidence import MODEL


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrated")
    build_artifact(folder)
    write_manifest(folder, confidence=MODEL)
    return folder


@pytest.fixture
def serve(calibrated: Path, tmp_path: Path) -> Iterator[Serve]:
    with serving(calibrated, tmp_path) as start:
        yield start


def ask(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/search", json={"query": TEXTS[1], "include": []} | body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_below_the_least_confidence_nothing_is_found(client: TestClient, mode: str) -> None:
    put_texts(client, TEXTS)
    answer = ask(client, mode=mode)
    sure = answer["confidence"]
    assert 0 < sure < 1
    assert answer["answered"] is True
    assert ask(client, mode=mode, min_confidence=sure)["results"] == answer["results"]
    above = ask(client, mode=mode, min_confidence=min(1, sure + 1e-9))
    assert (above["results"], above["answered"], above["confidence"]) == ([], False, sure)
    withheld = ask(client, mode=mode, min_confidence=1, include=["withheld"])
    assert (withheld["results"], withheld["answered"]) == (answer["results"], False)


def test_each_of_several_queries_has_an_answer(client: TestClient) -> None:
    put_texts(client, TEXTS)
    alone = [ask(client, query=text)["confidence"] for text in TEXTS[:3]]
    response = client.post("/search", json={"queries": TEXTS[:3], "include": [], "min_confidence": sorted(alone)[1]})
    body = response.json()
    assert [one["confidence"] for one in body["answers"]] == alone
    is_sure = [value >= sorted(alone)[1] for value in alone]
    assert [one["answered"] for one in body["answers"]] == is_sure
    assert [bool(results) for results in body["results"]] == is_sure
    assert "confidence" not in body


@pytest.mark.parametrize(
    "arranged",
    [
        {"offset": 3},
        {"top_k": 1},
        {"sort": [{"n": "desc"}], "top_k": 5},
        {"group_by": "n"},
        {"top_k": 2, "include": ["text", "vector", "passage"]},
    ],
)
def test_pages_orders_and_groups_change_no_confidence(client: TestClient, arranged: dict[str, Any]) -> None:
    put(client, *({"id": str(n), "text": text, "metadata": {"n": n % 4}} for n, text in enumerate(TEXTS)))
    assert ask(client, **arranged)["confidence"] == ask(client)["confidence"]


def test_the_document_that_is_preferred_counts(client: TestClient) -> None:
    put(client, *({"id": str(n), "text": text, "metadata": {"n": n}} for n, text in enumerate(TEXTS)))
    preferred = ask(client, query="so so", prefer={"field": "n", "value": 8, "weight": 1})
    assert preferred["results"][0]["id"] == "8"
    assert preferred["confidence"] != ask(client, query="so so")["confidence"]


def test_more_answers_expected_make_it_surer(serve: Serve) -> None:
    shares = (0.2, 0.7, 0.9)
    clients = [put_texts(serve(expected_answerable=share), TEXTS) for share in shares]
    sure = [ask(client)["confidence"] for client in clients]
    assert sure == sorted(set(sure))
    assert clients[0].get("/info").json()["confidence"] == {"expected_answerable": 0.2, "min_confidence": None}


def test_a_setting_withholds_what_no_request_names(serve: Serve) -> None:
    client = put_texts(serve(min_confidence=1.0), TEXTS)
    assert ask(client)["results"] == []
    assert len(ask(client, min_confidence=0)["results"]) == 10
    assert len(ask(client, mode="keywords")["results"]) > 0  # has no confidence
    assert len(client.post("/search", json={"like": "1"}).json()["results"]) == 10
    assert "confidence" not in client.post("/search", json={"filter": {}}).json()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"like": "1"}, "like asks nothing"),
        ({"vector": [1.0] * 16}, "vector asks nothing"),
        ({"query": "so", "mode": "keywords"}, "no cosines"),
        ({"query": "so", "filter": {"n": 1}}, "differs from the first"),
        ({"queries": ["so", "fa"], "filter": {"n": 1}}, "differs from the first"),
    ],
)
def test_without_a_confidence_it_says_why(client: TestClient, body: dict[str, Any], reason: str) -> None:
    put(client, *({"id": str(n), "text": text, "metadata": {"n": n}} for n, text in enumerate(TEXTS)))
    answer = client.post("/search", json=body).json()
    for one in answer.get("answers", [answer]):
        assert one["confidence"] is None
        assert reason in one["confidence_is_null"]
    refused = client.post("/search", json=body | {"min_confidence": 0.5})
    assert_refused(refused, 422, "Validation", "min_confidence", reason)


def test_an_uncalibrated_model_and_a_filter_alone_have_none(tiny_model: Path, tmp_path: Path) -> None:
    with serving(tiny_model, tmp_path) as start:
        client = put_texts(start(), TEXTS)
        assert "not calibrated" in ask(client)["confidence_is_null"]
        assert client.get("/info").json()["confidence"] is None
        refused = client.post("/search", json={"query": "so", "min_confidence": 0.5})
        assert_refused(refused, 422, "Validation", "not calibrated")
        refused = client.post("/search", json={"filter": {}, "min_confidence": 0.5})
        assert_refused(refused, 422, "Validation", "min_confidence needs a query")


def test_where_nothing_is_found_it_is_0(client: TestClient) -> None:
    assert ask(client, min_confidence=0.1) | {"took_ms": 0} == {
        **{"results": [], "confidence": 0.0, "answered": False, "total": None, "took_ms": 0},
    }


def test_a_least_score_holds_beside_it(client: TestClient) -> None:
    put_texts(client, TEXTS)
    answer = ask(client, min_score=1, query="zebra", min_confidence=0)
    assert answer["results"] == []
    assert answer["answered"] is False
    assert answer["confidence"] > 0


def test_five_documents_and_long_ones_have_a_confidence(client: TestClient) -> None:
    long = [f"{text}. " * 40 for text in TEXTS[:5]]
    put(client, *({"id": str(n), "text": text} for n, text in enumerate(long)), chunk=True)
    assert 0 < ask(client)["confidence"] < 1


def test_a_manifest_with_other_weights_is_refused(calibrated: Path, tmp_path: Path) -> None:
    build_artifact(tmp_path)
    write_manifest(tmp_path, confidence=MODEL)
    assert load_manifest(tmp_path).confidence == MODEL
    text = (tmp_path / "manifest.json").read_text("utf-8")
    (tmp_path / "manifest.json").write_text(text.replace('"means": [', '"means": [\n0.5,', 1), "utf-8")
    with pytest.raises(ArtifactError, match="has a confidence of"):
        load_manifest(tmp_path)


def test_other_weights_of_confidence_are_another_identity(calibrated: Path) -> None:
    manifest = load_manifest(calibrated)
    refitted = replace(manifest, confidence=replace(MODEL, hybrid=replace(MODEL.hybrid, intercept=7.5)))
    assert refitted.fingerprint == manifest.fingerprint
    assert refitted.confidence_fingerprint != manifest.confidence_fingerprint
    assert replace(manifest, confidence=MODEL).confidence_fingerprint == manifest.confidence_fingerprint  # as written


def test_a_collection_recalibrates_its_confidence(serve: Serve, calibrated: Path) -> None:
    client = serve()
    put_texts(client, TEXTS)
    before = ask(client)["confidence"]
    fingerprint = load_manifest(calibrated).confidence_fingerprint
    odds = math.log(before / (1 - before))
    shift = MODEL.prior_shift(0.7)
    own = {"expected_answerable": 0.4, "scale": 0.5, "shift": 1.0, "fingerprint": fingerprint}
    described = client.put("/collections/default", json={"confidence": own})
    assert described.status_code == 200, described.text
    assert described.json()["confidence"] == own
    wanted = 1 + 0.5 * (odds - shift) + MODEL.prior_shift(0.4)
    assert ask(client)["confidence"] == pytest.approx(1 / (1 + math.exp(-wanted)))
    assert client.put("/collections/default", json={}).json()["confidence"] == own
    assert client.get("/info").json()["collections"][0]["confidence"] == own
    of_another = own | {"fingerprint": "other weights"}
    client.put("/collections/default", json={"confidence": of_another})
    assert ask(client)["confidence"] == pytest.approx(1 / (1 + math.exp(-(odds - shift + MODEL.prior_shift(0.4)))))
    assert client.put("/collections/default", json={"confidence": None}).json()["confidence"] is None
    assert ask(client)["confidence"] == before


@pytest.mark.parametrize(
    "own", [{"expected_answerable": 1}, {"scale": 0}, {"shift": 11}, {"shift": "1"}, {"bias": 1}, 0.5], ids=str
)
def test_a_malformed_recalibration_is_refused(client: TestClient, own: object) -> None:
    assert_refused(client.put("/collections/default", json={"confidence": own}), 422, "Validation", "confidence")


@pytest.mark.parametrize("where", ["embedded", "milvus-lite"])
def test_confidence_alone_leaves_own_fields_as_they_are(serve: Serve, tmp_path: Path, where: str) -> None:
    index = {} if where == "embedded" else {"index": f"milvus+lite://{tmp_path}/documents.db"}
    client = serve(**index)
    own = {"text": "{title}", "fields": ["price"]}
    assert client.put("/collections/shop", json=own).status_code == 200
    goods = [{"id": "1", "title": "A man is playing a guitar.", "price": 3}]
    assert client.put("/collections/shop/documents", json={"documents": goods}).status_code == 200
    described = client.put("/collections/shop", json={"confidence": {"expected_answerable": 0.9}}).json()
    assert (described["text"], described["fields"]) == ("{title}", ["price"])
    assert described["confidence"]["expected_answerable"] == 0.9
    made = client.put("/collections/new", json={"confidence": {"expected_answerable": 0.4}})
    assert (made.status_code, made.json()["documents"]) == (200, 0)
