"""Translates English sentences by phrases, learnt from parallel text of any size. Lower case; word order stays English.

Koehn, Och and Marcu 2003 without reordering: what a translation's words are matters to a mean-pooled encoder more than
where they stand. Names that the text lacks are written by their sound where the language has other letters; where it
borrows many words, so is any that the text lacks.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import snowballstemmer
from tokenizers import pre_tokenizers  # type: ignore[import-untyped]

from training.corpora.alignment import Words, align
from training.corpora.language_model import LanguageModel
from training.corpora.phrases import Phrase, PhraseTable, phrases_of
from training.corpora.search import Candidate, likeliest
from training.corpora.transliteration import Transliterator, has_sound
from training.corpora.tsv import Pair

MAX_PAIRS = 60_000  # that are learnt from; more changes frequent words little
MAX_CELLS = 10_000_000  # of these pairs, the first: 90 bytes each while their words are aligned
MAX_WORDS = 60  # of a side; a pair with a longer one is not learnt from
FLUENCY = 0.6  # weight of the language model's log probability
UNKNOWN = -8.0  # score of a word that no phrase has
SPELLINGS = 5  # of a name in another script
STEMMERS = {  # Snowball's, by language code; without one, words of the other side stay as they are
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "nb": "norwegian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
UNSPACED = ("ja", "km", "lo", "my", "th", "vi", "yue", "zh")  # no spaces between words, or (vi) between syllables
WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


class Translator:
    """From English into one language.

    Args: language: of the pairs' other side; it says how its words are stemmed.
          sentences: that will be translated; only their phrases are kept.
    """

    def __init__(self, pairs: Sequence[Pair], language: str, sentences: Sequence[str]) -> None:
        sides = [(words_of(english), words_of(other)) for english, other in pairs[:MAX_PAIRS]]
        sides = [(left, right) for left, right in sides if 0 < len(left) <= MAX_WORDS and 0 < len(right) <= MAX_WORDS]
        cells = np.cumsum([(len(left) + 1) * (len(right) + 1) for left, right in sides])
        sides = sides[: np.searchsorted(cells, MAX_CELLS)]
        self._stem, stem_other = stemmer("en"), stemmer(language)
        links = align(
            numbered([map(self._stem, left) for left, _ in sides]),
            numbered([map(stem_other, right) for _, right in sides]),
        )
        wanted = {phrase for sentence in sentences for phrase in phrases_of(words_of(sentence))}
        self._table = PhraseTable(((*side, link) for side, link in zip(sides, links, strict=True)), wanted)
        self._by_stem = self._table.words_by(self._stem)
        self._model = LanguageModel(right for _, right in sides)
        words = {word for sentence in sentences for word in words_of(sentence)}
        unknown = {word for word in words if has_sound(word) and not self._knows(word)}
        transliterator = Transliterator(self._table.links, unknown)
        asked = unknown if transliterator.borrows else unknown & names_in(sentences)
        self._spellings = {word: transliterator.spellings(word, SPELLINGS) for word in sorted(asked)}

    def translate(self, sentence: str) -> str:
        """The likeliest translation, its words and punctuation marks apart.

        A name that no phrase has is written by its sound, as any such word is where many are borrowed; else it stays.
        """
        draw = random.Random(sentence)  # of a word's spellings, the same in each run
        source = [self._written(word, draw) for word in words_of(sentence)]
        ((_, words),) = likeliest(source, self._candidates, model=self._model, fluency=FLUENCY)
        return " ".join(words)

    def known_share(self, sentence: str) -> float:
        """Of a sentence's words: which have a counterpart, or are written by their sound."""
        words = words_of(sentence)
        return sum(self._knows(word) or bool(self._spellings.get(word)) for word in words) / max(len(words), 1)

    def _written(self, word: str, draw: random.Random) -> str:
        spellings = self._spellings.get(word)
        return draw.choices(list(spellings), list(spellings.values()))[0] if spellings else word

    def _knows(self, word: str) -> bool:
        """Whether a lower-case English word, or one of its stem, has a counterpart."""
        return bool(self._table[word,]) or self._stem(word) in self._by_stem

    def _candidates(self, phrase: Phrase) -> Sequence[Candidate]:
        found = self._table[phrase]
        if found or len(phrase) > 1:
            return found
        return [(UNKNOWN, (self._by_stem.get(self._stem(phrase[0]), phrase[0]),))]


def words_of(text: str) -> list[str]:
    """Lower-case words and punctuation marks."""
    return [word for word, _ in WORDS.pre_tokenize_str(text.lower())]


def names_in(sentences: Iterable[str]) -> set[str]:
    """Words, lower case, that most often begin with a capital, and can be written by their sound; not NATO."""
    capitals = Counter[str]()
    for sentence in sentences:
        for word, _ in WORDS.pre_tokenize_str(sentence):
            if has_sound(word):
                capitals[word.lower()] += 1 if word[0].isupper() and not word.isupper() else -1
    return {word for word, more in capitals.items() if more > 0}


def writes_spaces(language: str) -> bool:
    """Whether what stands between two spaces is a word."""
    return language.split("_")[0] not in UNSPACED


def stemmer(language: str) -> Callable[[str], str]:
    """Cuts the endings off a lower-case word, by Snowball's rules for its language; leaves it as it is without any."""
    name = STEMMERS.get(language.split("_")[0])
    return functools.cache(snowballstemmer.stemmer(name).stemWord) if name else str


def numbered(sentences: Iterable[Iterable[str]]) -> list[Words]:
    """Each word by its number, from 1 on, as `align` takes them."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers) + 1) for word in words]) for words in sentences]
