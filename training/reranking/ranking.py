"""Ranking sets: made of a collection in some languages, and measured by the scores of candidates.

Metrics are those of Chen et al. 2020, eqs. (5)-(11): acc@k, and MRR and MAP over the whole list of candidates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from training.errors import EvaluationError
from training.evaluation.retrieval import accuracy_at, average_precision_at, ndcg_at, reciprocal_rank_at
from training.reranking.collection import Collection, Texts, evenly_spaced

logger = logging.getLogger(__name__)
MIXED = "mixed"
SEED = 1  # mixes a test set: one set for all models
METRICS = ("acc@1", "acc@10", "mrr", "map", "ndcg@10")
Indices = NDArray[np.int64]
MetricScores = dict[str, dict[str, float]]  # metric -> couple of languages -> score x 100


@dataclass(frozen=True)
class RankingSet:
    """Queries, passages, and for each query the passages to be ranked and those that answer it."""

    queries: list[str]
    passages: list[str]
    candidates: list[Indices]
    positives: list[frozenset[int]]

    @classmethod
    def of(
        cls, collection: Collection, query_languages: Sequence[str | None], pools: Iterable[Mapping[int, str]]
    ) -> RankingSet:
        """Take each text in one language; None: the text is left out. So are unanswered queries.

        An unanswered query has no positive among its candidates, like 375 of the 2,000 of InsuranceQA's test set.

        Args: pools: of each question, its candidates and the language that each comes in.
        """
        new_index: dict[tuple[int, str], int] = {}  # a passage in a language -> its place in the set
        ranking_set = cls([], [], [], [])
        for question, language, pool in zip(collection.questions, query_languages, pools, strict=True):
            candidates = {index: new_index.setdefault((index, name), len(new_index)) for index, name in pool.items()}
            positives = frozenset(candidates[index] for index in question.positives if index in candidates)
            if language is not None and positives:
                ranking_set.queries.append(question.texts[language])
                ranking_set.candidates.append(np.array([*candidates.values()], dtype=np.int64))
                ranking_set.positives.append(positives)
        ranking_set.passages.extend(collection.passages[index][name] for index, name in new_index)
        return ranking_set

    def __len__(self) -> int:
        return len(self.queries)

    def extend(self, other: RankingSet) -> None:
        """Append another set; each query keeps its own candidates."""
        first = len(self.passages)
        self.queries.extend(other.queries)
        self.passages.extend(other.passages)
        self.candidates.extend(row + first for row in other.candidates)
        self.positives.extend(frozenset(index + first for index in row) for row in other.positives)

    def spread(self, queries: int | None) -> RankingSet:
        """Return at most so many queries, evenly spaced; None: all."""
        if queries is None or len(self) <= queries:
            return self
        rows = evenly_spaced(len(self), queries)
        columns = {name: [getattr(self, name)[row] for row in rows] for name in ("queries", "candidates", "positives")}
        return replace(self, **columns)

    def with_candidates(self, count: int, *, seed: int) -> RankingSet:
        """Return the set with each query's positives, and others drawn by chance up to `count` candidates."""
        generator = np.random.default_rng(seed)
        candidates = []
        for row, positives in zip(self.candidates, self.positives, strict=True):
            others = row[~np.isin(row, list(positives))]
            drawn = generator.permutation(others)[: max(0, count - len(positives))]
            candidates.append(np.sort(np.concatenate([np.array(sorted(positives), dtype=np.int64), drawn])))
        return replace(self, candidates=candidates)


Scorer = Callable[[RankingSet], list[NDArray[np.float32]]]  # for each query, of each of its candidates in their order


