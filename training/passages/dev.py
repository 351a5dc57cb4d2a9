"""Scores of a model while stage 5 is judged: passages found, similarity kept, and search over short documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.evaluation.search import bundled_search
from training.evaluation.vectors import Encode
from training.passages.questions import Questions
from training.reranking.ranking import RankingSet, score_ranking, sets_of
from training.reranking.readers import read_tsv
from training.reranking.scorers import BiEncoderScorer

MOST_QUESTIONS = 80  # of a set and language; two cores take two minutes for those of nine languages


@dataclass(frozen=True)
class DevSets:
    """What stage 5 is judged by. passages: by set and language."""

    passages: dict[str, RankingSet]
    search: RankingSet

    @classmethod
    def read(cls, questions: Questions, evaluation: Path) -> DevSets:
        """The held-out questions, the questions at even places of XQuAD where it is there, and the search set's dev."""
        rows = questions.rows(held_out=True)
        sets = {f"held-out {name}": _held_out(questions, own) for name, own in rows.items()}
        sets |= _xquad(evaluation / "xquad") if (evaluation / "xquad").is_dir() else {}
        return cls({name: _few(ranking_set) for name, ranking_set in sets.items()}, _search())

    def found(self, encode: Encode) -> dict[str, float]:
        """How many questions find their passage first, x 100, by set and language."""
        return {name: _acc1(ranking_set, encode) for name, ranking_set in self.passages.items()}

    def judged(self, encode: Encode, similarity: Callable[[], dict[str, float]] | None) -> dict[str, float]:
        """The means of the three kinds, and their own mean: a gain in one must not cost as much in another.

        similarity: STS dev by language pair, of the same model; None: there is none.
        """
        kinds = {"search": _acc1(self.search, encode)}
        if self.passages:  # few questions have none held out
            kinds["passages"] = float(np.mean(list(self.found(encode).values())))
        if similarity is not None:
            kinds["similarity"] = float(np.mean(list(similarity().values())))
        return {**kinds, "mean": float(np.mean(list(kinds.values())))}


def _acc1(ranking_set: RankingSet, encode: Encode) -> float:
    return score_ranking(ranking_set, BiEncoderScorer(encode, encode)(ranking_set))["acc@1"]


def _few(ranking_set: RankingSet) -> RankingSet:
    """Take some of the questions, evenly spaced, over the passages that answer them."""
    some = ranking_set.spread(MOST_QUESTIONS)
    pool, answers = np.unique([min(positives) for positives in some.positives], return_inverse=True)
    return _over_all(some.queries, [some.passages[row] for row in pool], answers.tolist())


def _over_all(queries: list[str], passages: list[str], answers: list[int]) -> RankingSet:
    """Each query ranks all passages; one answers it."""
    everything = np.arange(len(passages))
    return RankingSet(queries, passages, [everything] * len(queries), [frozenset({answer}) for answer in answers])


def _held_out(questions: Questions, rows: NDArray[np.int64]) -> RankingSet:
    pool, answers = np.unique(questions.passage_Q[rows], return_inverse=True)
    queries = [questions.texts[row] for row in questions.question_Q[rows]]
    return _over_all(queries, [questions.texts[row] for row in pool], answers.tolist())


def _xquad(folder: Path) -> dict[str, RankingSet]:
    collection = read_tsv(folder)
    dev = collection.with_questions(collection.questions[::2])
    sets = sets_of(dev, [], [f"{language}-{language}" for language in dev.languages])
    return {f"xquad {couple.split('-')[0]}": ranking_set for couple, ranking_set in sets.items()}


def _search() -> RankingSet:
    search_set = bundled_search()
    dev = [(query.text, query.document) for query in search_set.queries if query.is_dev and query.document is not None]
    return _over_all([text for text, _ in dev], search_set.documents, [document for _, document in dev])
