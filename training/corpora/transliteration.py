"""Writes English names in another language's letters, as its text does. Learnt from words that stand for each other.

Which of them sound alike nobody says. Letters are linked in all, the words whose letters go together better than by
chance are kept, and again (after Sajjad, Fraser and Schmid 2012, "A Statistical Model for Unsupervised and
Semi-supervised Transliteration Mining"; differs: no mixture of two models, but a threshold). What is left teaches a
translator of letters, as Durrani et al. (2014, "Integrating an Unsupervised Transliteration Model into Statistical
Machine Translation") have it.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from training.corpora.alignment import Link, align
from training.corpora.language_model import LanguageModel
from training.corpora.phrases import Phrase, PhraseTable, Weights, phrases_of
from training.corpora.search import Candidate, likeliest

MIN_SHARE = 0.15  # of an English word's links: a counterpart has so many
MIN_SHARE_BACK = 0.05  # of the counterpart's
MIN_LETTERS = 3
MAX_LETTERS = 14
ROUNDS = 5
MIN_ASSOCIATION = 1.0  # of words that sound alike: nats a letter
MIN_ALIKE = 200  # words that are learnt from
MIN_BORROWED = 0.2  # of the words that have counterparts: then a word whose counterpart is not known may be one, too
MAX_DISTANCE = 0.3  # between two letters that stand for each other, of a word's length
UNSEEN = 0.05  # times as often as by chance: two letters that were never linked
WEIGHTS = Weights(phrase=1.0, forth=0.3, back=0.3, word=0.5, min_back=0.01)
FLUENCY = 0.6  # weight of the language model's log probability
ORDER = 5  # of the language model: letters
UNKNOWN = -8.0  # score of a letter that nothing is known of

WordPair = tuple[str, str]  # English and other


class Transliterator:
    """From English into the letters of one language; into none where those are Latin.

    Args: links: how often words, lower case, were linked to words of the language.
          names: that may be asked for, or other words.
    """

    def __init__(self, links: Mapping[WordPair, int], names: Iterable[str]) -> None:
        candidates = _candidates(links)
        alike = sounding_alike(candidates)
        self._has_learnt = len(alike) >= MIN_ALIKE
        self.borrows = self._has_learnt and len(alike) >= MIN_BORROWED * len(candidates)  # any word, not names alone
        aligned = ((*pair, linked) for pair, linked in zip(alike, _letter_links(alike), strict=True))
        wanted = {phrase for name in names for phrase in phrases_of(name)}
        self._table = PhraseTable(aligned, wanted, weights=WEIGHTS)
        self._model = LanguageModel(dict.fromkeys(_letters(other) for _, other in links if _is_other(other)), ORDER)

    def spellings(self, name: str, count: int) -> dict[str, float]:
        """The likeliest ways to write a lower-case name, at most `count`, each with its weight; the best has 1.

        Empty where too few names teach the language's letters, or none of them has one of this name's.
        """
        if not self._has_learnt:
            return {}
        found = likeliest(name, self._candidates, model=self._model, fluency=FLUENCY, count=count)
        best, _ = found[0]
        weights: dict[str, float] = {}
        for score, letters in found:
            weights.setdefault(unicodedata.normalize("NFC", "".join(letters)), math.exp(score - best))
        return {} if any(letter.isascii() for letter in next(iter(weights))) else weights

    def _candidates(self, letters: Phrase) -> Sequence[Candidate]:
        return self._table[letters] or ([(UNKNOWN, letters)] if len(letters) == 1 else [])


def sounding_alike(candidates: Sequence[WordPair]) -> list[WordPair]:
    """Those of the words that stand for each other which do so by their sound."""
    alike = list(candidates)
    for _ in range(ROUNDS):
        association = _Association(alike)
        alike = [pair for pair in candidates if association.of(*pair) > MIN_ASSOCIATION]
    return alike


class _Association:
    """How much better than by chance two words' letters go together: pointwise mutual information in nats.

    Args: pairs: that say which letters are linked.
    """

    def __init__(self, pairs: Sequence[WordPair]) -> None:
        links = Counter[tuple[str, str]]()
        for (english, other), linked in zip(pairs, _letter_links(pairs), strict=True):
            links.update((english[i], other[j]) for i, j in linked)
        self._row = {letter: row for row, letter in enumerate(sorted({letter for letter, _ in links}), 1)}
        self._column = {letter: column for column, letter in enumerate(sorted({letter for _, letter in links}), 1)}
        counts = np.zeros((len(self._row) + 1, len(self._column) + 1))  # row and column 0: letters without links
        for (letter, counterpart), count in links.items():
            counts[self._row[letter], self._column[counterpart]] = count
        by_chance = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / max(counts.sum(), 1)
        self._information = np.log(np.maximum(counts / np.maximum(by_chance, 1e-9), UNSEEN))

    def of(self, english: str, other: str) -> float:
        """The mean over the letters of that word where it is less."""
        rows = [self._row.get(letter, 0) for letter in english]
        columns = [self._column.get(letter, 0) for letter in other]
        places, counterparts = _places(english), _places(other)
        near = np.abs(places[:, None] - counterparts) < MAX_DISTANCE
        information = np.where(near, self._information[np.ix_(rows, columns)], math.log(UNSEEN))
        return float(min(information.max(axis=0).mean(), information.max(axis=1).mean()))


def _places(word: str) -> NDArray[np.float64]:
    return (np.arange(len(word)) + 0.5) / len(word)


def _candidates(links: Mapping[WordPair, int]) -> list[WordPair]:
    """Counterparts that are frequent ones, in letters of two scripts, and short."""
    of_english, of_other = Counter[str](), Counter[str]()
    for (english, other), count in links.items():
        of_english[english] += count
        of_other[other] += count
    return [
        (english, _letters(other))
        for (english, other), count in links.items()
        if has_sound(english)
        and _is_other(other)
        and max(len(english), len(other)) <= MAX_LETTERS
        and count >= MIN_SHARE * of_english[english]
        and count >= MIN_SHARE_BACK * of_other[other]
    ]


def has_sound(word: str) -> bool:
    """Whether a word is long enough to have a sound that can be told, and all of its letters are English ones."""
    return len(word) >= MIN_LETTERS and word.isascii() and word.isalpha()


def _is_other(word: str) -> bool:
    """Whether a word has two letters or more, and none that is Latin or ASCII."""
    return len(word) > 1 and not any(letter.isascii() or "LATIN" in unicodedata.name(letter, "") for letter in word)


def _letters(word: str) -> str:
    """Marks apart from their letters, and Korean syllables cut into theirs."""
    return unicodedata.normalize("NFD", word)


def _letter_links(pairs: Sequence[WordPair]) -> Iterable[set[Link]]:
    sides = [[np.array([ord(letter) for letter in word]) for word in side] for side in zip(*pairs, strict=True)]
    return align(*sides) if sides else []
