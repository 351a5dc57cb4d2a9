from itertools import combinations

import numpy as np
import pytest

from training.corpora import alignment
from training.corpora.alignment import NULL_PRIOR, align, grow_diag_final_and, likeliest_sources, position_prior


def numbers(*sentences: list[int]) -> list[np.ndarray]:
    return [np.array(words) for words in sentences]


def test_a_word_stands_for_what_it_is_always_beside() -> None:
    """1 and 2 are told apart by the pairs that have one of them alone; their places say the opposite."""
    source = numbers([1, 2], [1, 3], [2, 3], [1], [2])
    target = numbers([7, 6], [6, 8], [7, 8], [6], [7])
    assert list(align(source, target)) == [{(0, 1), (1, 0)}, {(0, 0), (1, 1)}, {(0, 0), (1, 1)}, {(0, 0)}, {(0, 0)}]


def test_words_that_nothing_tells_apart_stand_by_their_places() -> None:
    assert list(align(numbers([1, 2, 3]), numbers([4, 5, 6]))) == [{(0, 0), (1, 1), (2, 2)}]


def test_a_word_that_the_other_side_lacks_stands_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 is in all the sentences, whatever they say: an article. So little text needs a strong prior to tell."""
    monkeypatch.setattr(alignment, "NULL_PRIOR", 0.3)
    said = [[*words[turn % 8 :], *words[: turn % 8]] for turn, words in enumerate(combinations(range(1, 11), 8))]
    found = likeliest_sources(numbers(*said), numbers(*([100, *(10 + word for word in words)] for words in said)))
    assert [list(places) for places in found] == [[-1, *range(8)]] * len(said)


def test_the_prior_is_a_distribution_that_falls_with_the_distance_from_the_diagonal() -> None:
    prior = position_prior(4, 3)
    assert prior.shape == (3, 5)
    assert prior.sum(axis=1) == pytest.approx([1, 1, 1])
    assert prior[:, 0] == pytest.approx([NULL_PRIOR] * 3)
    assert list(prior[0, 1:]) == sorted(prior[0, 1:], reverse=True)
    assert prior[2, 1:].argmax() == 3


def test_directions_are_joined_by_what_they_share_its_neighbours_and_the_words_left_over() -> None:
    forth = {(0, 0), (1, 1), (5, 5), (9, 2)}
    back = {(0, 0), (1, 2), (5, 6), (9, 9)}
    grown = {(0, 0), (1, 1), (1, 2)}  # from (0, 0), word by word
    assert grow_diag_final_and(forth, back) == {*grown, (5, 5), (9, 9)}  # of each word left over the first link
    assert grow_diag_final_and(forth, set()) == forth
