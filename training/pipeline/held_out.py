"""Holds pairs out of a run's parallel text, to score the model on where the data has no evaluation set.

FOLDER/eval/held_out/en-<lang>/pairs.tsv: `crosslet evaluate` reads it, too. The corpus step then drops every pair that
shares a sentence with it, like those of any evaluation set.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from training.config.run import RunConfig
from training.corpora.cleaning.keys import matching_key
from training.corpora.mix import check_sources
from training.corpora.sources.readers import find_pair_file, read_pairs
from training.corpora.sources.text_pairs import Pair
from training.evaluation.report import HELD_OUT
from training.system.files import write_atomically

SHARE = 0.1  # of a language's pairs
MOST = 500  # pairs of a language


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
            for pair in read_pairs(path, language, on_bad_line=config.corpus.on_bad_line)
        )
        chosen = "".join(f"{english}\t{other}\n" for english, other in sample(pairs, seed=config.seed))
        path = folder / "eval" / HELD_OUT / f"en-{language}" / "pairs.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda part, text=chosen: part.write_text(text, encoding="utf-8"))  # type: ignore[misc]


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
    return _distinct(kept)[: max(1, round(SHARE * count))]


def _distinct(pairs: list[Pair]) -> list[Pair]:
    """The first pair of each sentence, on either side."""
    seen: set[str] = set()
    distinct = []
    for pair in pairs:
        keys = {matching_key(text) for text in pair}
        if not keys & seen:
            distinct.append(pair)
        seen |= keys
    return distinct
