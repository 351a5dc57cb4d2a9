"""Ways to score the candidates of queries: a cross-encoder, a bi-encoder's cosines, BM25."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from training.evaluation.retrieval import bm25_scores
from training.evaluation.vectors import Encode, unit_rows
from training.models.cross_encoder import CrossEncoder
from training.reranking.pair_tokens import PairTokenizer
from training.reranking.ranking import RankingSet
from training.system.device import autocast

BATCH, GPU_BATCH = 64, 512  # pairs
CHUNK = 16_384  # pairs tokenised at once, sorted by length
QueryScores = list[NDArray[np.float32]]


class CrossEncoderScorer:
    """Logits of a cross-encoder: they order as the scores do, and do not saturate.

    In float32 a pair's score does not depend on its company, but for the last bits of a sum.

    Args:
        bf16: multiply in bf16 where the hardware can, for speed while training.
        bar: name of a progress bar; None: without.
    """

    def __init__(
        self,
        model: CrossEncoder,
        tokenizer: PreTrainedTokenizerFast,
        *,
        max_length: int,
        bf16: bool = False,
        bar: str | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = PairTokenizer(tokenizer, max_length=max_length)
        self.bf16, self.bar = bf16, bar

    def __call__(self, ranking_set: RankingSet) -> QueryScores:
        """Score each query's candidates."""
        queries = [query for query, row in zip(ranking_set.queries, ranking_set.candidates, strict=True) for _ in row]
        passages = [ranking_set.passages[index] for row in ranking_set.candidates for index in row.tolist()]
        flat = self.scores(queries, passages)
        return np.split(flat, np.cumsum([len(row) for row in ranking_set.candidates])[:-1])

    def scores(self, queries: list[str], passages: list[str]) -> NDArray[np.float32]:
        """Logits of pairs, (N,) float32, in their order."""
        chunks = range(0, len(queries), CHUNK)
        with tqdm(total=len(queries), desc=self.bar, unit="pair", disable=self.bar is None) as bar:
            parts = [
                self._chunk(queries[start : start + CHUNK], passages[start : start + CHUNK], bar) for start in chunks
            ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)

    def _chunk(self, queries: list[str], passages: list[str], bar: tqdm[NoReturn]) -> NDArray[np.float32]:
        store = self.tokenizer.store(queries, passages)
        order = np.argsort(store.lengths, kind="stable").astype(np.int32)
        device = next(self.model.parameters()).device
        size = BATCH if device.type == "cpu" else GPU_BATCH
        logit_N = np.empty(len(queries), dtype=np.float32)
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            ids_BL, mask_BL = store.batch(rows, max_length=self.tokenizer.max_length)
            with torch.inference_mode(), autocast(device) if self.bf16 else torch.autocast(device.type, enabled=False):
                logit_N[rows] = self.model(ids_BL.to(device), mask_BL.to(device)).float().cpu().numpy()
            bar.update(len(rows))
        return logit_N


class BiEncoderScorer:
    """Cosines of a bi-encoder: what a user has without a re-ranker."""

    def __init__(self, encode_query: Encode, encode_passage: Encode) -> None:
        self._query, self._passage = encode_query, encode_passage

    def __call__(self, ranking_set: RankingSet) -> QueryScores:
        """Score each query's candidates."""
        # Only candidates are encoded: often a few of many passages.
        wanted_N = np.unique(np.concatenate([np.empty(0, np.int64), *ranking_set.candidates]))
        passage_ND = unit_rows(self._passage([ranking_set.passages[index] for index in wanted_N]))
        query_QD = unit_rows(self._query(ranking_set.queries))
        return [
            passage_ND[np.searchsorted(wanted_N, row)] @ query_D
            for row, query_D in zip(ranking_set.candidates, query_QD, strict=True)
        ]


def bm25(ranking_set: RankingSet) -> QueryScores:
    """BM25 over the set's passages."""
    scores_QN = bm25_scores(ranking_set.queries, ranking_set.passages)
    return [scores_N[row] for scores_N, row in zip(scores_QN, ranking_set.candidates, strict=True)]
