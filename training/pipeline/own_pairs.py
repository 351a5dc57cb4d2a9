"""A run on one file of sentence pairs (`--pairs FILE`): finds its languages and lays it out as a data folder."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from training.alignment.pairs import NAME, PairFile, read_pairs
from training.config.run import RunConfig, SourceConfig
from training.errors import ConfigError, CorpusError
from training.system.files import write_atomically
from training.system.text_files import text_lines

STARTER = Path(__file__).parents[1] / "configs" / "starter.yaml"
LOOKED_AT = 200  # lines, for their languages
MOSTLY = 0.5  # of them must agree


def read_own_pairs(path: Path, languages: tuple[str, str] | None) -> PairFile:
    """The pairs of a file, English first whichever column it is in.

    Args:   languages: of the columns; None: those in the file's name (`en-de.tsv`), or those that the text looks like.
    Raises: ConfigError: neither column is English.  AlignmentError, CorpusError: what is wrong with the file.
    """
    if languages is None and not NAME.fullmatch(path.name):
        languages = look_at(path)
    pairs = read_pairs(path, languages=languages)
    if "en" not in pairs.languages:
        raise ConfigError(
            f"{path} is {pairs.label}; one column must be English, which the teacher reads (--languages en,de)"
        )
    if pairs.languages[0] == "en":
        return pairs
    return dataclasses.replace(
        pairs, languages=("en", pairs.languages[0]), pairs=[(right, left) for left, right in pairs.pairs]
    )


def look_at(path: Path) -> tuple[str, str]:
    """The languages that most of a file's first lines look like, by its last two columns.

    Raises: CorpusError: the file cannot be read, or its text has no clear language.
    """
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    seen: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for number, line in text_lines(path, error=CorpusError):
        if number > LOOKED_AT:
            break
        for counts, text in zip(seen, line.split("\t")[-2:], strict=False):
            counts[identifier.classify(text)[0]] += 1
    left, right = (next(iter(counts.most_common(1)), ("", 0)) for counts in seen)
    if min(left[1], right[1]) <= MOSTLY * seen[0].total():
        raise CorpusError(f"{path} does not show its languages clearly; name them: --languages en,de")
    return left[0], right[0]


def with_own_pairs(config: RunConfig, pairs: PairFile) -> RunConfig:
    """The configuration, on this file alone."""
    corpus = config.corpus.model_copy(update={"sources": {_source(pairs): SourceConfig()}, "fetch": False})
    return config.model_copy(update={"languages": [pairs.languages[1]], "corpus": corpus})


def write_data(pairs: PairFile, data: Path) -> None:
    """Write the pairs where a run looks for parallel text."""
    path = data / "parallel" / _source(pairs) / f"{pairs.label}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{english}\t{other}\n" for english, other in pairs.pairs)
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _source(pairs: PairFile) -> str:
    return pairs.path.name.partition(".")[0]
