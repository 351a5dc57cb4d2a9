"""What English words are in another language, learnt from parallel text.

By IBM Model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine Translation"), run both ways: once over words
as they are written, and once over their stems (Snowball), for English words that the first leaves without counterpart.

Shapes: S distinct source words, T distinct target words, `NULL` counted; O occurrences of target words; C cells: each
occurrence beside each source word of its pair.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import snowballstemmer
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from tokenizers import pre_tokenizers  # type: ignore[import-untyped]

from training.corpora.tsv import Pair

MAX_PAIRS = 60_000  # that a dictionary is learnt from; more changes frequent words little
MAX_CELLS = 10_000_000  # of these pairs, the first: 90 bytes each while it is learnt
MAX_WORDS = 40  # of a sentence, that are learnt from
ITERATIONS = 6  # of EM
NULL = 0  # the source word that stands for none
MIN_SCORE = 0.02  # of t(other | English) t(English | other)
MIN_COUNT = 1.5  # expected occurrences of the two words as each other's translation
CANDIDATES = 3  # of an English word
FREQUENT = 0.02  # of all sentences: so frequent a word without a counterpart is one the language lacks ("the")
FREQUENT_COUNT = 30  # sentences, at least
STEMMERS = {  # Snowball's, by language code; without one, words of the other side stay as they are
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "nb": "norwegian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


Sides = list[tuple[list[str], list[str]]]  # the words of each pair's English and other side


class Dictionary:
    """What English words are in another language, learnt from pairs.

    Args:   language: of the other side; it says how its words are stemmed.
    Raises: ValueError: no pairs.
    """

    def __init__(self, pairs: Sequence[Pair], language: str) -> None:
        if not pairs:
            raise ValueError("a dictionary needs pairs to learn from")
        sides = [(words_of(english)[:MAX_WORDS], words_of(other)[:MAX_WORDS]) for english, other in pairs[:MAX_PAIRS]]
        cells = np.cumsum([(len(left) + 1) * (len(right) + 1) for left, right in sides])
        sides = sides[: np.searchsorted(cells, MAX_CELLS)]
        self._by_word = _Candidates(sides)
        self._stem_english, stem_other = stemmer("en"), stemmer(language)
        self._by_stem = _Candidates(
            [([*map(self._stem_english, left)], [*map(stem_other, right)]) for left, right in sides]
        )
        written = Counter(word for _, right in sides for word in right)
        self._usual = {stem_other(word): word for word, _ in reversed(written.most_common())}

    def __len__(self) -> int:
        """English words that it knows as they are written."""
        return len(self._by_word)

    def translate(self, word: str, generator: np.random.Generator) -> str | None:
        """A counterpart of a lower-case English word, drawn by probability; by its stem where the word has none.

        None: neither has one.  "": a frequent word that the language lacks.
        """
        found = self._by_word.draw(word, generator)
        if found is None and (stem := self._by_stem.draw(self._stem_english(word), generator)) is not None:
            found = self._usual[stem]
        return "" if found is None and self._by_word.is_lacking(word) else found


class _Candidates:
    """The likeliest counterparts of each English word, with their probabilities."""

    def __init__(self, sides: Sides) -> None:
        english, other = _Side([left for left, _ in sides]), _Side([right for _, right in sides])
        forth_ST, counts_ST = model_one(english.sentences, other.sentences)
        back_TS, _ = model_one(other.sentences, english.sentences)
        scores_ST = forth_ST.multiply(back_TS.T).multiply(counts_ST >= MIN_COUNT).tocsr()
        self._found: dict[str, tuple[list[str], NDArray[np.float64]]] = {}
        for word, number in english.numbers.items():
            row = scores_ST[number]
            best = np.argsort(-row.data, kind="stable")[:CANDIDATES]
            best = best[row.data[best] >= MIN_SCORE]
            if len(best):
                score = row.data[best]
                self._found[word] = [other.words[i] for i in row.indices[best]], score / score.sum()
        frequent = english.sentence_counts() >= max(FREQUENT * len(sides), FREQUENT_COUNT)
        self._lacking = {word for word, i in english.numbers.items() if frequent[i] and word not in self._found}

    def __len__(self) -> int:
        return len(self._found)

    def is_lacking(self, word: str) -> bool:
        """Whether a word is so frequent that, having no counterpart, it has none in the language."""
        return word in self._lacking

    def draw(self, word: str, generator: np.random.Generator) -> str | None:
        """A counterpart by probability; None: there is none."""
        if word not in self._found:
            return None
        candidates, probability = self._found[word]
        return candidates[generator.choice(len(candidates), p=probability)]


class _Side:
    """One side of the pairs as numbers; `NULL` is no word."""

    def __init__(self, sentences: Sequence[list[str]]) -> None:
        self.numbers: dict[str, int] = {}
        self.sentences = [
            np.array([self.numbers.setdefault(word, len(self.numbers) + 1) for word in sentence], dtype=np.int64)
            for sentence in sentences
        ]
        self.words = ["", *self.numbers]

    def sentence_counts(self) -> NDArray[np.int64]:
        """In how many sentences each word is."""
        return np.bincount(np.concatenate([np.unique(s) for s in self.sentences]), minlength=len(self.words))


def words_of(text: str) -> list[str]:
    """Lower-case words and punctuation marks."""
    return [word for word, _ in WORDS.pre_tokenize_str(text.lower())]


def stemmer(language: str) -> Callable[[str], str]:
    """Cuts the endings off a lower-case word, by Snowball's rules for its language; leaves it as it is without any."""
    name = STEMMERS.get(language)
    return functools.cache(snowballstemmer.stemmer(name).stemWord) if name else str


def model_one(
    source: Sequence[NDArray[np.int64]], target: Sequence[NDArray[np.int64]]
) -> tuple[csr_matrix, csr_matrix]:
    """IBM Model 1 by EM: t(target word | source word), and how often the one was expected to stand for the other.

    Args:    source, target: the words of each pair's sides as numbers from 1 on.
    Returns: two (S, T) matrices; row `NULL` has the target words that stand for none.
    """
    with_null = [np.append(words, NULL) for words in source]
    pairs = list(zip(with_null, target, strict=True))
    width_O = np.repeat(
        [len(words) for words in with_null], [len(row) for row in target]
    )  # source words beside each target occurrence
    source_C = np.concatenate([np.tile(words, len(row)) for words, row in pairs])
    target_C = np.repeat(np.concatenate(target), width_O)
    occurrence_C = np.repeat(np.arange(len(width_O)), width_O)
    shape = int(source_C.max()) + 1, int(target_C.max()) + 1
    entries, entry_C = np.unique(source_C * shape[1] + target_C, return_inverse=True)
    row_of_entry, column_of_entry = np.divmod(entries, shape[1])
    table: NDArray[Any] = np.ones(len(entries))
    counts = table
    for _ in range(ITERATIONS):
        share_C = table[entry_C]
        share_C /= np.bincount(occurrence_C, share_C)[occurrence_C]
        counts = np.bincount(entry_C, share_C)
        table = counts / np.bincount(row_of_entry, counts)[row_of_entry]
    return tuple(csr_matrix((values, (row_of_entry, column_of_entry)), shape) for values in (table, counts))
