"""Glosses: English sentences put word by word into a language that has no text of their kind.

The words come from a dictionary induced from the language's own parallel text by IBM Model 1 (Brown et al. 1993,
"The Mathematics of Statistical Machine Translation"), run both ways. A gloss has the words of a translation and neither
its grammar nor its order: enough for mean-pooled embeddings to learn how words of one domain make up a sentence.

Shapes: S distinct source words, T distinct target words, `NULL` counted; O occurrences of target words; C cells: each
occurrence beside each source word of its pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from tokenizers import pre_tokenizers  # type: ignore[import-untyped]

from training.corpora.config import CorpusConfig
from training.corpora.readers import find_pair_file, read_pairs
from training.corpora.tsv import Pair

UNSPACED = ("ja", "km", "lo", "my", "th", "vi", "yue", "zh")  # no spaces between words, or (vi) between syllables
MAX_PAIRS = 60_000  # that a dictionary is learnt from; more changes frequent words little
MAX_CELLS = 10_000_000  # of these pairs, the first: 90 bytes each while it is learnt
MAX_WORDS = 40  # of a sentence
ITERATIONS = 6  # of EM
NULL = 0  # the source word that stands for none
MIN_SCORE = 0.02  # of t(other | English) t(English | other)
MIN_COUNT = 1.5  # expected occurrences of the two words as each other's translation
CANDIDATES = 3  # of an English word
FREQUENT = 0.02  # of all sentences: so frequent a word without a counterpart is one the language lacks ("the")
MIN_TRANSLATED = 0.5  # of a gloss's words
WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


class Dictionary:
    """What English words are in another language, learnt from pairs.

    Raises: ValueError: no pairs.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        if not pairs:
            raise ValueError("a dictionary needs pairs to learn from")
        sides = [(words_of(english), words_of(other)) for english, other in pairs[:MAX_PAIRS]]
        sides = sides[
            : np.searchsorted(np.cumsum([(len(left) + 1) * (len(right) + 1) for left, right in sides]), MAX_CELLS)
        ]
        english, other = _Side([left for left, _ in sides]), _Side([right for _, right in sides])
        forth_ST, counts_ST = model_one(english.sentences, other.sentences)
        back_TS, _ = model_one(other.sentences, english.sentences)
        scores_ST = forth_ST.multiply(back_TS.T).multiply(counts_ST >= MIN_COUNT).tocsr()
        self._candidates: dict[str, tuple[list[str], NDArray[np.float64]]] = {}
        for word, number in english.numbers.items():
            row = scores_ST[number]
            best = np.argsort(-row.data, kind="stable")[:CANDIDATES]
            best = best[row.data[best] >= MIN_SCORE]
            if len(best):
                score = row.data[best]
                self._candidates[word] = [other.words[i] for i in row.indices[best]], score / score.sum()
        frequent = english.sentence_counts() >= FREQUENT * len(sides)
        self._lacking = {word for word, i in english.numbers.items() if frequent[i] and word not in self._candidates}

    def __len__(self) -> int:
        """English words that it knows."""
        return len(self._candidates)

    def gloss(self, english: str, generator: np.random.Generator) -> str | None:
        """A sentence word by word, its candidates drawn by probability; an unknown word stays as it is.

        None: fewer than half of its words would be translated.
        """
        words: list[str] = []
        translated = 0
        for word in words_of(english):
            if word in self._candidates:
                candidates, probability = self._candidates[word]
                words.append(candidates[generator.choice(len(candidates), p=probability)])
                translated += 1
            elif word not in self._lacking:
                words.append(word)
        return " ".join(words) if translated and translated >= MIN_TRANSLATED * len(words) else None


@dataclass(frozen=True)
class GlossSource:
    """A source made of others' English, in the languages that they lack: 2 bytes a character of its sentences."""

    sentences: list[str]
    lacking: list[str]  # languages, those left out that have no words to look up

    @classmethod
    def of(cls, texts: list[str], languages: list[str], config: CorpusConfig, data: Path) -> GlossSource:
        """Of the English sides of the sources `texts`."""
        files = {
            language: [path for text in texts if (path := find_pair_file(data / "parallel", text, language))]
            for language in languages
        }
        read = (
            english
            for language, paths in files.items()
            for path in paths
            for english, _ in read_pairs(path, language, on_bad_line=config.on_bad_line)
        )
        lacking = [name for name, paths in files.items() if not paths and name.split("_")[0] not in UNSPACED]
        return cls(list(dict.fromkeys(read)), lacking)

    def pairs(self, language: str, known: Sequence[Pair], *, seed: int) -> Iterator[Pair]:
        """Each sentence with its gloss, where half of it can be translated; nothing for a language that has text.

        Args: known: pairs of the language that its dictionary is learnt from.
        """
        if language not in self.lacking or not known:
            return
        dictionary, generator = Dictionary(known), np.random.default_rng((seed, *language.encode()))
        for sentence in self.sentences:
            gloss = dictionary.gloss(sentence, generator)
            if gloss is not None:
                yield sentence, gloss


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
    """Lower-case words and punctuation marks, the first `MAX_WORDS`."""
    return [word for word, _ in WORDS.pre_tokenize_str(text.lower())][:MAX_WORDS]


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
