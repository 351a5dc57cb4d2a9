import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.language_model import END, LanguageModel
from training.corpora.phrases import MAX_SOURCE_WORDS, Phrase
from training.corpora.search import Candidate, likeliest

MODEL = LanguageModel([["a", "b"], ["b", "a", "b"], ["b"], ["a", "c"]])
FLUENCY = 0.5
WORDS = st.sampled_from("xyz")
TARGETS = st.lists(
    st.tuples(st.floats(-5, 0), st.lists(st.sampled_from("abc"), max_size=2).map(tuple)), min_size=1, max_size=2
)
TABLES = st.dictionaries(st.lists(WORDS, min_size=2, max_size=3).map(tuple), TARGETS, max_size=4)
SINGLE = st.fixed_dictionaries({("x",): TARGETS, ("y",): TARGETS, ("z",): TARGETS})


def all_targets(source: Phrase, table: dict[Phrase, list[Candidate]]) -> Iterator[Candidate]:
    """Of all ways to cut the source into phrases, without the model's part of the score."""
    if not source:
        yield 0.0, ()
    for end in range(1, min(len(source), MAX_SOURCE_WORDS) + 1):
        for score, phrase in table.get(source[:end], []):
            for rest, others in all_targets(source[end:], table):
                yield score + rest, phrase + others


def fluency(words: Phrase) -> float:
    before, total = MODEL.start, 0.0
    for word in (*words, END):
        total += FLUENCY * MODEL.log_probability(before, word)
        before = (*before[1:], word)
    return total


@given(st.lists(WORDS, min_size=1, max_size=4).map(tuple), TABLES, SINGLE)
def test_the_best_of_all_targets_are_found(
    source: Phrase, longer: dict[Phrase, list[Candidate]], single: dict[Phrase, list[Candidate]]
) -> None:
    table = longer | single
    scores: dict[Phrase, float] = {}
    for score, words in all_targets(source, table):
        scores[words] = max(scores.get(words, -math.inf), score + fluency(words))
    expected = sorted(scores.values(), reverse=True)[:3]
    found = likeliest(source, lambda phrase: table.get(phrase, []), model=MODEL, fluency=FLUENCY, count=3)
    assert [score for score, _ in found] == pytest.approx(expected)
    assert [scores[words] for _, words in found] == pytest.approx(expected)
    ((best, _),) = likeliest(source, lambda phrase: table.get(phrase, []), model=MODEL, fluency=FLUENCY)
    assert best == pytest.approx(expected[0])


def test_nothing_is_put_as_nothing() -> None:
    assert likeliest([], lambda phrase: [], model=MODEL, fluency=FLUENCY) == [(0.0, ())]
