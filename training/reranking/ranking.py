"""Ranks the candidates of each query by given scores, and measures the ranking. Pure: knows no model and no file.

Metrics are those of Chen et al. 2020, eqs. (5)-(11): acc@k, and MRR and MAP over the whole list of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from training.errors import EvaluationError
from training.evaluation.ranking import accuracy_at, average_precision_at, ndcg_at, reciprocal_rank_at
from training.reranking.collection import Collection

METRICS = ("acc@1", "acc@10", "mrr", "map", "ndcg@10")
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class RankingSet:
    """Queries, passages, and for each query the passages to be ranked and those that answer it."""

    queries: list[str]
    passages: list[str]
    candidates: list[Indices]
    positives: list[frozenset[int]]

    @classmethod
    def of(
        cls, collection: Collection, query_languages: Sequence[str | None], passage_languages: Sequence[str | None]
    ) -> RankingSet:
        """A collection with each text in one language; None: the text is left out. So are unanswered queries.

        An unanswered query has no positive among its candidates, like 375 of the 2,000 of InsuranceQA's test set.
        """
        kept = [index for index, language in enumerate(passage_languages) if language is not None]
        new_index = {old: new for new, old in enumerate(kept)}
        passages = [collection.passages[index][str(passage_languages[index])] for index in kept]
        found = cls([], passages, [], [])
        for question, language in zip(collection.questions, query_languages, strict=True):
            old = kept if question.candidates is None else question.candidates
            candidates = np.array([new_index[index] for index in old if index in new_index], dtype=np.int64)
            positives = frozenset(new_index[index] for index in question.positives if index in new_index)
            positives &= frozenset(candidates.tolist())
            if language is not None and positives:
                found.queries.append(question.texts[language])
                found.candidates.append(candidates)
                found.positives.append(positives)
        return found

    def __len__(self) -> int:
        return len(self.queries)

    def spread(self, queries: int | None) -> RankingSet:
        """At most so many queries, evenly spaced; None: all."""
        if queries is None or len(self) <= queries:
            return self
        rows = np.linspace(0, len(self) - 1, queries).round().astype(int).tolist()
        return replace(
            self,
            queries=[self.queries[row] for row in rows],
            candidates=[self.candidates[row] for row in rows],
            positives=[self.positives[row] for row in rows],
        )

    def with_candidates(self, count: int, *, seed: int) -> RankingSet:
        """Each query's positives, and others drawn by chance up to `count` candidates."""
        generator = np.random.default_rng(seed)
        candidates = []
        for row, positives in zip(self.candidates, self.positives, strict=True):
            others = row[~np.isin(row, list(positives))]
            drawn = generator.permutation(others)[: max(0, count - len(positives))]
            candidates.append(np.sort(np.concatenate([np.array(sorted(positives), dtype=np.int64), drawn])))
        return replace(self, candidates=candidates)


Scorer = Callable[[RankingSet], list[NDArray[np.float32]]]  # for each query, of each of its candidates in their order


def score_ranking(found: RankingSet, scores: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Means x 100 over the queries; of equal scores the earlier candidate comes first.

    Raises: EvaluationError: there is no query, or a score is not a finite number.
    """
    if not len(found):
        raise EvaluationError("no query of the set has a positive among its candidates")
    rows = []
    for candidates, positives, score_N in zip(found.candidates, found.positives, scores, strict=True):
        if not np.isfinite(score_N).all():
            raise EvaluationError("the model gives scores that are not finite numbers; it cannot be measured")
        ranked = candidates[np.argsort(-score_N, kind="stable")]
        rows.append(measures([float(index in positives) for index in ranked.tolist()]))
    return {metric: round(100 * float(np.mean([row[metric] for row in rows])), 2) for metric in METRICS}


def measures(grades: Sequence[float]) -> dict[str, float]:
    """The metrics of one whole ranked list: 1 relevant, 0 not."""
    return {
        "acc@1": accuracy_at(1, grades),  # eq. (5)
        "acc@10": accuracy_at(10, grades),  # eq. (6)
        "mrr": reciprocal_rank_at(len(grades), grades),  # eqs. (10)-(11)
        # eqs. (7)-(9). Differs: the paper's eq. (8) sums to k and divides by m, of which one is a misprint
        "map": average_precision_at(len(grades), grades, grades),
        "ndcg@10": ndcg_at(10, grades, grades),
    }
