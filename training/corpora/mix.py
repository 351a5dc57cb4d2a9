"""Builds one corpus of many sources: filters, caps, a report of what was dropped, and a final check for leaks.

Memory: at most 81 bytes a pair that passes the filters, plus the evaluation sentences. That is 24 bytes for the hash of
each text and of each pair of the current language (`HashIndex`), and 9 bytes a pair of the current file.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import compress, islice, product
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from training.config.run import CorpusConfig
from training.corpora.corpus import Corpus, CorpusWriter
from training.corpora.filters import PairFilter
from training.corpora.leakage import EvaluationSentences, check_no_leakage
from training.corpora.noise import noisy_pairs
from training.corpora.readers import find_pair_file, read_pair_file
from training.corpora.text_pairs import Pair
from training.errors import CorpusError
from training.system.files import write_json_atomically

logger = logging.getLogger(__name__)
BATCH_PAIRS = 5_000  # filtered at once
SPOOL = ".spool.tsv"  # pairs of one source and language that passed the filters, before the cap


Name = tuple[str, str]  # source, language


def build_corpus(
    config: CorpusConfig, languages: list[str], data: Path, out: Path, *, seed: int, scored: Path | None = None
) -> None:
    """Write a corpus and its `report.json` under `out` from `data`/parallel, without the sentences of `scored`/eval.

    A pair that several sources have belongs to the first of them, even if that source's cap then drops it.

    Args:   scored: None: `data`.
    Raises: CorpusError: no text for a language, or a malformed line.  LeakageError: the final check failed.
    """
    check_sources(config, languages, data)
    evaluation = EvaluationSentences.from_folder((scored or data) / "eval")
    generator = np.random.default_rng(seed)
    kept: Counter[Name] = Counter()
    dropped: dict[Name, Counter[str]] = {}  # by reason
    with (
        CorpusWriter(out, languages, list(config.sources)) as writer,
        tqdm(desc="corpus", unit=" pairs", unit_scale=True) as progress,
    ):
        for language in languages:
            pair_filter = PairFilter(config, language, evaluation)
            for source in config.sources:
                path = find_pair_file(data / "parallel", source, language)
                if path is None:
                    continue
                counts = dropped[source, language] = Counter[str]()
                lines = read_pair_file(path, language, on_bad_line=config.on_bad_line, dropped=counts)
                fit_count = _spool(lines, pair_filter, counts, out / SPOOL, progress)
                limit = config.sources[source].max_pairs
                chosen = _sample(fit_count, config.max_pairs if limit is None else limit, generator)
                for batch in _batches(compress(_spooled(out / SPOOL), chosen)):
                    noise = list(noisy_pairs(batch, config.noise, seed=seed)) if config.noise else []
                    copies = pair_filter.without_leaks(noise, counts)
                    writer.add([*batch, *copies], language=language, source=source)
                    kept[source, language] += len(batch) + len(copies)
                counts["over the cap"] = fit_count - int(chosen.sum())
            if not any(kept[source, language] for source in config.sources):
                of_language = [counts for (_, name), counts in dropped.items() if name == language]
                reasons = _total(of_language) or "its files are empty"
                raise CorpusError(f"no parallel text for {language!r} is left of {data / 'parallel'}: {reasons}")
    (out / SPOOL).unlink()
    check_no_leakage(Corpus.load(out).texts, evaluation)
    report = {
        "pairs": kept.total(),
        "dropped": _total(dropped.values()),
        "kept": {"/".join(name): count for name, count in kept.items()},
        "dropped_of_each": {"/".join(name): dict(+counts) for name, counts in dropped.items()},
        "evaluation_sentences_excluded": len(evaluation),
    }
    write_json_atomically(out / "report.json", report)
    logger.info("corpus: %d pairs; dropped %s", report["pairs"], report["dropped"])


def _total(counts: Iterable[Counter[str]]) -> dict[str, int]:
    """The sum of several counts, without zeros."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(+total)


def check_sources(config: CorpusConfig, languages: list[str], data: Path) -> None:
    """Check that each configured source and each language has a file.

    Raises: CorpusError: one has none; the message names the first.
    """
    folder = data / "parallel"
    pairs = [pair for pair in product(config.sources, languages) if find_pair_file(folder, *pair)]
    for source in config.sources:
        if source not in {name for name, _ in pairs}:
            raise CorpusError(
                f"source {source!r} has no en-<language>.tsv[.gz], nor another format of docs/guide/corpora.md, "
                f"under {folder} in a language of this run"
            )
    for language in languages:
        if language not in {name for _, name in pairs}:
            raise CorpusError(f"no parallel text for {language!r} under {folder}")


def _spool(
    pairs: Iterable[Pair], pair_filter: PairFilter, dropped: Counter[str], path: Path, progress: tqdm[NoReturn]
) -> int:
    """Write the pairs that pass the filters to `path`. Returns: their number."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as spool:
        for batch in _batches(pairs):
            fit = pair_filter.keep(batch, dropped)
            spool.writelines(f"{english}\t{other}\n" for english, other in fit)
            count += len(fit)
            progress.update(len(batch))
    return count


def _spooled(path: Path) -> Iterator[Pair]:
    with path.open(encoding="utf-8", newline="\n") as spool:
        for line in spool:
            english, other = line.rstrip("\n").split("\t")
            yield english, other


def _sample(count: int, limit: int | None, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Choose `limit` of `count` pairs at random; None: all. Returns: (count,) bool."""
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[generator.permutation(count)[:limit]] = True
    return chosen


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while batch := list(islice(pairs, BATCH_PAIRS)):
        yield batch
