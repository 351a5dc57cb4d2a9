"""Translates English sentences by phrases, learnt from parallel text of any size. Lower case; word order stays English.

Koehn, Och and Marcu 2003 without reordering: what a translation's words are matters to a mean-pooled encoder more than
where they stand.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import snowballstemmer
from tokenizers import pre_tokenizers  # type: ignore[import-untyped]

from training.corpora.alignment import Words, align
from training.corpora.language_model import END, START, LanguageModel
from training.corpora.phrases import MAX_SOURCE_WORDS, Phrase, PhraseTable
from training.corpora.tsv import Pair

MAX_PAIRS = 60_000  # that are learnt from; more changes frequent words little
MAX_CELLS = 10_000_000  # of these pairs, the first: 90 bytes each while their words are aligned
MAX_WORDS = 60  # of a side; a pair with a longer one is not learnt from
BEAM = 20  # beginnings of a translation that are gone on with
FLUENCY = 0.6  # weight of the language model's log probability
UNKNOWN = -8.0  # score of a word that no phrase has
STEMMERS = {  # Snowball's, by language code; without one, words of the other side stay as they are
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "nb": "norwegian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


@dataclass(frozen=True)
class _Beginning:
    """Of a translation: its score, and the phrase that it ends with after another beginning."""

    score: float
    phrase: Phrase = ()
    before: _Beginning | None = None

    def words(self) -> list[str]:
        phrases, beginning = [self.phrase], self.before
        while beginning:
            phrases.append(beginning.phrase)
            beginning = beginning.before
        return [word for phrase in reversed(phrases) for word in phrase]


class Translator:
    """From English into one language.

    Args: language: of the pairs' other side; it says how its words are stemmed.
          sentences: that will be translated; only their phrases are kept.
    """

    def __init__(self, pairs: Sequence[Pair], language: str, sentences: Iterable[str]) -> None:
        sides = [(words_of(english), words_of(other)) for english, other in pairs[:MAX_PAIRS]]
        sides = [(left, right) for left, right in sides if 0 < len(left) <= MAX_WORDS and 0 < len(right) <= MAX_WORDS]
        cells = np.cumsum([(len(left) + 1) * (len(right) + 1) for left, right in sides])
        sides = sides[: np.searchsorted(cells, MAX_CELLS)]
        self._stem, stem_other = stemmer("en"), stemmer(language)
        links = align(
            _numbered([map(self._stem, left) for left, _ in sides]),
            _numbered([map(stem_other, right) for _, right in sides]),
        )
        wanted = {phrase for sentence in sentences for phrase in _phrases_of(words_of(sentence))}
        self._table = PhraseTable(((*side, link) for side, link in zip(sides, links, strict=True)), wanted)
        self._by_stem = self._table.words_by(self._stem)
        self._model = LanguageModel(right for _, right in sides)

    def translate(self, sentence: str) -> str:
        """The likeliest translation, its words and punctuation marks apart; a word that nothing is known of stays."""
        words = words_of(sentence)
        # reached[n]: the best beginnings that cover the first n words, by their own last two words
        reached: list[dict[tuple[str, str], _Beginning]] = [{} for _ in range(len(words) + 1)]
        reached[0][START, START] = _Beginning(0.0)
        for start in range(len(words)):
            best = heapq.nlargest(BEAM, reached[start].items(), key=lambda item: item[1].score)
            for end in range(start + 1, min(start + MAX_SOURCE_WORDS, len(words)) + 1):
                for score, phrase in self._candidates(tuple(words[start:end])):
                    for last, beginning in best:
                        total = beginning.score + score
                        for word in (*phrase, END) if end == len(words) else phrase:
                            total += FLUENCY * self._model.log_probability(last, word)
                            last = last[1], word
                        other = reached[end].get(last)
                        if other is None or total > other.score:
                            reached[end][last] = _Beginning(total, phrase, beginning)
        return " ".join(max(reached[-1].values(), key=lambda beginning: beginning.score).words())

    def knows(self, word: str) -> bool:
        """Whether a lower-case English word, or one of its stem, has a counterpart."""
        return bool(self._table[word,]) or self._stem(word) in self._by_stem

    def _candidates(self, phrase: Phrase) -> Sequence[tuple[float, Phrase]]:
        found = self._table[phrase]
        if found or len(phrase) > 1:
            return found
        return [(UNKNOWN, (self._by_stem.get(self._stem(phrase[0]), phrase[0]),))]


def words_of(text: str) -> list[str]:
    """Lower-case words and punctuation marks."""
    return [word for word, _ in WORDS.pre_tokenize_str(text.lower())]


def stemmer(language: str) -> Callable[[str], str]:
    """Cuts the endings off a lower-case word, by Snowball's rules for its language; leaves it as it is without any."""
    name = STEMMERS.get(language)
    return functools.cache(snowballstemmer.stemmer(name).stemWord) if name else str


def _numbered(sentences: Iterable[Iterable[str]]) -> list[Words]:
    """Each word by its number, from 1 on."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers) + 1) for word in words]) for words in sentences]


def _phrases_of(words: Sequence[str]) -> Iterable[Phrase]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_SOURCE_WORDS, len(words)) + 1):
            yield tuple(words[start:end])
