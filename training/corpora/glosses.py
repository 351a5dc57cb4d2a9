"""Glosses: English sentences put word by word into a language that has no text of their kind.

The words come from a dictionary induced from the language's own text (`training.corpora.dictionary`). A gloss has the
words of a translation and neither its grammar nor its order: enough for mean-pooled embeddings to learn how words of
one domain make up a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.corpora.config import CorpusConfig
from training.corpora.dictionary import Dictionary, words_of
from training.corpora.readers import find_pair_file, read_pairs
from training.corpora.tsv import Pair

UNSPACED = ("ja", "km", "lo", "my", "th", "vi", "yue", "zh")  # no spaces between words, or (vi) between syllables
MIN_TRANSLATED = 0.5  # of a gloss's words


@dataclass(frozen=True)
class GlossSource:
    """A source made of others' English, in the languages that they lack.

    All its different sentences are in memory: some 50 bytes each beside their characters, twice while they are read.
    """

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
        dictionary, generator = Dictionary(known, language), np.random.default_rng((seed, *language.encode()))
        for sentence in self.sentences:
            found = gloss(sentence, dictionary, generator)
            if found is not None:
                yield sentence, found


def gloss(english: str, dictionary: Dictionary, generator: np.random.Generator) -> str | None:
    """A sentence word by word, counterparts drawn by probability; an unknown word stays as it is.

    None: fewer than half of its words would be translated.
    """
    words: list[str] = []
    translated = 0
    for word in words_of(english):
        found = dictionary.translate(word, generator)
        if found != "":
            words.append(word if found is None else found)
            translated += found is not None
    return " ".join(words) if translated and translated >= MIN_TRANSLATED * len(words) else None
