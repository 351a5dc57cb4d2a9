import re
from pathlib import Path

import pytest

from export.card import table
from service.model.artifact import load_manifest


@pytest.fixture
def card(student_artifact: Path) -> str:
    return (student_artifact / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "part",
    [
        '---\nlanguage:\n- "en"\n- "de"\n',
        "\n# tiny-student\n",
        "### stsb_test\n\n|  | en-de | average |\n| --- | ---: | ---: |\n| stsb_test | 61.2 | 61.2 |\n",
        "| lexical | 40.0 |\n| student | 61.2 |\n",
        "| [Tatoeba](https://tatoeba.org) | CC BY 2.0 FR | 1,234 |",
        "Of the last run: commit `0123abc`; pairs seen: assistant 2,000, student 1,000.",
        '"recurrences": 2',
        "## Limitations\n\n- Weakest on everything.\n- Text beyond",
    ],
)
def test_it_says_what_the_record_says(card: str, part: str) -> None:
    assert part in card


def test_it_has_the_export_figures_of_the_manifest(card: str, student_artifact: Path) -> None:
    cosine = load_manifest(student_artifact).evaluation["export"]["min_cosine_to_torch"]
    assert f"| min_cosine_to_torch | {cosine:.5f} |" in card


def test_its_python_runs(
    card: str, student_artifact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(student_artifact)
    exec(code, {})  # noqa: S102 - the card's own example
    assert -1 <= float(capsys.readouterr().out) <= 1


def test_a_card_without_a_record_claims_nothing(minilm_artifact: Path) -> None:
    card = (minilm_artifact / "README.md").read_text(encoding="utf-8")
    assert "The checkpoint came without scores." in card
    assert "The checkpoint does not say what it was trained on." in card


def test_a_missing_cell_is_a_dash() -> None:
    assert table({"a": {"x": 1.04}, "b": {"y": 2.0}}) == (
        "|  | x | y |\n| --- | ---: | ---: |\n| a | 1.0 | - |\n| b | - | 2.0 |"
    )
