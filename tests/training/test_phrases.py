import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.alignment import Link
from training.corpora.phrases import MAX_SOURCE_WORDS, MAX_TARGET_WORDS, PhraseTable, phrase_pairs

LINKS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 7)), max_size=12)


@given(LINKS)
def test_phrases_are_those_of_the_definition(links: set[Link]) -> None:
    """Every two spans with a link between them and none that leads out, and no longer than the limits."""
    expected = set()
    for first, last in combinations(range(8), 2):
        for start, end in combinations(range(9), 2):
            inside = [(first <= i < last, start <= j < end) for i, j in links]
            fits = last - first <= MAX_SOURCE_WORDS and end - start <= MAX_TARGET_WORDS
            if fits and any(left and right for left, right in inside) and all(left == right for left, right in inside):
                expected.add(((first, last), (start, end)))
    found = list(phrase_pairs(links, 7, 8))
    assert set(found) == expected
    assert len(found) == len(expected)


def table(*wanted: str) -> PhraseTable:
    """Of "red wine" as "vin rouge" three times and as "rouge" once, and of "wine" alone as "vin"."""
    aligned = [
        *[(["red", "wine"], ["vin", "rouge"], {(0, 1), (1, 0)})] * 3,
        (["red", "wine"], ["rouge"], {(0, 0), (1, 0)}),
        (["wine"], ["vin"], {(0, 0)}),
    ]
    return PhraseTable(aligned, {tuple(phrase.split()) for phrase in wanted})


def test_the_likelier_phrase_is_first() -> None:
    found = table("red wine", "red", "wine")
    assert [phrase for _, phrase in found["red", "wine"]] == [("vin", "rouge"), ("rouge",)]
    assert found["wine",][0][1] == ("vin",)
    assert found["red",][0][1] == ("rouge",)
    scores = [score for score, _ in found["red", "wine"]]
    assert scores == sorted(scores, reverse=True)


def test_only_phrases_that_are_wanted_are_kept() -> None:
    assert table("red")["wine",] == []
    assert table("red")["red", "wine"] == []


def test_a_score_by_hand() -> None:
    """wine -> vin: four of its five links and four of the four that "vin" has; four of four phrases "wine"."""
    (score, _), *_ = table("wine")["wine",]
    assert score == pytest.approx(math.log((4 - 0.5) / 4) + 0.5 * math.log(4 / 5) + 1.0 * math.log(4 / 4) + 1.5)
