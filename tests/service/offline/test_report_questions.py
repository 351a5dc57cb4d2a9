"""The report of a collection's questions: files, the fit against what made the data, and a search by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from service.errors import InvalidInput
from service.model.confidence import log_odds
from service.offline.report_questions import (
    Labelled,
    Question,
    _coverage,
    _estimated_share,
    _fit,
    logistic_each,
    read_questions,
)
from tests.service.model.test_confidence import MODEL

RNG = np.random.default_rng(3)


def kept(text: str, where: str) -> str:
    if not text.strip():
        raise InvalidInput(f"{where} is empty")
    return text


def test_questions_come_with_answers_without_and_unlabelled(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    lines = [{"query": "Wo?", "ids": ["a", "b"]}, {"query": "何?", "ids": []}, {"query": "چه؟"}]
    path.write_text("\n\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    wanted = [Question("Wo?", frozenset("ab")), Question("何?", frozenset()), Question("چه؟", None)]
    assert read_questions(path, kept) == wanted


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "has no question"),
        ("Wo ist es?", "line 1 is not valid JSON"),
        ('{"query": "a"}\n{"question": "b"}', "line 2 is no question"),
        ('{"query": "a", "ids": "b"}', "line 1 is no question"),
        ('{"query": "a", "ids": [7]}', "line 1 is no question"),
        ('{"query": " "}', "line 1 is empty"),
    ],
    ids=["none", "text", "another name", "one id", "a number", "blank"],
)
def test_a_malformed_line_is_named(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=reason):
        read_questions(path, kept)


def test_a_recalibration_finds_scale_and_shift() -> None:
    odds_Q, prior = RNG.normal(0, 2, 20_000), -0.7
    is_right_Q = RNG.random(len(odds_Q)) < logistic_each(0.6 * odds_Q + 0.8 + prior)
    scale, shift = _fit(Labelled(odds_Q, is_right_Q, np.ones(len(odds_Q))), prior)
    assert (scale, shift) == pytest.approx((0.6, 0.8), abs=0.05)
    few = Labelled(odds_Q[:2], np.array([True, True]), np.ones(2))
    scale, shift = _fit(few, prior)
    assert (scale, shift) == pytest.approx((1, 0), abs=1)  # two questions say little


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_share_of_answers_is_estimated_without_labels(share: float) -> None:
    is_right = RNG.random(100_000) < share * MODEL.found
    seen = RNG.normal(np.where(is_right, 1.5, -1.5))  # its log likelihood ratio is 3 times that
    assert _estimated_share(3 * seen + log_odds(MODEL.right), MODEL) == pytest.approx(share, abs=0.02)


def test_coverage_is_what_a_threshold_answers() -> None:
    labelled = Labelled(np.zeros(4), np.array([True, False, True, False]), np.array([1.0, 1.0, 0.5, 1.5]))
    found = {row.min_confidence: row for row in _coverage(np.array([0.97, 0.85, 0.8, 0.2]), labelled)}
    assert (found[0.8].answered, found[0.8].right) == pytest.approx((2.5 / 4, 1.5 / 2.5))
    assert (found[0.9].answered, found[0.9].right) == pytest.approx((0.25, 1))
