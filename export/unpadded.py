"""An encoder body that skips padding: except in attention, it computes on real tokens only.

All layers but attention work on single tokens, so the tokens of all texts are joined into one row. Attention handles
texts separately, padded to the longest. If that length is a multiple of four, a vector does not depend on its batch, to
the bit: softmax sums in groups of four, and padding adds exact zeros.

Shapes: B texts, L positions of each, T tokens of all texts, H hidden, A heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from training.models.start import OFFSET_FAMILIES

FAMILIES = ("bert", *OFFSET_FAMILIES)  # same structure; MiniLM is a "bert"


class Places:
    """The positions of a batch's tokens."""

    def __init__(self, attention_mask_BL: Tensor) -> None:
        """attention_mask_BL: int64, 1 = token, 0 = padding."""
        mask_N = attention_mask_BL.reshape(-1)
        self._shape = attention_mask_BL.shape
        self._of_tokens_T = mask_N.nonzero().reshape(-1)
        self._tokens_BL = (mask_N.cumsum(dim=0) - 1).clamp(min=0)  # index into the row of tokens; arbitrary at padding
        hidden = (1.0 - attention_mask_BL.float()) * torch.finfo(torch.float32).min
        self.bias_B11L = hidden[:, None, None]

    def join(self, states_BLH: Tensor, width: int) -> Tensor:
        """Join the real tokens into one row: (B, L, ..), of H = width numbers each, -> (1, T, H)."""
        return states_BLH.reshape(1, -1, width).index_select(1, self._of_tokens_T)

    def part(self, states_1TH: Tensor, width: int) -> Tensor:
        """Split the row into padded texts, arbitrary at padding: (1, T, H), H = width, -> (B, L, H)."""
        return states_1TH.index_select(1, self._tokens_BL).view(*self._shape, width)


class TextwiseAttention(nn.Module):
    """Self-attention of a layer, separate for each text. One product gives queries, keys and values."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        parts = [attention.query, attention.key, attention.value]
        self.joined = nn.Linear(parts[0].in_features, sum(part.out_features for part in parts))
        self.joined.weight = nn.Parameter(torch.cat([part.weight for part in parts]))
        self.joined.bias = nn.Parameter(torch.cat([part.bias for part in parts]))
        self._heads, self._head_size = attention.num_attention_heads, attention.attention_head_size
        self._width = self._heads * self._head_size

    def forward(self, states_1TH: Tensor, places: Places) -> Tensor:
        """(1, T, H) -> (1, T, H)."""
        parted_BLH = places.part(self.joined(states_1TH), 3 * self._width)
        query, key, value = (self._of_heads(part_BLH) for part_BLH in torch.split(parted_BLH, self._width, dim=2))
        scores_BALL = query @ key.transpose(-1, -2) / self._head_size**0.5 + places.bias_B11L
        context_BLH = (scores_BALL.softmax(dim=-1) @ value).transpose(1, 2)
        return places.join(context_BLH, self._width)

    def _of_heads(self, states_BLH: Tensor) -> Tensor:
        return states_BLH.view(*states_BLH.shape[:2], self._heads, self._head_size).transpose(1, 2)


class UnpaddedBody(nn.Module):
    """A body of the BERT or RoBERTa family; shares its modules except queries, keys and values, which are copied."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self._embeddings, self._layers, self._width = body.embeddings, body.encoder.layer, body.config.hidden_size
        self.attention = nn.ModuleList(TextwiseAttention(layer.attention.self) for layer in self._layers.children())

    def forward(self, input_ids_BL: Tensor, attention_mask_BL: Tensor, segment_ids_BL: Tensor | None = None) -> Tensor:
        """Token ids, mask and segments, int64 -> (B, L, H), anything where there is no token.

        segment_ids_BL: None: all 0.
        """
        places = Places(attention_mask_BL)
        attention = dict(zip(self._layers.children(), self.attention, strict=True))
        embedded_BLH = self._embeddings(input_ids=input_ids_BL, token_type_ids=segment_ids_BL)
        states_1TH = places.join(embedded_BLH, self._width)
        for layer in self._layers:  # each as often as the unit recurs
            attended_1TH = layer.attention.output(attention[layer](states_1TH, places), states_1TH)
            states_1TH = layer.output(layer.intermediate(attended_1TH), attended_1TH)
        return places.part(states_1TH, self._width)


def unpadded(body: Any) -> UnpaddedBody | None:
    """Convert a body to one that skips padding; None if its family is not supported."""
    body = getattr(body, "body", body)  # of a student
    known = (
        body.config.model_type in FAMILIES and getattr(body.config, "position_embedding_type", "absolute") == "absolute"
    )
    return UnpaddedBody(body) if known else None
