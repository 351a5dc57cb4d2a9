"""Prepares what a run reads before its first step: a file of pairs (`--pairs`), held-out pairs, and checks.

Held-out pairs, where the data has no evaluation set, are in FOLDER/eval/held_out/en-<lang>/pairs.tsv, which `crosslet
evaluate` reads, too. The corpus step drops every pair that shares a sentence with them, as for any evaluation set.
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from training.alignment.pairs import NAME, PairFile, read_pairs
from training.config.run import RunConfig, SourceConfig, stage_key
from training.corpora.keys import matching_key
from training.corpora.mix import check_sources
from training.corpora.readers import find_pair_file, read_pair_file
from training.corpora.text_pairs import Pair
from training.errors import ConfigError, CorpusError
from training.evaluation.report import HELD_OUT, check_sets
from training.evaluation.sts import DevScore, has_dev
from training.system.device import check_compiler
from training.system.files import write_text_atomically
from training.system.text_files import text_lines

logger = logging.getLogger(__name__)
STARTER = Path(__file__).parents[1] / "configs" / "starter.yaml"
LOOKED_AT = 200  # lines, for their languages
MOSTLY = 0.5  # of them must agree
SHARE = 0.1  # of a language's pairs
MOST = 500  # pairs of a language


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
    corpus = config.corpus.model_copy(
        update={"sources": {_source(pairs): SourceConfig()}, "fetch": False, "terms": None}
    )
    return config.model_copy(update={"languages": [pairs.languages[1]], "corpus": corpus})


def write_data(pairs: PairFile, data: Path) -> None:
    """Write the pairs where a run looks for parallel text."""
    _write_tsv(data / "parallel" / _source(pairs) / f"{pairs.label}.tsv", pairs.pairs)


def _source(pairs: PairFile) -> str:
    return pairs.path.name.partition(".")[0]


def hold_out(config: RunConfig, data: Path, folder: Path) -> None:
    """Write a tenth of each language's pairs, at most 500, under `folder`; the same ones for the same text and seed.

    Raises: CorpusError: a source or a language has no text, or a line is malformed.
    """
    check_sources(config.corpus, config.languages, data)
    for language in config.languages:
        paths = (find_pair_file(data / "parallel", source, language) for source in config.corpus.sources)
        pairs = (
            pair
            for path in paths
            if path is not None
            for pair in read_pair_file(path, language, on_bad_line=config.corpus.on_bad_line)
        )
        path = folder / "eval" / HELD_OUT / f"en-{language}" / "pairs.tsv"
        _write_tsv(path, sample(pairs, seed=config.seed))


def _write_tsv(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, "".join(f"{english}\t{other}\n" for english, other in pairs))


def sample(pairs: Iterable[Pair], *, seed: int) -> list[Pair]:
    """Pairs at random without a repeated side, in one pass that keeps `MOST` in memory (reservoir sampling)."""
    generator, kept, count = random.Random(seed), list[Pair](), 0
    for english, other in pairs:
        pair = " ".join(english.split()), " ".join(other.split())
        if not all(pair) or matching_key(pair[0]) == matching_key(pair[1]):
            continue
        count += 1
        if len(kept) < MOST:
            kept.append(pair)
        elif (place := generator.randrange(count)) < MOST:
            kept[place] = pair
    generator.shuffle(kept)
    seen: set[str] = set()
    distinct = []
    for pair in kept:
        keys = {matching_key(text) for text in pair}
        if not keys & seen:
            distinct.append(pair)
        seen |= keys
    return distinct[: max(1, round(SHARE * count))]


def check_machine(config: RunConfig) -> None:
    """Check that there is a C++ compiler if a stage has `compile: true`.

    Raises: ConfigError: there is none.
    """
    for name in config.stages:
        if config.stage(name).compile:
            check_compiler(name)


def check_evaluation(config: RunConfig, data: Path) -> None:
    """Check that the sets scored during and after training exist and are well-formed.

    Raises: EvaluationError: names the file and the line, or what is missing.
    """
    check_sets(data, config.scored_languages)
    if config.validates:
        DevScore(data, config.scored_languages, dev=config.dev_folder, rows=config.evaluation.dev_rows)


def without_missing_dev(config: RunConfig, data: Path) -> RunConfig:
    """The configuration, without dev scores where the default dev set is missing."""
    if not config.validates or config.evaluation.dev is not None:
        return config
    if has_dev(data, config.scored_languages, config.dev_folder):
        return config
    logger.info("no dev scores during training: eval/%s has none of these languages", config.dev_folder)
    stages = {stage_key(name): config.stage(name) for name in config.stages}
    without = {key: stage.model_copy(update={"validate_pairs": None}) for key, stage in stages.items()}
    return config.model_copy(update=without)
