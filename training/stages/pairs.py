"""Looks up the token ids and labels of a batch of pairs, and encodes each distinct text once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.corpora.corpus import Corpus
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.processes import gather_shares, own_share
from training.vocabulary.tokens import TokenStore

GROUP_TEXTS = 64  # texts of a forward pass on a CPU, where padding costs more than a call; a GPU takes all at once


@dataclass(frozen=True)
class TeacherLabels:
    """h_T of English texts. Text i of the corpus has row `row_of_text[i]` of `vectors`, (N, D); -1: no embedding."""

    vectors: NDArray[np.float32]
    row_of_text: NDArray[np.int64]


@dataclass(frozen=True)
class TokenEmbeddings:
    """Token embeddings of distinct texts, in groups that were padded and encoded together.

    Args: groups: (B, L, H) each.  masks: (B, L), one a group.
    """

    groups: list[Tensor]
    masks: list[Tensor]


@dataclass(frozen=True)
class TextShare:
    """The U distinct texts of N, sorted by length, of which each process encodes its share.

    to_encode: of this process; with fewer texts than processes it may be a text of another's share, for equal steps.
    own: how many of these count.  row_N: each text's row among the U.
    """

    to_encode: NDArray[np.int32]
    own: int
    count: int
    row_N: NDArray[np.int64]

    @classmethod
    def of(cls, texts_N: NDArray[np.int32], lengths_of: Callable[[NDArray[np.int32]], NDArray[np.int64]]) -> TextShare:
        """Args: lengths_of: tokens of texts."""
        texts_U, place_N = np.unique(texts_N, return_inverse=True)
        by_length_U = np.argsort(lengths_of(texts_U), kind="stable")
        own = texts_U[by_length_U][own_share(len(texts_U))]
        to_encode = own if len(own) else texts_U[:1]
        return cls(to_encode, len(own), len(texts_U), np.argsort(by_length_U)[place_N])

    def gather(self, own_UD: Tensor) -> Tensor:
        """The vectors of all N texts, (N, D), equal in all processes, from those of `to_encode`."""
        embedding_UD = gather_shares(own_UD[: self.own], self.count)  # a process without texts: zero gradients
        return embedding_UD[torch.from_numpy(self.row_N).to(own_UD.device)]


@dataclass(frozen=True)
class PairEncoder:
    """Turns pair indices into tensors. `max_length`: tokens of a text during training."""

    corpus: Corpus
    tokens: TokenStore
    max_length: int
    device: torch.device

    def encode(
        self, model: SentenceEncoder, pairs_B: NDArray[np.int64], *, sources_S: NDArray[np.int64] | None = None
    ) -> tuple[Tensor, Tensor]:
        """h(s) of `sources_S` (None: of every pair) and h(t) of every pair: (S, D) and (B, D), equal in all processes.

        A text shared by several pairs is encoded once, by one process, together with texts of similar length.
        """
        source_SD, target_BD, _ = self.encode_tokens(model, pairs_B, sources_S=sources_S)
        return source_SD, target_BD

    def encode_tokens(
        self, model: SentenceEncoder, pairs_B: NDArray[np.int64], *, sources_S: NDArray[np.int64] | None = None
    ) -> tuple[Tensor, Tensor, TokenEmbeddings]:
        """Like `encode`, and also returns the token embeddings of the texts that this process encoded."""
        english = pairs_B if sources_S is None else sources_S
        share = TextShare.of(np.concatenate([self.corpus.english[english], self.corpus.other[pairs_B]]), self._lengths)
        own_UD, tokens = self._encode_texts(model, share.to_encode)
        embedding_ND = share.gather(own_UD)
        own_tokens = tokens if share.own else TokenEmbeddings([], [])
        return embedding_ND[: len(english)], embedding_ND[len(english) :], own_tokens

    def own_token_ids(self, pairs_B: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Token ids and mask of this process's share of the 2B sentences: two (2B / P, L) tensors.

        With fewer sentences than processes, a share may be one sentence of padding only.
        """
        texts = np.concatenate([self.corpus.english[pairs_B], self.corpus.other[pairs_B]])
        own = texts[own_share(len(texts))]
        input_ids_BL, attention_mask_BL = self.tokens.batch(own if len(own) else texts[:1], max_length=self.max_length)
        if not len(own):
            attention_mask_BL.zero_()
        return input_ids_BL.to(self.device), attention_mask_BL.to(self.device)

    def token_count(self, pairs_B: NDArray[np.int64], sources_S: NDArray[np.int64]) -> int:
        """Tokens of the distinct texts of `encode`, over all processes."""
        texts = np.unique(np.concatenate([self.corpus.english[sources_S], self.corpus.other[pairs_B]]))
        return int(self._lengths(texts).sum())

    def pair_lengths(self, pairs_B: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of the longer side of each pair."""
        return np.maximum(self._lengths(self.corpus.english[pairs_B]), self._lengths(self.corpus.other[pairs_B]))

    def labels(self, teacher: TeacherLabels, pairs_B: NDArray[np.int64]) -> Tensor:
        """h_T(s) of each pair: (B, D)."""
        rows_B = teacher.row_of_text[self.corpus.english[pairs_B]]
        if rows_B.min() < 0:
            raise IndexError("a pair of this batch has no teacher embedding: it comes from another sampling plan")
        return torch.from_numpy(teacher.vectors[rows_B]).to(self.device)

    def _lengths(self, texts: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.minimum(self.tokens.lengths_of(texts), self.max_length)

    def _encode_texts(self, model: SentenceEncoder, texts_U: NDArray[np.int32]) -> tuple[Tensor, TokenEmbeddings]:
        """Encode texts sorted by length: embeddings, (U, D), and those of their tokens."""
        embeddings, groups, masks = [], [], []
        for group in groups_of(texts_U, self.device):
            batch = self.tokens.batch(group, max_length=self.max_length)
            ids_BL, mask_BL = (tensor.to(self.device) for tensor in batch)
            hidden_BLH = model.token_embeddings(ids_BL, mask_BL)
            embeddings.append(model.pooled(hidden_BLH, mask_BL))
            groups.append(hidden_BLH)
            masks.append(mask_BL)
        return torch.cat(embeddings), TokenEmbeddings(groups, masks)


def drawn_rows(pairs_B: NDArray[np.int64], share: float | None) -> NDArray[np.int64]:
    """Sample rows of a batch, (S,): a share of them, at least one; all if `share` is None.

    The batch seeds the draw: the same batch and share always give the same rows.
    """
    if share is None:
        return np.arange(len(pairs_B))
    drawn = np.random.default_rng(pairs_B).permutation(len(pairs_B))
    return drawn[: max(1, round(share * len(pairs_B)))]


def groups_of(texts: NDArray[Any], device: torch.device, size: int = GROUP_TEXTS) -> list[NDArray[Any]]:
    """Split texts, sorted by length, into forward passes: small ones on a CPU, to limit padding."""
    return np.array_split(texts, -(-len(texts) // size) if device.type == "cpu" else 1)
