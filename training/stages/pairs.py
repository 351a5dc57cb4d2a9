"""What every stage does with a batch of pairs: look up token ids, encode both sides in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.corpora.mix import Corpus
from training.sentence import SentenceEncoder
from training.tokens import TokenStore


@dataclass(frozen=True)
class TeacherLabels:
    """h_T of English texts: text i of the corpus is row `row_of_text[i]` of `vectors`, (N, D); -1: not embedded."""

    vectors: NDArray[np.float32]
    row_of_text: NDArray[np.int64]


@dataclass(frozen=True)
class PairEncoder:
    """Turns pair indices into tensors. `max_length`: tokens, while training."""

    corpus: Corpus
    tokens: TokenStore
    max_length: int
    device: torch.device

    def token_ids(self, pairs_B: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Ids and mask of the B source sentences, then of the B targets: two (2B, L) tensors."""
        texts = np.concatenate([self.corpus.english[pairs_B], self.corpus.other[pairs_B]])
        input_ids, attention_mask = self.tokens.batch(texts, max_length=self.max_length)
        return input_ids.to(self.device), attention_mask.to(self.device)

    def encode(self, model: SentenceEncoder, pairs_B: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """h(s) and h(t) of each pair: two (B, D) tensors."""
        source_BD, target_BD = model(*self.token_ids(pairs_B)).chunk(2)
        return source_BD, target_BD

    def pair_lengths(self) -> NDArray[np.int64]:
        """Tokens of the longer side of each pair: what a batch is padded to."""
        lengths = np.minimum(self.tokens.lengths, self.max_length)
        return np.maximum(lengths[self.corpus.english], lengths[self.corpus.other])

    def labels(self, teacher: TeacherLabels, pairs_B: NDArray[np.int64]) -> Tensor:
        """h_T(s) of each pair: (B, D)."""
        rows_B = teacher.row_of_text[self.corpus.english[pairs_B]]
        if rows_B.min() < 0:
            raise IndexError("a pair of this batch has no teacher embedding: its plan is not the one that was embedded")
        return torch.from_numpy(teacher.vectors[rows_B]).to(self.device)
