"""The Python of a card gives what the service gives."""

import re
from pathlib import Path
from typing import Any

import pytest

from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.settings import BUNDLED_MODEL, BUNDLED_RERANKER

TEXTS = [
    *(
        "hhhhh",
        "呵呵呵",
        "A man is playing a guitar.",
        "Sarei\n",
        "\u3000 図書館\u200b",
        "लड़का",
        " ",
        "a  b\tc",
        "<s> </s>",
    ),
    *("▁h", "word " * 500),
]


def names_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    card = (folder / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    names: dict[str, Any] = {}
    monkeypatch.chdir(folder)
    exec(code, names)  # noqa: S102 - the card's own example
    return names


@pytest.fixture(params=["unigram_artifact", "student_artifact", "minilm_artifact", "bundled"])
def encoder_folder(request: pytest.FixtureRequest) -> Path:
    return BUNDLED_MODEL if request.param == "bundled" else request.getfixturevalue(request.param)


def test_the_cards_python_gives_the_served_vectors(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, names = load_encoder(encoder_folder), names_of(encoder_folder, monkeypatch)
    prompts = load_manifest(encoder_folder).prompts
    for text in TEXTS:
        for prompt in set(prompts.values()):
            assert names["embed"](text, prompt) @ encoder.encode(prompt + text).vector == pytest.approx(1, abs=1e-4)
        if not prompts:
            assert names["embed"](text) @ encoder.encode(text).vector == pytest.approx(1, abs=1e-4)


def test_the_cards_python_gives_the_served_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker, names = Reranker.load(BUNDLED_RERANKER), names_of(BUNDLED_RERANKER, monkeypatch)
    for query, passage in zip(TEXTS, reversed(TEXTS), strict=True):
        expected = reranker.score(reranker.tokenize(query, passage))
        assert names["score"](query, passage) == pytest.approx(expected, abs=1e-3)
