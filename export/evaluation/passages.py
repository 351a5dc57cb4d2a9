"""Measures how well passages are found in a collection: each document whole, and split as the service splits it.

Shapes: D dims, N documents, P passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from service.documents.document import Document
from training.evaluation.encoders import Split
from training.evaluation.report import MetricScores, with_average
from training.evaluation.vectors import Encode, unit_rows
from training.reranking.collection import Collection
from training.reranking.ranking import MIXED, RankingSet, Scorer, measure, sets_of
from training.reranking.scorers import QueryScores

PARTS = {"train", "dev", "valid", "validation", "test"}  # folders of a collection that comes in parts


def halves(folder: Path, collection: Collection) -> dict[str, Collection]:
    """Return questions at even places as dev, at odd places as test; in a folder of `PARTS`, all as one."""
    if folder.name in PARTS:
        return {"": collection}
    questions = collection.questions
    return {"_test": collection.with_questions(questions[1::2]), "_dev": collection.with_questions(questions[::2])}


def best_passage_scorer(encode_query: Encode, encode_document: Encode, split: Split) -> Scorer:
    """Scores a document by the highest cosine of its passages."""
    split_once = cache(lambda text: Document("", text, {}, split(text)).parts)

    def score(ranking_set: RankingSet) -> QueryScores:
        passages_N = [split_once(text) for text in ranking_set.passages]
        first_N = np.cumsum([0, *map(len, passages_N)])[:-1]
        passage_PD = unit_rows(encode_document([*chain.from_iterable(passages_N)]))
        return [
            np.maximum.reduceat(passage_PD @ query_D, first_N)[row]
            for query_D, row in zip(unit_rows(encode_query(ranking_set.queries)), ranking_set.candidates, strict=True)
        ]

    return score


def evaluate_passages(
    scorers: Mapping[str, Scorer], collection: Collection, languages: Sequence[str], *, queries: int | None = None
) -> MetricScores:
    """Metric -> language or couple of languages -> score x 100, for each scorer.

    monolingual: acc@1, question and documents in one language.  crosslingual: acc@1, either side in English, the other
    not.  mixed: MRR, each question and each document in a language drawn by chance, by a fixed seed.
    """
    own = {f"{language}-{language}": language for language in languages}
    others = [language for language in languages if language != "en"]
    crossed = [couple for other in others for couple in (f"en-{other}", f"{other}-en")]
    scores = measure(scorers, sets_of(collection, languages, [*own, *crossed], queries=queries))
    first = {name: metrics["acc@1"] for name, metrics in scores.items()}
    monolingual = {name: {own[label]: acc[label] for label in own if label in acc} for name, acc in first.items()}
    crosslingual = {name: {label: acc[label] for label in crossed if label in acc} for name, acc in first.items()}
    mixed = {name: {MIXED: metrics["mrr"][MIXED]} for name, metrics in scores.items() if MIXED in metrics["mrr"]}
    return {
        **{f"monolingual_{name}": with_average(values) for name, values in monolingual.items()},
        **{f"crosslingual_{name}": with_average(values) for name, values in crosslingual.items()},
        **{f"mixed_{name}": values for name, values in mixed.items()},
    }
