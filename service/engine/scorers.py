"""Scores passages against a query by the bi-encoder, a re-ranker, or both together.

N inputs or passages, D dims
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from service.blending import Weight, with_reranker
from service.engine.fair_queue import EncodedBatch
from service.engine.pairs import Input, Pair
from service.model.encoder import Encoder
from service.model.reranker import Reranker

Vectors = npt.NDArray[np.float32]
ScoreArray = npt.NDArray[np.float64]

HIGHEST = 1 - 2**-25  # between 1 and the float32 below: a score that was rounded to 1 has a finite logit
LOWEST = 2**-126


class Scorer(Protocol):
    """Turns a query and passages into inputs of the pool, and the results into scores.

    lowest: the least score there is, of an empty passage.
    """

    lowest: float

    def before(self, query: str) -> list[Input]:
        """Return what is computed once for all passages, before them."""

    def whole(self, query: str, passage: str) -> Input:
        """Return the input of a passage, which may be truncated."""

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        """Return overlapping parts of a passage that fit; one where it fits whole. It tokenises the passage."""

    def vectors(self, batch: EncodedBatch) -> Vectors:
        """Return this scorer's rows of the batch."""

    def raw(self, vectors_ND: Vectors) -> ScoreArray:
        """Return the scores of all inputs after those of `before`."""


class CosineScorer:
    """The bi-encoder: cosines."""

    lowest = -1.0

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = f"{encoder.manifest.name} (bi-encoder)"

    def before(self, query: str) -> list[Input]:
        return [self._encoder.prompts.query + query]

    def whole(self, query: str, passage: str) -> Input:
        return self._encoder.prompts.document + passage

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        return self._encoder.windows(passage, prompt=self._encoder.prompts.document)

    def vectors(self, batch: EncodedBatch) -> Vectors:
        return batch.embeddings

    def raw(self, vectors_ND: Vectors) -> ScoreArray:
        # einsum, not BLAS: a cosine's bits then do not depend on the other passages.
        cosine_N = np.einsum("nd,d->n", vectors_ND[1:], vectors_ND[0])
        clipped_N: ScoreArray = np.clip(cosine_N.astype(np.float64), -1, 1)  # float64: no two cosines become one score
        return clipped_N


class PairScorer:
    """The re-ranker: scores in [0, 1]."""

    lowest = 0.0

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.name = reranker.manifest.name

    def before(self, query: str) -> list[Input]:
        return []

    def whole(self, query: str, passage: str) -> Input:
        return Pair(query, passage)

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        return self._reranker.windows(query, passage)

    def vectors(self, batch: EncodedBatch) -> Vectors:
        return batch.scores_P1

    def raw(self, vectors_ND: Vectors) -> ScoreArray:
        return vectors_ND[:, 0].astype(np.float64)


@dataclass(frozen=True)
class Scoring:
    """The models that score, and how their scores are blended.

    pairs: None: there is no re-ranker.  weight: of the re-ranker; "alone": nothing else scores.
    """

    cosine: CosineScorer | None
    pairs: PairScorer | None
    weight: Weight

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The scorers in use: one or both."""
        return tuple(scorer for scorer in (self.cosine, self.pairs) if scorer is not None)

    @property
    def name(self) -> str:
        """The name in answers: the re-ranker's, where there is one."""
        scorer = self.pairs or self.cosine
        assert scorer is not None  # noqa: S101 - `scoring_of`
        return scorer.name

    def scores(self, best: Sequence[ScoreArray]) -> tuple[ScoreArray, ScoreArray]:
        """Return scores in [0, 1], and the raw scores, in the same order.

        Args: best: for each of `scorers`, the best score of each passage's parts.
        """
        if self.cosine is None:
            return best[0], _logits(best[0])
        raw_N = best[0] if self.pairs is None else with_reranker(best[0], best[1], self.weight)
        return (1 + raw_N) / 2, raw_N


def scoring_of(encoder: Encoder, reranker: Reranker | None, weight: Weight) -> Scoring:
    """Score by the re-ranker with the bi-encoder or alone, or by the bi-encoder where there is none."""
    if reranker is None:
        return Scoring(CosineScorer(encoder), None, weight)
    return Scoring(None if weight == "alone" else CosineScorer(encoder), PairScorer(reranker), weight)


def _logits(pair_N: ScoreArray) -> ScoreArray:
    """log(p / (1 - p))."""
    p_N = np.clip(pair_N, LOWEST, HIGHEST)
    logit_N: ScoreArray = np.log(p_N) - np.log1p(-p_N)
    return logit_N
