from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.files import write
from training.passages.dev import MOST_QUESTIONS, DevSets
from training.passages.questions import Questions

TOWNS = ("Ulm", "Graz", "Linz")


def encode(texts: list[str]) -> np.ndarray:
    """A text's vector says which town it names; one that is asked for wrongly names the next."""
    rows = [[town in text for town in TOWNS] + [0.1] for text in texts]
    return np.array(rows, dtype=np.float32)


def questions() -> Questions:
    """Two held-out questions in English, of which the second asks for another town than its passage has."""
    texts = ["where is Ulm", "where is Linz", "Ulm lies here", "Graz lies there", "Linz is trained on"]
    asked, passages = np.array([0, 1, 1], np.int32), np.array([2, 3, 4], np.int32)
    return Questions(texts, ["en"], asked, passages, np.zeros(3, int), np.array([True, True, False]), {})


@pytest.fixture
def dev(tmp_path: Path) -> DevSets:
    passages = [f"{number}\t{town} is a town" for number, town in enumerate(TOWNS)]
    queries = ["a\t0\twhere is Ulm", "b\t1\twhere is Ulm", "c\t2\twhere is Graz"]
    for language in ("de", "zh"):
        write(tmp_path / f"xquad/passages.{language}.tsv", *passages)
        write(tmp_path / f"xquad/queries.{language}.tsv", *queries)
    return DevSets.read(questions(), tmp_path)


def test_dev_takes_held_out_questions_and_even_places(dev: DevSets) -> None:
    assert dev.found(encode) == {"held-out en": 50.0, "xquad de": 50.0, "xquad zh": 50.0}
    assert [ranking_set.queries for name, ranking_set in dev.passages.items() if "xquad" in name] == 2 * [
        ["where is Ulm", "where is Graz"]
    ]


def test_dev_takes_so_many_questions_over_their_passages() -> None:
    count, few = 10 * MOST_QUESTIONS, MOST_QUESTIONS
    texts = [f"{kind} {number}" for kind in ("question", "passage") for number in range(count)]
    asked = np.arange(count, dtype=np.int32)
    every = Questions(texts, ["en"], asked, count + asked, np.zeros(count, int), np.ones(count, bool), {})
    chosen = DevSets.read(every, Path("none")).passages["held-out en"]
    assert (len(chosen), len(chosen.passages)) == (few, few)
    for query, answer in zip(chosen.queries, chosen.positives, strict=True):
        assert [chosen.passages[row] for row in answer] == [query.replace("question", "passage")]


def test_each_kind_counts_alike(dev: DevSets) -> None:
    judged = dev.judged(encode, lambda: {"en-de": 80.0, "en-zh": 60.0})
    assert (judged["passages"], judged["similarity"]) == (50.0, 70.0)
    assert judged["mean"] == pytest.approx((50 + 70 + judged["search"]) / 3)
    assert dev.judged(encode, None)["mean"] == pytest.approx((50 + judged["search"]) / 2)


def test_without_questions_that_are_held_out_two_kinds_count() -> None:
    few = replace(questions(), is_held_out_Q=np.zeros(3, bool))
    dev = DevSets.read(few, Path("none"))
    judged = dev.judged(encode, lambda: {"en-de": 80.0})
    assert judged == {"search": judged["search"], "similarity": 80.0, "mean": (judged["search"] + 80) / 2}
