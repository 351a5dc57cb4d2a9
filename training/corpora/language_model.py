"""How likely words follow each other: three at a time, learnt from sentences. Knows nothing about translation.

Interpolated Kneser-Ney with one discount for all orders (Chen and Goodman 1999, "An Empirical Study of Smoothing
Techniques for Language Modeling", section 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DISCOUNT = 0.75
START, END = "<s>", "</s>"


class LanguageModel:
    """Trigrams of words."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        trigrams = Counter(
            trigram
            for sentence in sentences
            for words in [(START, START, *sentence, END)]
            for trigram in zip(words, words[1:], words[2:], strict=False)
        )
        bigrams = Counter(trigram[1:] for trigram in trigrams)  # after how many different words each came
        words = Counter(bigram[1:] for bigram in bigrams)
        self._orders = [_Order(words), _Order(bigrams), _Order(trigrams)]
        self._unseen = 1 / (len(words) + 1)
        self._known: dict[tuple[str, str, str], float] = {}

    def log_probability(self, before: tuple[str, str], word: str) -> float:
        """log p(word | the two words before it)."""
        key = (*before, word)
        if key not in self._known:
            probability = self._unseen
            for order, ngram in zip(self._orders, (key[2:], key[1:], key), strict=True):
                probability = order.interpolated(ngram, probability)
            self._known[key] = math.log(probability)
        return self._known[key]


class _Order:
    """n-grams of one length."""

    def __init__(self, counts: Mapping[Any, int]) -> None:
        self._counts = counts
        self._totals = Counter[tuple[str, ...]]()  # of the n-grams that begin so
        self._kinds = Counter(ngram[:-1] for ngram in counts)
        for ngram, count in counts.items():
            self._totals[ngram[:-1]] += count

    def interpolated(self, ngram: tuple[str, ...], lower: float) -> float:
        """p of the last word, given `lower`, what the shorter n-grams say."""
        total = self._totals[ngram[:-1]]
        if not total:
            return lower
        seen = max(self._counts.get(ngram, 0) - DISCOUNT, 0.0)
        return (seen + DISCOUNT * self._kinds[ngram[:-1]] * lower) / total