def score_ranking(ranking_set: RankingSet, scores: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Return the means x 100 over the queries; of equal scores those of answers come last.

    Raises: EvaluationError: there is no query, or a score is not a finite number.
    """
    if not len(ranking_set):
        raise EvaluationError("no query of the set has a positive among its candidates")
    rows = []
    for candidates, positives, score_N in zip(ranking_set.candidates, ranking_set.positives, scores, strict=True):
        if not np.isfinite(score_N).all():
            raise EvaluationError("the model gives scores that are not finite numbers; it cannot be measured")
        is_answer_N = np.isin(candidates, list(positives))
        rows.append(measures(is_answer_N[np.lexsort((is_answer_N, -score_N))].astype(float).tolist()))
    return {metric: round(100 * float(np.mean([row[metric] for row in rows])), 2) for metric in METRICS}


def measures(grades: Sequence[float]) -> dict[str, float]:
    """Return the metrics of a complete ranked list: 1 relevant, 0 not."""
    return {
        "acc@1": accuracy_at(1, grades),  # eq. (5)
        "acc@10": accuracy_at(10, grades),  # eq. (6)
        "mrr": reciprocal_rank_at(len(grades), grades),  # eqs. (10)-(11)
        # eqs. (7)-(9). Differs: the paper's eq. (8) sums to k and divides by m, of which one is a misprint
        "map": average_precision_at(len(grades), grades, grades),
        "ndcg@10": ndcg_at(10, grades, grades),
    }


def mixed_test_set(collection: Collection, languages: Sequence[str], *, seed: int) -> RankingSet:
    """Make the paper's test set: each query's language by a coin toss, each language the same share of its candidates.

    A collection that is ranked whole is dealt once, a question's own candidates for this question. A text that lacks
    its language comes in one that it has; without any it is left out.
    """

    def available(texts: Texts, number: int) -> str | None:
        return next((language for language in (languages[number], *languages) if language in texts), None)

    generator = np.random.default_rng((seed, 2))

    def dealt(candidates: Sequence[int]) -> dict[int, str]:
        numbers = (generator.permutation(len(candidates)) % len(languages)).tolist()
        chosen = {
            index: available(collection.passages[index], number)
            for index, number in zip(candidates, numbers, strict=True)
        }
        return {index: language for index, language in chosen.items() if language is not None}

    tossed = [int(generator.integers(len(languages))) for _ in collection.questions]
    whole = dealt(range(len(collection.passages)))
    return RankingSet.of(
        collection,
        [available(question.texts, number) for question, number in zip(collection.questions, tossed, strict=True)],
        (whole if question.candidates is None else dealt(question.candidates) for question in collection.questions),
    )


def pools_in(collection: Collection, passage_languages: Sequence[str | None]) -> list[Mapping[int, str]]:
    """Return each question's candidates, each passage in one language; None: it is left out."""
    whole = {index: language for index, language in enumerate(passage_languages) if language is not None}
    return [
        whole
        if question.candidates is None
        else {index: whole[index] for index in question.candidates if index in whole}
        for question in collection.questions
    ]


def set_in_languages(collection: Collection, query_language: str, passage_language: str) -> RankingSet:
    """Take all queries in one language and all passages in one; texts that lack it are left out."""
    return RankingSet.of(
        collection,
        [query_language if query_language in question.texts else None for question in collection.questions],
        pools_in(
            collection, [passage_language if passage_language in texts else None for texts in collection.passages]
        ),
    )


def sets_of(
    collection: Collection, languages: Sequence[str], couples: Iterable[str], *, queries: int | None = None
) -> dict[str, RankingSet]:
    """Return the mixed set and those in couples such as en-zh (query-passage), as far as the collection has them.

    Args: languages: of the mixed set.  queries: at most so many of each, evenly spaced.
    """
    sets = {}
    present = [language for language in languages if language in collection.languages]
    if len(present) > 1:
        sets[MIXED] = mixed_test_set(collection, present, seed=SEED).spread(queries)
    for couple in couples:
        sets[couple] = set_in_languages(collection, *couple.split("-")).spread(queries)
    return {name: ranking_set for name, ranking_set in sets.items() if len(ranking_set)}


def couples_in(collection: Collection) -> list[str]:
    """Return all couples of query and passage languages, in order."""
    asked = sorted({language for question in collection.questions for language in question.texts})
    answered = sorted({language for passage in collection.passages for language in passage})
    return [f"{query}-{passage}" for query, passage in product(asked, answered)]


def measure(scorers: Mapping[str, Scorer], sets: Mapping[str, RankingSet]) -> dict[str, MetricScores]:
    """Measure scorers on sets. Returns: scorer -> metric -> set -> score x 100."""
    scores: dict[str, MetricScores] = {name: {metric: {} for metric in METRICS} for name in scorers}
    for label, ranking_set in sets.items():
        for name, scorer in scorers.items():
            for metric, value in score_ranking(ranking_set, scorer(ranking_set)).items():
                scores[name][metric][label] = value
            logger.info("measured %s: %s, %d queries", name.strip("_") or "the model", label, len(ranking_set))
    return scores
