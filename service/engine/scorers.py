"""What scores passages against a query: the re-ranker, or the bi-encoder in its place. Knows models; runs no thread.

N inputs, D dims
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from service.engine.pairs import Input, Pair, PairWindow
from service.model.encoder import Encoder
from service.model.reranker import Reranker

Vectors = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]

HIGHEST = 1 - 2**-25  # between 1 and the float32 below: a score that was rounded to 1 has a finite logit
LOWEST = 2**-126


class Scorer(Protocol):
    """How a query and passages become inputs of the pool, and the pool's vectors scores."""

    @property
    def name(self) -> str:
        """What answers call it."""

    def before(self, query: str) -> list[Input]:
        """What is embedded once for all passages, before them."""

    def whole(self, query: str, passage: str) -> Input:
        """A passage, which may be cut."""

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        """Overlapping parts of a passage that are read whole; one where it fits. Takes as long as to tokenise it."""

    def raw(self, vectors_ND: Vectors) -> Scores:
        """What scores are made of, of all but what is `before`: cosines, or the re-ranker's scores."""

    def scores(self, raw_N: Scores) -> Scores:
        """In [0, 1], in the same order."""

    def logits(self, raw_N: Scores) -> Scores:
        """What a client gets that asks for raw scores."""


class CosineScorer:
    """The bi-encoder: cosines, mapped to [0, 1]."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = f"{encoder.manifest.name} (bi-encoder)"

    def before(self, query: str) -> list[Input]:
        """The query behind its prompt."""
        return [self._encoder.prompts.query + query]

    def whole(self, query: str, passage: str) -> Input:
        """The passage behind its prompt."""
        return self._encoder.prompts.document + passage

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        """Each part behind the prompt, as token ids."""
        return self._encoder.windows(passage, prompt=self._encoder.prompts.document)

    def raw(self, vectors_ND: Vectors) -> Scores:
        """Cosines with the first vector."""
        # einsum, not BLAS: a cosine's bits then do not depend on the other passages.
        cosine_N = np.einsum("nd,d->n", vectors_ND[1:], vectors_ND[0])
        clipped_N: Scores = np.clip(cosine_N.astype(np.float64), -1, 1)  # float64: no two cosines become one score
        return clipped_N

    def scores(self, raw_N: Scores) -> Scores:
        """(1 + cosine) / 2."""
        return (1 + raw_N) / 2

    def logits(self, raw_N: Scores) -> Scores:
        """The cosines."""
        return raw_N


class PairScorer:
    """The re-ranker."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.name = reranker.manifest.name

    def before(self, query: str) -> list[Input]:
        """Nothing: the query is in each pair."""
        return []

    def whole(self, query: str, passage: str) -> Input:
        """The pair."""
        return Pair(query, passage)

    def windows(self, query: str, passage: str) -> Sequence[Input]:
        """The pair with each part."""
        parts = self._reranker.windows(query, passage)
        return [PairWindow(tuple(part.input_ids), part.full_length) for part in parts]

    def raw(self, vectors_ND: Vectors) -> Scores:
        """The scores as they are."""
        return vectors_ND[:, 0].astype(np.float64)

    def scores(self, raw_N: Scores) -> Scores:
        """The same."""
        return raw_N

    def logits(self, raw_N: Scores) -> Scores:
        """log(p / (1 - p))."""
        p_N = np.clip(raw_N, LOWEST, HIGHEST)
        logit_N: Scores = np.log(p_N) - np.log1p(-p_N)
        return logit_N


def scorer_of(encoder: Encoder, reranker: Reranker | None) -> Scorer:
    """The re-ranker, or the bi-encoder where there is none."""
    return CosineScorer(encoder) if reranker is None else PairScorer(reranker)
