"""Glosses: English sentences put into a language that has no text of their kind.

They are made by a translator that is learnt from the language's own text (`training.corpora.translation`): phrases
where that text has them, words where not, in English order. Enough for mean-pooled embeddings to learn how words of one
domain make up a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.corpora.config import CorpusConfig
from training.corpora.readers import find_pair_file, read_pairs
from training.corpora.translation import Translator, writes_spaces
from training.corpora.tsv import Pair

MIN_KNOWN = 0.5  # of a sentence's words


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
        lacking = [name for name, paths in files.items() if not paths and writes_spaces(name)]
        return cls(list(dict.fromkeys(read)), lacking)

    def pairs(self, language: str, known: Sequence[Pair]) -> Iterator[Pair]:
        """Each sentence with its gloss, where half of its words are known; nothing for a language that has text.

        Args: known: pairs of the language that its translator is learnt from.
        """
        if language not in self.lacking:
            return
        translator = Translator(known, language, self.sentences)
        for sentence in self.sentences:
            if translator.known_share(sentence) >= MIN_KNOWN:
                yield sentence, translator.translate(sentence)
