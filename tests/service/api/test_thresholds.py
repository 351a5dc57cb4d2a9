from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.artifacts import TEXTS, build_artifact, write_manifest
from tests.service.api.answers import assert_refused, put_texts
from tests.service.conftest import Serve


@pytest.fixture
def recommending(tmp_path: Path) -> Path:
    """The folder of a model that recommends thresholds."""
    folder = tmp_path / "recommending"
    build_artifact(folder)
    write_manifest(folder, evaluation={"served": {"search_min_score": {"de": -1.0, "all": 0.999}}})
    return folder


def search(client: TestClient, **body: Any) -> tuple[list[str], float | None]:
    answer = client.post("/search", json={"query": TEXTS[0], "mode": "dense", "min_score": "auto", **body}).json()
    return [result["id"] for result in answer["results"]], answer.get("min_score")


def test_auto_is_the_threshold_of_the_language_or_of_all(serve: Serve, recommending: Path) -> None:
    client = put_texts(serve(model=recommending), TEXTS[:4])
    for language in (None, "fr", "xx"):
        assert search(client, language=language) == (["0"], 0.999)
    for language in ("de", "DE", "de-AT"):
        ids, threshold = search(client, language=language)
        assert (len(ids), threshold) == (4, -1.0)
    assert search(client, min_score=0.5)[1] is None
    assert search(client, min_score=None) == (search(client, min_score=-1)[0], None)
    assert search(client, mode="hybrid")[1] == 0.999


def test_auto_is_refused_where_nothing_is_recommended(serve: Serve, recommending: Path, client: TestClient) -> None:
    for body, where, words in (
        ({"min_score": True}, client, "valid number"),
        ({"min_score": "0.3"}, client, "valid number"),
        ({"mode": "keywords"}, serve(model=recommending), "a search by keywords has none: send a number"),
        ({}, client, "model tiny recommends none (`min_scores` in GET /info)"),
        ({"language": "de", "min_score": 0.1}, client, "language only chooses"),
        ({"min_score": "high"}, client, "min_score"),
        ({"min_score": 2}, client, "min_score"),
    ):
        answer = where.post("/search", json={"query": "a", "min_score": "auto", **body})
        assert_refused(answer, 422, "Validation", words)
