"""Prompts over the tiny model; `tests/export/test_bi_encoder.py` compares with sentence-transformers."""

import base64
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from fastapi.testclient import TestClient

from service.cli import main as cli
from service.errors import ArtifactError, InvalidInput
from service.model.encoder import load_encoder
from service.model.prompts import Prompts
from tests.artifacts import TEXTS, build_artifact, write_manifest
from tests.service.conftest import Serve
from tests.service.offline.files import DOCUMENTS, write_jsonl

PROMPTS = {"query": "gitarre ", "document": "stock market ", "plain": "", "sts": "bugün "}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompted")
    build_artifact(folder, prompts=PROMPTS, default_prompt_name="sts")
    return folder


@pytest.fixture
def environment(prompted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLET_MODEL", str(prompted))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "data"))


def vector(folder: Path, name: str, text: str) -> npt.NDArray[np.float32]:
    return load_encoder(folder).encode(PROMPTS[name] + text).vector


def crosslet(capsys: Capture, *arguments: object) -> str:
    assert cli.main([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


# --- which prompt


def test_a_document_has_the_first_of_three_names_that_has_a_text() -> None:
    assert Prompts({"passage": "p", "corpus": "c"}).document == "p"
    assert Prompts({"document": "", "passage": "p"}).document == "p"
    assert Prompts({"document": "d", "passage": "p"}).chosen(None, "passage") == "p"
    assert (
        Prompts({"document": "", "query": "q"}, "query").document == ""
    )  # not the default: it says that there is none


def test_where_no_name_is_known_it_is_the_default() -> None:
    prompts = Prompts({"sts": "s"}, "sts")
    assert (prompts.query, prompts.document, prompts.chosen(None), prompts.chosen(None, "query")) == ("s",) * 4


def test_model_without_prompts_adds_none() -> None:
    prompts = Prompts({})
    for input_type in ("query", "search_query", "document", "search_document", "passage"):
        assert prompts.chosen(None, input_type) == ""
    for options in ({"prompt_name": "query"}, {"prompt_name": None, "input_type": "classification"}):
        with pytest.raises(InvalidInput, match=r"is set, but this model has no prompts: leave it out"):
            prompts.chosen(**options)


# --- artifacts


def test_the_parity_pack_is_checked_behind_the_default_prompt(tmp_path: Path) -> None:
    build_artifact(tmp_path, prompts=PROMPTS, default_prompt_name="sts")
    load_encoder(tmp_path)
    write_manifest(tmp_path, prompts=PROMPTS, default_prompt_name="query")
    with pytest.raises(ArtifactError, match="parity text 0 gives other token ids"):
        load_encoder(tmp_path)


# --- HTTP


def test_every_route_that_embeds_puts_its_prompt_first(serve: Serve, prompted: Path) -> None:
    client = serve(model=prompted, cache_bytes=1_000_000)
    for name, options in {"sts": {}, "query": {"prompt_name": "query"}, "plain": {"prompt_name": "plain"}}.items():
        expected = vector(prompted, name, TEXTS[0])
        for _ in range(2):  # computed, and from the cache
            found = client.post("/embed", json={"inputs": TEXTS[0]} | options).json()
            assert np.array_equal(np.asarray(found, np.float32), [expected])
        body = {"input": TEXTS[0], "encoding_format": "base64"} | options
        (one,) = client.post("/v1/embeddings", json=body).json()["data"]
        assert base64.b64decode(one["embedding"]) == expected.tobytes()


@pytest.mark.parametrize("long_texts", ["cut", "mean"])
def test_token_ids_are_refused_where_a_prompt_is_due(serve: Serve, prompted: Path, long_texts: str) -> None:
    client = serve(model=prompted, token_ids=True, long_texts=long_texts)
    answer = client.post("/v1/embeddings", json={"input": [[2, 5, 3]]})
    assert answer.status_code == 422
    assert "input[0] is a list of token ids, but the model's prompt can only precede text" in answer.text


def test_limits_are_those_of_the_clients_own_text(serve: Serve, prompted: Path) -> None:
    client = serve(model=prompted, max_text_chars=5)
    assert client.post("/embed", json={"inputs": "hallo"}).status_code == 200
    assert "inputs has 6 characters; the limit is 5" in client.post("/embed", json={"inputs": "hallo!"}).text
    assert "inputs is empty" in client.post("/embed", json={"inputs": ""}).text


def test_documents_take_no_prompt_of_the_request(serve: Serve, prompted: Path) -> None:
    """The store would not know it when it is made over for another model."""
    body = {"documents": [{"id": "a", "text": "b"}], "prompt_name": "query"}
    assert "is unknown; known are documents" in serve(model=prompted).put("/documents", json=body).text


def test_a_model_without_prompts_says_so(client: TestClient) -> None:
    info = client.get("/info").json()
    assert (info["prompts"], info["default_prompt_name"]) == ({}, None)
    plain = client.post("/v1/embeddings", json={"input": "hallo"}).json()
    assert client.post("/v1/embeddings", json={"input": "hallo", "input_type": "query"}).json() == plain


# --- commands


@pytest.mark.usefixtures("environment")
def test_embed_puts_the_default_or_the_named_prompt_first(capsys: Capture, prompted: Path) -> None:
    for name, options in {"sts": [], "query": ["--prompt-name", "query"]}.items():
        (line,) = crosslet(capsys, "embed", TEXTS[0], *options).splitlines()
        assert np.array_equal(np.asarray(json.loads(line), np.float32), vector(prompted, name, TEXTS[0]))
    assert cli.main(["embed", "a", "--prompt-name", "web"]) == 2
    assert capsys.readouterr().err == (
        "crosslet: prompt_name is not one of this model's prompts: query, document, plain, sts\n"
    )


@pytest.mark.usefixtures("environment")
def test_a_store_has_the_same_vectors_however_it_is_filled(
    capsys: Capture, prompted: Path, tiny_model: Path, tmp_path: Path, serve: Serve
) -> None:
    def exported() -> dict[str, bytes]:
        rows = map(json.loads, crosslet(capsys, "index", "export", "--vectors", "base64").splitlines())
        return {row["id"]: base64.b64decode(row["vector"]) for row in rows}

    expected = {row["id"]: vector(prompted, "document", row["text"]).tobytes() for row in DOCUMENTS}
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    crosslet(capsys, "index", "build", path)
    assert exported() == expected
    for option, name in ([], "query"), (["--prompt-name", "sts"], "sts"):
        found = json.loads(
            crosslet(capsys, "search", "guitar", "--top-k", 1, "--mode", "dense", *option).splitlines()[0]
        )
        score = vector(prompted, name, "guitar") @ np.frombuffer(expected[found["id"]], np.float32)
        assert found["score"] == pytest.approx(score, abs=1e-6)
    crosslet(capsys, "index", "re-embed", "--model", tiny_model)
    assert exported() != expected
    crosslet(capsys, "index", "re-embed")
    assert exported() == expected
    client = serve(model=prompted, data=tmp_path / "served")
    body = {"documents": [{"id": row["id"], "text": row["text"]} for row in DOCUMENTS]}
    assert client.put("/documents", json=body).status_code == 200
    served = client.post("/search", json={"query": "guitar", "top_k": 1, "mode": "dense"}).json()["results"][0]
    score = vector(prompted, "query", "guitar") @ np.frombuffer(expected[served["id"]], np.float32)
    assert served["score"] == pytest.approx(score, abs=1e-6)


@pytest.mark.usefixtures("environment")
def test_mine_and_dedup_use_the_default_or_named_prompt(capsys: Capture, prompted: Path, tmp_path: Path) -> None:
    left, right = tmp_path / "a.txt", tmp_path / "b.txt"
    left.write_text("guitar\nthe stock\n", encoding="utf-8")
    right.write_text("a guitar\nstock market\n", encoding="utf-8")
    names = [[], ["--prompt-name", "sts"], ["--prompt-name", "plain"]]
    default, named, plain = (crosslet(capsys, "mine", left, right, "--threshold", "0", *name) for name in names)
    assert default == named != plain
    cosines = [
        vector(prompted, name, "guitar") @ vector(prompted, name, "a guitar") for name in ("sts", "sts", "plain")
    ]
    between = (cosines[0] + cosines[2]) / 2
    left.write_text("guitar\na guitar\n", encoding="utf-8")
    for name, cosine in zip(names, cosines, strict=True):
        groups = crosslet(capsys, "dedup", left, "--threshold", between, "--margin", "0", *name)
        assert bool(groups) == (cosine > between)
