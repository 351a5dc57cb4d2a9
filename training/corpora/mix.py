"""Builds one corpus from many sources: caps, deduplication, leakage filter, and weighted sampling plans.

The corpus on disk is `pairs.tsv` (source, language, English, other), readable by eye and by `Corpus.load`.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from training.corpora.config import CorpusConfig
from training.corpora.leakage import EvaluationSentences, check_no_leakage, normalize_for_matching
from training.corpora.readers import find_pair_file, read_tsv_pairs
from training.errors import CorpusError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Parallel pairs in memory. `english` and `other` hold indices into `texts`; English texts come first."""

    texts: list[str]
    english_count: int
    english: NDArray[np.int32]
    other: NDArray[np.int32]
    language: NDArray[np.str_]
    source: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.english)

    @classmethod
    def load(cls, path: Path) -> Corpus:
        """Read `pairs.tsv`."""
        with path.open(encoding="utf-8", newline="\n") as lines:
            rows = [line.rstrip("\n").split("\t") for line in lines]
        sources, languages, english, other = zip(*rows, strict=True)
        english_index = {text: index for index, text in enumerate(dict.fromkeys(english))}
        other_index = {text: index + len(english_index) for index, text in enumerate(dict.fromkeys(other))}
        return cls(
            texts=[*english_index, *other_index],
            english_count=len(english_index),
            english=np.fromiter((english_index[text] for text in english), dtype=np.int32),
            other=np.fromiter((other_index[text] for text in other), dtype=np.int32),
            language=np.array(languages),
            source=np.array(sources),
        )


def build_corpus(config: CorpusConfig, languages: list[str], data: Path, out: Path, *, seed: int) -> None:
    """Write `pairs.tsv` and `report.json` under `out` from `data`/parallel, free of what `data`/eval holds.

    Raises: CorpusError: no text for a language, or a malformed line.  LeakageError: the final check failed.
    """
    check_sources(config, languages, data)
    evaluation = EvaluationSentences.from_folder(data / "eval")
    dropped: Counter[str] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    generator = np.random.default_rng(seed)
    with (out / "pairs.tsv").open("w", encoding="utf-8", newline="\n") as target:
        for language in tqdm(languages, desc="corpus", unit="language"):
            seen: set[tuple[str, str]] = set()
            for source, settings in config.sources.items():
                path = find_pair_file(data / "parallel", source, language)
                if path is None:
                    continue
                clean = list(_clean(path, config, evaluation, seen, dropped))
                limit = min(len(clean), config.max_pairs if settings.max_pairs is None else settings.max_pairs)
                dropped["over the cap"] += len(clean) - limit
                kept[source, language] = limit
                for index in sorted(generator.permutation(len(clean))[:limit]):
                    target.write("\t".join((source, language, *clean[index])) + "\n")
            if not any(kept[source, language] for source in config.sources):
                reasons = dict(dropped) or "its files are empty"
                raise CorpusError(f"no parallel text for {language!r} is left of {data / 'parallel'}: {reasons}")
    checked = check_no_leakage(_pairs_on_disk(out / "pairs.tsv"), evaluation)
    report = {
        "pairs": checked,
        "dropped": dict(dropped),
        "evaluation_sentences_excluded": len(evaluation),
        "kept": {f"{source}/{language}": count for (source, language), count in kept.items()},
    }
    (out / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    logger.info(
        "corpus: %d pairs, none in %d evaluation sentences; dropped %s", checked, len(evaluation), report["dropped"]
    )


def check_sources(config: CorpusConfig, languages: list[str], data: Path) -> None:
    """Each configured source and each language must have a file.

    Raises: CorpusError: names the first that has none.
    """
    found = {
        (source, language)
        for source in config.sources
        for language in languages
        if find_pair_file(data / "parallel", source, language)
    }
    for source in config.sources:
        if not any((source, language) in found for language in languages):
            raise CorpusError(f"source {source!r} has no en-<language>.tsv[.gz] of this run under {data / 'parallel'}")
    for language in languages:
        if not any((source, language) in found for source in config.sources):
            raise CorpusError(f"no parallel text for {language!r} under {data / 'parallel'}")


def _clean(
    path: Path, config: CorpusConfig, evaluation: EvaluationSentences, seen: set[tuple[str, str]], dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of one file that are new and in no evaluation set."""
    for english, other in read_tsv_pairs(path, on_bad_line=config.on_bad_line):
        keys = normalize_for_matching(english), normalize_for_matching(other)
        if keys in seen:
            dropped["duplicate"] += 1
        elif any(map(evaluation.has_key, keys)):
            dropped["in an evaluation set"] += 1
        else:
            seen.add(keys)
            yield english, other


def _pairs_on_disk(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            _, _, english, other = line.rstrip("\n").split("\t")
            yield english, other


def language_shares(counts: dict[str, int], exponent: float) -> dict[str, float]:
    """Probability of each language: n ** exponent, normalised (temperature sampling; 1: by size, 0: uniform)."""
    weights = {language: count**exponent for language, count in counts.items()}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}


def sampling_plan(
    corpus: Corpus, config: CorpusConfig, pairs: int, *, seed: int, language_exponent: float | None = None
) -> NDArray[np.int64]:
    """Which pair is trained on when: `pairs` indices into the corpus, shuffled, deterministic by seed.

    Each language gets its temperature share, each source within it its weight times its size; inside one source of one
    language pairs are visited in shuffled rounds, so none is seen twice before all were seen once.
    """
    generator = np.random.default_rng(seed)
    names, counts = np.unique(corpus.language, return_counts=True)
    exponent = config.language_exponent if language_exponent is None else language_exponent
    shares = language_shares(dict(zip(names.tolist(), counts.tolist(), strict=True)), exponent)
    chosen: list[NDArray[np.int64]] = []
    for language, share in shares.items():
        in_language = np.flatnonzero(corpus.language == language)
        groups = [in_language[corpus.source[in_language] == name] for name in config.sources]
        weights = [len(group) * source.weight for group, source in zip(groups, config.sources.values(), strict=True)]
        for group, weight in zip(groups, weights, strict=True):
            quota = round(pairs * share * weight / sum(weights))
            chosen.append(_rounds(group, quota, generator))
    plan = np.concatenate(chosen)
    generator.shuffle(plan)
    return plan


def _rounds(group: NDArray[np.int64], quota: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """`quota` members of `group` in shuffled rounds."""
    if quota == 0 or len(group) == 0:
        return np.empty(0, dtype=np.int64)
    rounds = -(-quota // len(group))
    return np.concatenate([generator.permutation(group) for _ in range(rounds)])[:quota]
