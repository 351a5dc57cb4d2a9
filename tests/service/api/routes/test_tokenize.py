"""POST /tokenize and /decode: the model's tokens, in the shapes of text-embeddings-inference."""

from pathlib import Path

import pytest
import tokenizers
from fastapi.testclient import TestClient

from service.api.routes import tokenize
from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve

BUNDLED = Path(__file__).parents[4] / "models" / "default"
SPELLINGS = ["  two  spaces ", "ﬁne ½ … ﷺ", "cafe\u0301 naïve", "你好，世界", "😀 smile", "x\ny\tz", "▁mark", " नमस्ते"]


@pytest.fixture(scope="module", params=["wordpiece", "unigram"])
def folder(request: pytest.FixtureRequest, tiny_model: Path) -> Path:
    """The artifact of the service: one of each kind of vocabulary."""
    return tiny_model if request.param == "wordpiece" else BUNDLED


@pytest.fixture(scope="module")
def client(serve_module: Serve, folder: Path) -> TestClient:
    return serve_module(model=folder)


@pytest.fixture(scope="module")
def library(folder: Path) -> tokenizers.Tokenizer:
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    return reference


@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_tokens_are_those_of_the_library(
    client: TestClient, library: tokenizers.Tokenizer, add_special_tokens: bool
) -> None:
    texts = [text.strip() for text in (*TEXTS, *SPELLINGS)]
    given = client.post("/tokenize", json={"inputs": texts, "add_special_tokens": add_special_tokens}).json()
    for text, tokens in zip(texts, given, strict=True):
        encoding = library.encode(text, add_special_tokens=add_special_tokens)
        assert [token["id"] for token in tokens] == encoding.ids
        assert [token["special"] for token in tokens] == [bool(flag) for flag in encoding.special_tokens_mask]
        for token, span, piece in zip(tokens, encoding.offsets, encoding.tokens, strict=True):
            where = (None, None, piece) if token["special"] else (*span, text[slice(*span)])
            assert (token["start"], token["stop"], token["text"]) == where


def test_tokens_are_as_many_as_embed_reads(client: TestClient) -> None:
    texts = [*TEXTS, *SPELLINGS]
    tokens = client.post("/tokenize", json={"inputs": texts}).json()
    read = client.post("/embed", json={"inputs": texts}).headers["x-tokens"]
    assert sum(map(len, tokens)) == int(read)


def test_places_count_white_space_before_the_text(client: TestClient) -> None:
    text = "\u200b  guitar"
    (tokens,) = client.post("/tokenize", json={"inputs": text, "add_special_tokens": False}).json()
    assert "".join(token["text"] for token in tokens).strip() == "guitar"
    assert tokens[-1]["stop"] == len(text)


@pytest.mark.parametrize("skip", [True, False])
def test_ids_become_the_librarys_text(client: TestClient, library: tokenizers.Tokenizer, skip: bool) -> None:
    ids = [library.encode(text).ids for text in TEXTS]
    given = client.post("/decode", json={"ids": ids, "skip_special_tokens": skip}).json()
    assert given == [library.decode(row, skip_special_tokens=skip) for row in ids]
    assert client.post("/decode", json={"ids": ids[0], "skip_special_tokens": skip}).json() == given[:1]


def test_unknown_ids_are_refused_by_their_place(client: TestClient) -> None:
    assert_refused(client.post("/decode", json={"ids": [[1], [10**6]]}), 422, "Validation", "ids[1] has a token id")
    assert_refused(client.post("/decode", json={"ids": [10**6]}), 422, "Validation", "ids has a token id")
    assert_refused(client.post("/decode", json={"ids": []}), 422, "Validation", "ids is empty")


def test_an_answer_has_a_limit_of_tokens(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "MOST_TOKENS", 20)
    assert client.post("/tokenize", json={"inputs": "guitar"}).status_code == 200
    response = client.post("/tokenize", json={"inputs": ["guitar " * 9, "guitar " * 9]})
    assert_refused(response, 422, "Validation", "over 20 tokens", "send fewer texts")
