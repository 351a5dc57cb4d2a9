"""Long documents over HTTP: put, found by a passage, re-ranked by it; and whole, where that is asked for."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from tests.artifacts import TEXTS
from tests.service.api import answers
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

LONG = " ".join(TEXTS * 6)
QUERY = TEXTS[5]


def put(client: TestClient, documents: dict[str, str], **body: Any) -> Any:
    listed = ({"id": id_, "text": text, "metadata": {"of": id_}} for id_, text in documents.items())
    response = answers.put(client, *listed, **body)
    assert response.status_code == 200, response.text
    return response


def search(client: TestClient, **body: Any) -> Any:
    return answers.search(client, query=QUERY, mode="dense", **body)


def test_long_document_has_the_score_of_its_best_passage(client: TestClient, tiny_model: Path) -> None:
    answer = put(client, {"long": LONG, "short": TEXTS[0]})
    assert answer.json()["upserted"] == 2
    assert answer.headers["x-truncated"] == "0"
    encoder = load_encoder(tiny_model)
    spans = encoder.splitter.split(LONG)
    assert len(spans) > 2
    query_D = encoder.encode(QUERY).vector
    scores = [float(encoder.encode(LONG[start:stop]).vector @ query_D) for start, stop in spans]
    found = {one["id"]: one for one in search(client)}
    assert found["long"]["score"] == pytest.approx(max(scores), abs=1e-6)
    passage = found["long"]["passage"]
    assert (passage["start"], passage["end"]) == spans[scores.index(max(scores))]
    assert found["long"]["text"][passage["start"] : passage["end"]] == passage["text"]
    assert "passage" not in found["short"]
    assert client.get("/info").json()["index"]["documents"] == 2
    assert client.post("/documents/count", json={}).json() == {"count": 2}


def test_the_passage_alone_can_be_asked_for(client: TestClient) -> None:
    put(client, {"long": LONG, "short": TEXTS[0]})
    found = {one["id"]: one for one in search(client, include=["passage"])}
    assert found["short"] == {
        "id": "short",
        "score": found["short"]["score"],
        "passage": {"text": TEXTS[0], "start": 0, "end": len(TEXTS[0])},
    }
    assert len(found["long"]["passage"]["text"]) < len(LONG)
    assert all("passage" not in one for one in search(client, include=["metadata"]))


def test_chunk_false_embeds_the_beginning(client: TestClient, tiny_model: Path) -> None:
    answer = put(client, {"short": TEXTS[0], "long": LONG}, chunk=False)
    assert answer.headers["x-truncated"] == "1; indices=1"
    encoder = load_encoder(tiny_model)
    (found,) = search(client, filter={"of": "long"})
    assert found["score"] == pytest.approx(float(encoder.encode(LONG).vector @ encoder.encode(QUERY).vector), abs=1e-6)
    assert "passage" not in found
    put(client, {"long": LONG})
    assert search(client, filter={"of": "long"})[0]["passage"]


def test_a_setting_chooses_for_requests_that_do_not_say(serve: Serve) -> None:
    client = serve(chunk=False)
    assert put(client, {"long": LONG}).headers["x-truncated"] != "0"
    assert put(client, {"long": LONG}, chunk=True).headers["x-truncated"] == "0"


def test_too_many_passages_are_refused_with_the_setting(serve: Serve) -> None:
    client = serve(max_passages=4)
    response = answers.put(client, {"id": "a", "text": "x"}, {"id": "long", "text": LONG})
    assert_refused(response, 422, "Validation", "passages up to position 1; the limit is 4 (CROSSLET_MAX_PASSAGES)")
    assert client.post("/documents/count", json={}).json() == {"count": 0}


def test_the_reranker_reads_the_best_passage(serve: Serve, tiny_reranker: Path) -> None:
    client = serve(reranker=tiny_reranker)
    put(client, {"long": LONG, "short": TEXTS[0]})
    plain = search(client, include=["passage"])
    passages = {one["id"]: one["passage"]["text"] for one in plain}
    reranker = Reranker.load(tiny_reranker)
    scores = {id_: reranker.score(reranker.tokenize(QUERY, text)) for id_, text in passages.items()}
    expected = {one["id"]: one["score"] + 0.2 * scores[one["id"]] * (1 - one["score"]) for one in plain}
    found = search(client, rerank=True)
    assert {one["id"]: one["score"] for one in found} == pytest.approx(expected)
    assert next(one for one in found if one["id"] == "long")["passage"]["text"] == passages["long"]


def test_milvus_has_passages(serve: Serve, tmp_path: Path) -> None:
    client = serve(index=f"milvus+lite://{tmp_path}/documents.db")
    assert put(client, {"long": LONG}).headers["x-truncated"] == "0"
    assert answers.put(client, {"id": "cut", "text": LONG}, chunk=False).headers["x-truncated"] == "1; indices=0"


def test_a_passage_that_fails_fails_its_document_and_no_other(serve: Serve, failing_model: Path) -> None:
    client = serve(model=failing_model)
    answer = put(client, {"a": LONG, "b": f"{LONG} kaputt.", "c": TEXTS[0]}).json()
    assert answer["upserted"] == 2
    assert [one["id"] for one in answer["failed"]] == ["b"]
    assert {one["id"] for one in search(client)} == {"a", "c"}
    alone = answers.put(client, {"id": "b", "text": f"{LONG} kaputt."})
    assert_refused(alone, 500, "Backend", "documents[0].text")
