"""CROSSLET_LONG_TEXTS: what texts over the model's length get, on every route that embeds."""

import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fastapi.testclient import TestClient

from service import runtime
from service.model.encoder import load_encoder
from tests.artifacts import MAX_LENGTH, TEXTS
from tests.service.api.answers import assert_refused, error_of
from tests.service.conftest import Serve

LONG = " ".join(f"{text} {text}" for text in TEXTS)
ROUTES = {"/embed": "inputs", "/v1/embeddings": "input", "/api/embed": "input", "/v2/embed": "texts"}


def vectors(client: TestClient, texts: list[str], path: str = "/embed", **options: Any) -> npt.NDArray[np.float32]:
    response = client.post(path, json={ROUTES[path]: texts} | options)
    assert response.status_code == 200, response.text
    answer = response.json()
    if path == "/v1/embeddings":
        answer = [one["embedding"] for one in answer["data"]]
    elif path != "/embed":
        answer = answer["embeddings"] if path == "/api/embed" else answer["embeddings"]["float"]
    return np.asarray(answer, np.float32)


@pytest.mark.parametrize("path", ROUTES)
def test_mean_is_that_of_the_passages(serve: Serve, tiny_model: Path, path: str) -> None:
    cutting, averaging = serve(), serve(long_texts="mean")
    passages = [*load_encoder(tiny_model).passages(LONG, prompt="")]
    assert len(passages) > 2
    of_passages = cutting.post("/embed", json={"inputs": passages})
    passage_PD = np.asarray(of_passages.json())
    mean_D = sum(len(passage) * vector_D for passage, vector_D in zip(passages, passage_PD, strict=True))
    mean_D /= np.linalg.norm(mean_D)
    short_D, long_D, last_D = vectors(averaging, [TEXTS[0], LONG, TEXTS[1]], path)
    np.testing.assert_allclose(long_D, mean_D, atol=1e-6)
    assert np.array_equal([short_D, last_D], vectors(cutting, list(TEXTS[:2])))
    assert np.array_equal(vectors(averaging, [LONG], path, truncate=True), [long_D])
    response = averaging.post(path, json={ROUTES[path]: [LONG]})
    assert (response.headers["x-tokens"], response.headers["x-truncated"]) == (of_passages.headers["x-tokens"], "0")


def test_usage_counts_the_tokens_of_all_passages(serve: Serve) -> None:
    response = serve(long_texts="mean").post("/v1/embeddings", json={"input": LONG})
    assert response.json()["usage"]["total_tokens"] == int(response.headers["x-tokens"]) > 2 * MAX_LENGTH


@pytest.mark.parametrize("path", ROUTES)
def test_long_texts_are_refused_where_it_is_set(serve: Serve, path: str) -> None:
    client = serve(long_texts="refuse")
    for options in ({}, {"truncate": True}, {"truncate": "START"}):
        response = client.post(path, json={ROUTES[path]: [TEXTS[0], LONG]} | options)
        assert response.status_code == 422
        assert error_of(response).startswith(f"{ROUTES[path]}[1] has ")
        assert "CROSSLET_LONG_TEXTS" in error_of(response)
    assert len(vectors(client, list(TEXTS), path)) == len(TEXTS)


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("setting", ["cut", "mean", "refuse"])
def test_no_truncation_always_refuses(serve: Serve, path: str, setting: str) -> None:
    response = serve(long_texts=setting).post(path, json={ROUTES[path]: [LONG], "truncate": False})
    assert response.status_code == 422
    assert f"the model reads {MAX_LENGTH}" in error_of(response)


def test_kept_end_goes_before_the_mean(serve: Serve) -> None:
    averaging, cutting = serve(long_texts="mean"), serve()
    ends = [vectors(client, [TEXTS[0], LONG], truncate="START") for client in (averaging, cutting)]
    assert np.array_equal(*ends)


def test_passages_of_a_request_have_a_limit(serve: Serve) -> None:
    client = serve(long_texts="mean", max_passages=5)
    assert len(vectors(client, [*TEXTS[:6]])) == 6  # short texts are none
    response = client.post("/embed", json={"inputs": ["a", LONG]})
    assert_refused(
        response, 422, "Validation", "inputs[1] and those before it", "over 5 passages (CROSSLET_MAX_PASSAGES)"
    )


def test_end_of_token_ids_is_not_kept(serve: Serve) -> None:
    client = serve(token_ids="own")
    for count, status in ((MAX_LENGTH, 200), (MAX_LENGTH + 1, 422)):
        response = client.post("/v1/embeddings", json={"input": [5] * count, "truncate": "START"})
        assert response.status_code == status
    assert error_of(response) == "input is a list of token ids, which keeps its beginning: send text"


@pytest.mark.parametrize("setting", ["cut", "mean", "refuse"])
def test_info_says_what_long_texts_get(serve: Serve, setting: str) -> None:
    info = serve(long_texts=setting).get("/info").json()
    assert (info["long_texts"], info["auto_truncate"]) == (setting, setting != "refuse")


def test_cut_texts_are_logged_once_a_minute(
    client: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(count: int) -> list[int]:
        caplog.clear()
        for _ in range(count):
            vectors(client, [TEXTS[0], LONG, LONG + "a"])
        records = [record for record in caplog.records if "CROSSLET_LONG_TEXTS" in record.message]
        assert not any(TEXTS[0] in record.getMessage() for record in records)
        return [record.__dict__["texts"] for record in records]

    with caplog.at_level(logging.WARNING):
        assert warned(2) == [2]  # the first at once
        later = time.monotonic() + 61
        monkeypatch.setattr(runtime, "time", SimpleNamespace(monotonic=lambda: later))
        assert warned(1) == [4]  # with those that came meanwhile
