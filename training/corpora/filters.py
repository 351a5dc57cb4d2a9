"""Drops bad pairs and counts the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from training.config.run import CorpusConfig
from training.corpora.hashes import HashIndex, hash_keys
from training.corpora.keys import key_of, matching_words
from training.corpora.leakage import EvaluationSentences
from training.corpora.text_pairs import Pair

# English characters for one character of a language: medians over our corpora; about 1 in other languages
CHARACTER_WEIGHT = {"zh": 3, "ja": 2, "ko": 2}
LENGTH_SLACK = 10  # characters, added to both sides: short texts have extreme ratios at small differences


def length_ratio(english: str, other: str, language: str) -> float:
    """Return the longer side over the shorter, in characters of English plus `LENGTH_SLACK`."""
    left = len(english) + LENGTH_SLACK
    right = len(other) * CHARACTER_WEIGHT.get(language.split("_")[0], 1) + LENGTH_SLACK
    return max(left, right) / min(left, right)


class PairFilter:
    """Drop bad pairs of one language, from all its sources; each pair is remembered in 24 bytes."""

    def __init__(self, config: CorpusConfig, language: str, evaluation: EvaluationSentences) -> None:
        self._config = config
        self._language = language
        self._evaluation = evaluation
        self._seen = HashIndex()

    def keep(self, pairs: Sequence[Pair], dropped: Counter[str]) -> list[Pair]:
        """Return the good pairs, in order and with white space collapsed; count the reasons of the others."""
        fit: list[Pair] = []
        keys: list[str] = []
        for english, other in pairs:
            pair = (" ".join(english.split()), " ".join(other.split()))
            words = matching_words(pair[0]), matching_words(pair[1])
            left, right = map(key_of, words)
            is_same = left == right and not self._config.keep_repeats
            if reason := self._fault(pair) or self._leak(words) or ("identical sides" if is_same else None):
                dropped[reason] += 1
            else:
                fit.append(pair)
                keys.append(f"{left}\t{right}")
        if self._config.keep_repeats:
            return fit
        is_new = self._seen.add(hash_keys(keys))[1].tolist()
        dropped["duplicate"] += len(fit) - sum(is_new)
        return [pair for pair, first in zip(fit, is_new, strict=True) if first]

    def without_leaks(self, pairs: Sequence[Pair], dropped: Counter[str]) -> list[Pair]:
        """Return the pairs that are not in or near an evaluation set; count the others. No other filter applies."""
        leaks = [self._leak((matching_words(english), matching_words(other))) for english, other in pairs]
        dropped.update(leak for leak in leaks if leak)
        return [pair for pair, leak in zip(pairs, leaks, strict=True) if not leak]

    def _fault(self, pair: Pair) -> str | None:
        english, other = pair
        limit, ratio = self._config.max_chars, self._config.max_length_ratio
        if not english or not other:
            return "empty"
        if limit is not None and max(len(english), len(other)) > limit:
            return "too long"
        if ratio is not None and length_ratio(english, other, self._language) > ratio:
            return "lengths too far apart"
        return None

    def _leak(self, words: tuple[list[str], list[str]]) -> str | None:
        if any(map(self._evaluation.has_exact, words)):
            return "in an evaluation set"
        if any(map(self._evaluation.has_near, words)):
            return "near an evaluation sentence"
        return None
