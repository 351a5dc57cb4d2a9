"""Writes `crosslet.json` beside a finished cross-encoder: what the exporter and the model card need to know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.corpora.catalog import source_row
from training.reranking.config import RerankConfig
from training.reranking.data import RerankData
from training.reranking.negatives import aligned_pairs, random_negatives
from training.reranking.pairs import mixed
from training.system.files import RECORD_FILE, write_json_atomically

GATE_QUESTIONS = 100  # of validation: what the exporter's quality gate is measured on
GATE_CANDIDATES = 20  # each
CALIBRATION_QUESTIONS = 100  # of each source: pairs that the exporter fixes the steps of activations by

# set -> scorer -> metric -> couple -> score x 100
RankingScores = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]


def write_record(
    folder: Path,
    config: RerankConfig,
    data: RerankData,
    *,
    git_commit: str,
    pairs_seen: dict[str, int],
    scores: RankingScores,
) -> None:
    """Gather scores, data sources, and the pairs for calibration and the quality gate."""
    record = {
        "name": config.name,
        "languages": sorted(set(config.languages)),
        "max_length": config.max_length,
        "config": config.model_dump(),
        "git_commit": git_commit,
        "pairs_seen": pairs_seen,
        "evaluation": by_metric(scores),
        "data": data_sources(config, data),
        "calibration_pairs": calibration_pairs(config, data),
        "ranking_gate": ranking_gate(config, data),
    }
    write_json_atomically(folder / RECORD_FILE, record)


def by_metric(scores: RankingScores) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return a table for each set and metric: scorer -> couple of languages -> score x 100."""
    return {
        f"{name}, {metric}": {scorer: values[metric] for scorer, values in by_scorer.items()}
        for name, by_scorer in scores.items()
        for metric in next(iter(by_scorer.values()))
    }


def data_sources(config: RerankConfig, data: RerankData) -> list[dict[str, Any]]:
    """Return each source with its licence and how many questions, or sentences of stage 1, it has."""
    counts = [(source.corpus, len(kept.questions)) for source, kept in zip(config.train, data.training, strict=True)]
    counts += [(source, len(data.parallel([source]))) for source in (config.xpi.sources if config.xpi else ())]
    return [source_row(source, count) for source, count in counts]


def calibration_pairs(config: RerankConfig, data: RerankData) -> list[tuple[str, str]]:
    """Return queries with passages that answer them and others, mixed by language as in training."""
    pairs_read = []
    for collection in data.training:
        step = max(1, -(-len(collection.questions) // CALIBRATION_QUESTIONS))
        few = collection.with_questions(collection.questions[::step])
        pairs = aligned_pairs(few, random_negatives(few, 1, seed=config.seed))
        mixed_pairs = mixed(pairs, config.languages, seed=config.seed, mix_by=config.mix_by)
        pairs_read += [(pair.query, pair.passage) for pair in mixed_pairs]
    return list(dict.fromkeys(pairs_read))


def ranking_gate(config: RerankConfig, data: RerankData) -> dict[str, Any]:
    """Return validation questions, each with its positives and a few other passages."""
    ranking_set = data.validation.spread(GATE_QUESTIONS).with_candidates(GATE_CANDIDATES, seed=config.seed)
    used = sorted({int(index) for row in ranking_set.candidates for index in row})
    new_index = {old: new for new, old in enumerate(used)}
    return {
        "queries": ranking_set.queries,
        "passages": [ranking_set.passages[index] for index in used],
        "candidates": [[new_index[index] for index in row.tolist()] for row in ranking_set.candidates],
        "positives": [sorted(new_index[index] for index in row) for row in ranking_set.positives],
    }
