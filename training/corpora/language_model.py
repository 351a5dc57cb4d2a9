"""How likely words follow each other, learnt from sentences; or letters, from words. Knows nothing about translation.

Interpolated Kneser-Ney with one discount for all orders (Chen and Goodman 1999, "An Empirical Study of Smoothing
Techniques for Language Modeling", section 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

DISCOUNT = 0.75
START, END = "<s>", "</s>"


class LanguageModel:
    """n-grams of words.

    Args: order: n, at least 1.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], order: int = 3) -> None:
        self.start = (START,) * (order - 1)  # what comes before the first word
        counts = [Counter(ngram for sentence in sentences for ngram in _ngrams((*self.start, *sentence, END), order))]
        while len(counts) < order:  # the shorter ones: after how many different words each came
            counts.append(Counter(ngram[1:] for ngram in counts[-1]))
        self._orders = [_Order(ngrams) for ngrams in reversed(counts)]
        self._unseen = 1 / (len(counts[-1]) + 1)
        self._known: dict[tuple[str, ...], float] = {}

    def log_probability(self, before: tuple[str, ...], word: str) -> float:
        """log p(word | the order - 1 words before it)."""
        key = (*before, word)
        if key not in self._known:
            probability = self._unseen
            for length, order in enumerate(self._orders, 1):
                probability = order.interpolated(key[-length:], probability)
            self._known[key] = math.log(probability)
        return self._known[key]


def _ngrams(words: tuple[str, ...], order: int) -> Iterator[tuple[str, ...]]:
    return (words[start : start + order] for start in range(len(words) - order + 1))


class _Order:
    """n-grams of one length."""

    def __init__(self, counts: Mapping[tuple[str, ...], int]) -> None:
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
