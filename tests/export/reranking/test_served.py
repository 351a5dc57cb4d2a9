"""A trained cross-encoder, exported to int8 and served beside the bundled encoder."""

from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient

from export.__main__ import main
from service.api.app import create_app
from service.model.reranker import Reranker
from service.runtime import load_runtime
from service.settings import Settings
from tests.export.reranking.checkpoints import KNOWN, PASSAGES, PLACES, QUERIES, save_reranker


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """How near int8 is to fp32 is for other tests: so small a model loses much."""
    folder = tmp_path_factory.mktemp("served")
    torch.manual_seed(0)
    save_reranker(folder / "checkpoint")
    gate = ["--min-rank-correlation", "-1", "--max-acc1-drop", "100"]
    assert main(["--checkpoint", str(folder / "checkpoint"), "--out", str(folder / "artifact"), *gate]) == 0
    return folder / "artifact"


def test_an_exported_reranker_answers_over_http_as_it_scores_alone(served: Path, tmp_path: Path) -> None:
    reranker = Reranker.load(served)
    settings = Settings(reranker=served, rerank_weight="alone", data=tmp_path)
    with TestClient(create_app(load_runtime(settings)), base_url="http://localhost") as client:
        for query in QUERIES[:2]:
            plain = client.post("/v2/rerank", json={"query": query, "documents": PASSAGES}).json()
            assert plain["model"] == "tiny-bert"
            scores = {one["index"]: one["relevance_score"] for one in plain["results"]}
            for index, passage in enumerate(PASSAGES):
                assert scores[index] == reranker.score(reranker.tokenize(query, passage))
            assert plain["results"][0]["index"] < KNOWN * len(PLACES)  # it was trained to tell these from the others
            body = {"query": query, "documents": PASSAGES, "windows": True}
            assert client.post("/v2/rerank", json=body).json()["results"] == plain["results"]  # all of them fit
