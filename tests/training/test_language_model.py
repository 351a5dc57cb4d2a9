import math
from itertools import pairwise

import pytest

from training.corpora.language_model import END, START, LanguageModel

SENTENCES = [["the", "dog", "sleeps"], ["the", "cat", "sleeps"], ["a", "dog", "runs", "home"], ["the", "dog", "runs"]]
WORDS = sorted({word for sentence in SENTENCES for word in sentence})


@pytest.mark.parametrize("before", [(START, START), (START, "the"), ("the", "dog"), ("home", "cat"), ("zebra", "lion")])
def test_what_may_follow_adds_up_to_one(before: tuple[str, str]) -> None:
    """With one word that was never seen."""
    model = LanguageModel(SENTENCES)
    assert sum(math.exp(model.log_probability(before, word)) for word in [*WORDS, END, "zebra"]) == pytest.approx(1)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_so_it_does_whatever_the_order(order: int) -> None:
    model = LanguageModel(SENTENCES, order)
    before = (START, START, "the", "dog")[5 - order :]
    assert sum(math.exp(model.log_probability(before, word)) for word in [*WORDS, END, "zebra"]) == pytest.approx(1)


def test_what_was_seen_is_likelier_than_what_was_not() -> None:
    model = LanguageModel(SENTENCES)
    chances = [model.log_probability(("the", "dog"), word) for word in ("sleeps", "home", "zebra")]
    assert all(left > right for left, right in pairwise(chances))
    assert model.log_probability((START, START), "the") > model.log_probability((START, START), "a")


def test_a_word_is_as_likely_as_the_words_it_followed_are_many() -> None:
    """Kneser and Ney's thought: "francisco" is frequent, after one word alone."""
    model = LanguageModel([["san", "francisco"]] * 5 + [["an", "apple"], ["this", "apple"], ["red", "apple"]])
    assert model.log_probability(("x", "y"), "apple") > model.log_probability(("x", "y"), "francisco")


def test_by_hand() -> None:
    """Two sentences "a": p(a | START START) by three orders, of which each interpolates the shorter one."""
    model = LanguageModel([["a"], ["a"]])
    first = (1 - 0.75 + 0.75 * 2 / 3) / 2  # a and END, each after one word; a third of what is left for the unseen
    second = (1 - 0.75 + 0.75 * 1 * first) / 1
    assert model.log_probability((START, START), "a") == pytest.approx(math.log((2 - 0.75 + 0.75 * second) / 2))


def test_a_model_of_nothing_finds_all_words_alike() -> None:
    model = LanguageModel([])
    assert model.log_probability((START, START), "a") == model.log_probability(("a", "b"), END)
