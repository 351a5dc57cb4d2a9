"""Scores pairs with an ONNX file as the service does: one at a time, on one thread. Knows no file but the graph.

N pairs, L tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from export.encoder import open_session
from export.reranking.checkpoint import Pair, RerankerCheckpoint
from training.reranking.pair_tokens import PairTokenizer


class OnnxReranker:
    """A tokenizer of pairs and a session."""

    def __init__(self, model: Path, tokenizer: PairTokenizer) -> None:
        self._tokenizer = tokenizer
        self._session = open_session(model)

    def token_ids(self, pair: Pair) -> list[int]:
        """Ids of one pair, its passage cut at `max_length`, specials included."""
        query, passage = pair
        ids: list[int] = self._tokenizer.store([query], [passage]).ids.tolist()
        return ids

    def scores(self, pairs: Sequence[Pair]) -> npt.NDArray[np.float32]:
        """(N,) float32, in [0, 1], in the order of `pairs`."""
        return np.array([self.score_ids(self.token_ids(pair)) for pair in pairs], dtype=np.float32)

    def score_ids(self, ids: Sequence[int]) -> np.float32:
        """The score of a pair that is tokenised."""
        input_ids_1L = np.array([ids], dtype=np.int64)  # int64: the graph's input type
        inputs = {"input_ids": input_ids_1L, "attention_mask": np.ones_like(input_ids_1L)}
        score: np.float32 = self._session.run(["score"], inputs)[0][0, 0]
        return score


def torch_scores(checkpoint: RerankerCheckpoint, pairs: Sequence[Pair]) -> npt.NDArray[np.float32]:
    """The reference: sigmoid of the logits of the model that was trained, (N,) float32."""
    scores = []
    for query, passage in pairs:
        ids_1L, mask_1L = checkpoint.pair_tokenizer.batch([query], [passage])
        with torch.inference_mode():
            scores.append(float(checkpoint.model(ids_1L, mask_1L).sigmoid()))
    return np.array(scores, dtype=np.float32)
