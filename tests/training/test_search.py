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
def test_the_best_of_all_targets_is_found(
    source: Phrase, longer: dict[Phrase, list[Candidate]], single: dict[Phrase, list[Candidate]]
) -> None:
    table = longer | single
    best = max(score + fluency(words) for score, words in all_targets(source, table))
    found = likeliest(source, lambda phrase: table.get(phrase, []), MODEL, FLUENCY, count=3)
    assert found[0][0] == pytest.approx(best)
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    assert len({words for _, words in found}) == len(found) <= 3
    targets = {words for _, words in all_targets(source, table)}
    assert all(words in targets for _, words in found)


def test_nothing_is_put_as_nothing() -> None:
    assert likeliest([], lambda phrase: [], MODEL, FLUENCY) == [(0.0, ())]
