import re
from pathlib import Path
from typing import Any

import pytest

from export.card import table
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.settings import BUNDLED_MODEL, BUNDLED_RERANKER


@pytest.fixture
def card(student_artifact: Path) -> str:
    return (student_artifact / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "part",
    [
        '---\nlanguage:\n- "en"\n- "de"\n',
        "\n# tiny-student\n",
        "### stsb_test\n\n|  | en-de | average |\n| --- | ---: | ---: |\n| stsb_test | 61.2 | 61.2 |\n",
        "both directions averaged), of at most 5 rows of an STS file, 6 of a Tatoeba file.\n",
        "| lexical | 40.0 |\n| student | 61.2 |\n",
        "| [Tatoeba](https://tatoeba.org) | CC BY 2.0 FR | 1,234 |",
        "Of the last run: commit `0123abc`; pairs seen: assistant 2,000, student 1,000. Its configuration is",
        "## Limitations\n\n- Weakest on everything.\n- Text beyond",
    ],
)
def test_it_says_what_the_record_says(card: str, part: str) -> None:
    assert part in card


def test_it_has_the_export_figures_of_the_manifest(card: str, student_artifact: Path) -> None:
    cosine = load_manifest(student_artifact).evaluation["export"]["min_cosine_to_torch"]
    assert f"| min_cosine_to_torch | {cosine:.5f} |" in card


def test_a_card_without_a_record_claims_nothing(minilm_artifact: Path) -> None:
    card = (minilm_artifact / "README.md").read_text(encoding="utf-8")
    assert "The checkpoint came without scores." in card
    assert "The checkpoint does not say what it was trained on." in card


def test_a_missing_cell_is_a_dash() -> None:
    assert table({"a": {"x": 1.04}, "b": {"y": 2.0}}) == (
        "|  | x | y |\n| --- | ---: | ---: |\n| a | 1.0 | - |\n| b | - | 2.0 |"
    )


TEXTS = ["hhhhh", "呵呵呵", "A man is playing a guitar.", "Sarei\n", "\u3000 図書館\u200b", "लड़का", " ", "a  b\tc"]
TEXTS += ["<s> </s>", "▁h", "word " * 500]


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
