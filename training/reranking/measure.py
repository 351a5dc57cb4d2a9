"""Measures scorers on a collection's sets: mixed, and query and passage in each couple of languages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from training.evaluation.lines import find_file, read_json_lines
from training.reranking.collection import Collection
from training.reranking.mixing import mixed_test_set, set_in_languages
from training.reranking.ranking import METRICS, RankingSet, Scorer, score_ranking
from training.reranking.readers import BIPAR, SUFFIX, read_jsonl, read_squad, read_tsv, tsv_files

logger = logging.getLogger(__name__)
MIXED = "mixed"
SEED = 1  # of the coins that mix a test set: one set for all models
Scores = dict[str, dict[str, float]]  # metric -> couple of languages -> score x 100


def sets_of(
    collection: Collection, languages: Sequence[str], couples: Iterable[str], *, queries: int | None = None
) -> dict[str, RankingSet]:
    """The mixed set and those in couples such as en-zh (query-passage), as far as the collection has them.

    Args: languages: of the mixed set.  queries: at most so many of each, evenly spaced.
    """
    found = {}
    here = [language for language in languages if language in collection.languages]
    if len(here) > 1:
        found[MIXED] = mixed_test_set(collection, here, seed=SEED).spread(queries)
    for couple in couples:
        query, passage = couple.split("-")
        found[couple] = set_in_languages(collection, query, passage).spread(queries)
    return {name: one for name, one in found.items() if len(one)}


def measure(scorers: Mapping[str, Scorer], sets: Mapping[str, RankingSet]) -> dict[str, Scores]:
    """Scorer -> metric -> set -> score x 100."""
    found: dict[str, Scores] = {name: {metric: {} for metric in METRICS} for name in scorers}
    for label, one in sets.items():
        for name, scorer in scorers.items():
            for metric, value in score_ranking(one, scorer(one)).items():
                found[name][metric][label] = value
            logger.info("measured %s: %s, %d queries", name, label, len(one))
    return found


def find_collection(folder: Path) -> Collection | None:
    """The collection in a folder: XQuAD's or BiPaR's tables, JSON lines with query and positive, or SQuAD's JSON.

    None where there is none.

    Raises: EvaluationError: a malformed line.
    """
    if all(find_file(folder / name) for name in BIPAR) or (
        tsv_files(folder, "queries") and tsv_files(folder, "passages")
    ):
        return read_tsv(folder)
    files = sorted(path for path in folder.iterdir() if path.is_file() and re.fullmatch(rf".+{SUFFIX}", path.name))
    lines = [path for path in files if ".jsonl" in path.suffixes]
    if len(files) == len(lines) == 1 and _has_questions(lines[0]):
        return read_jsonl(lines[0])
    return read_squad(folder) if files and not lines else None


def couples_in(collection: Collection) -> list[str]:
    """All couples of query and passage languages, in order."""
    asked = sorted({language for question in collection.questions for language in question.texts})
    answered = sorted({language for passage in collection.passages for language in passage})
    return [f"{query}-{passage}" for query, passage in product(asked, answered)]


def _has_questions(path: Path) -> bool:
    first = read_json_lines(path, ())[0]
    return "query" in first and ("positive" in first or "positives" in first)
