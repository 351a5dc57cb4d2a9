import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.training.files import write
from training.config.run import QuestionSet
from training.errors import CorpusError
from training.passages.questions import Questions, measured_text, read_questions

LANGUAGES = ["en", "de"]


def passage_of(city: str, language: str = "en") -> str:
    return f"{city} is a town on a river." if language == "en" else f"{city} ist eine Stadt am Fluss."


def line(city: str, language: str = "en", passage: str | None = None, passages: str | None = None) -> str:
    query = f"Where is {city}?" if language == "en" else f"Wo liegt {city}?"
    row = {"query": query, "positive": passage or passage_of(city, language), "qlang": language}
    return json.dumps(row | {"plang": passages or language})


def read(data: Path, *, most: int | None = None, measured: tuple[str, ...] = ()) -> Questions:
    sets = {"towns": QuestionSet(questions=most)}
    return read_questions(data, sets, LANGUAGES, measured_text(data, list(measured)), seed=1)


def asked(questions: Questions) -> dict[str, str]:
    pairs = zip(questions.question_Q, questions.passage_Q, strict=True)
    return {questions.texts[question]: questions.texts[passage] for question, passage in pairs}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    cities = [f"Town{number}" for number in range(40)]
    write(tmp_path / "qa/towns.jsonl", *map(line, cities), *(line(city, "de") for city in cities))
    return tmp_path


def test_questions_come_back_as_they_were_written(data: Path) -> None:
    questions = read(data)
    questions.save(data)
    again = Questions.load(data)
    assert asked(again) == asked(questions)
    assert len(asked(again)) == 80
    assert np.array_equal(again.is_held_out_Q, questions.is_held_out_Q)


def test_a_tenth_of_the_passages_is_held_out_by_their_crc(data: Path) -> None:
    questions = read(data)
    held_out = {questions.texts[row] for row in questions.passage_Q[questions.is_held_out_Q]}
    assert held_out == {text for text in asked(questions).values() if zlib.crc32(text.encode()) % 10 == 0}
    assert 0 < len(held_out) < 20
    assert questions.counts == {"towns": 80 - questions.is_held_out_Q.sum()}


def test_the_limit_of_a_set_counts_for_each_language(data: Path) -> None:
    questions = read(data, most=5)
    assert np.bincount(questions.language_Q).tolist() == [5, 5]


def test_measured_passages_are_left_out(data: Path) -> None:
    write(data / "qa/exam.jsonl", line("Town3"))
    write(data / "eval/xquad/passages.en.tsv", f"1\t{passage_of('Town4')}")
    left = set(asked(read(data)).values()) - set(asked(read(data, measured=("exam",))).values())
    assert left == {passage_of("Town3")}
    assert passage_of("Town4") not in asked(read(data)).values()


def test_a_passage_in_another_language_is_left_out(tmp_path: Path) -> None:
    rows = [line("A"), line("B", passages="de"), line("C", passage="short")]
    write(tmp_path / "qa/towns.jsonl", *rows)
    assert list(asked(read(tmp_path))) == ["Where is A?"]


def test_sets_without_a_question_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "qa/towns.jsonl", line("A", "pl"))
    with pytest.raises(CorpusError, match="no question in en, de that is not measured"):
        read(tmp_path)
