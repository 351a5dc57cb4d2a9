"""Scores the candidates of queries with an artifact, as the service does: a pair at a time. Knows no metric."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.errors import ArtifactError
from service.model.artifact import MANIFEST_FILE, load_manifest
from service.model.reranker import Reranker
from service.process.cpus import usable_cpus
from training.errors import EvaluationError
from training.reranking.ranking import RankingSet


class ServedReranker:
    """As many threads as there are CPUs; a score is the same on each.

    Raises: EvaluationError: the folder is no whole artifact of a re-ranker.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._reranker = Reranker.load(folder)
        except ArtifactError as exc:
            raise EvaluationError(str(exc)) from exc

    def __call__(self, found: RankingSet) -> list[NDArray[np.float32]]:
        """Of each query's candidates."""
        with ThreadPoolExecutor(usable_cpus()) as pool:
            return [
                np.array(list(pool.map(self._score, [query] * len(row), (found.passages[index] for index in row))))
                for query, row in zip(found.queries, found.candidates, strict=True)
            ]

    def _score(self, query: str, passage: str) -> np.float32:
        return np.float32(self._reranker.score(self._reranker.tokenize(query, passage)))


def is_served_reranker(folder: Path) -> bool:
    """Whether a folder is an artifact of a re-ranker.

    Raises: EvaluationError: it is an artifact, and a broken one.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return False
    try:
        return load_manifest(folder).kind == "cross-encoder"
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc
