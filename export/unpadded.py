"""A body that computes on tokens, not on places: the padding of a batch's shorter texts costs next to nothing.

All but attention works on each token by itself, so there the tokens of all texts stand in one row. Attention sees each
text by itself, padded to the longest. Where that is a multiple of four places, a vector is the same to the bit whatever
the company: the sum of a softmax is built of fours, and a padded place adds an exact zero to it.

Shapes: B texts, L places of each, T tokens of them all, H hidden, A heads
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from training.models.start import OFFSET_FAMILIES

FAMILIES = ("bert", *OFFSET_FAMILIES)  # of one structure; MiniLM is a "bert"


class Places:
    """Where the tokens of a batch are."""

    def __init__(self, attention_mask_BL: Tensor) -> None:
        """attention_mask_BL: int64, 1 = token, 0 = padding."""
        mask_N = attention_mask_BL.reshape(-1)
        self._shape = attention_mask_BL.shape
        self._of_tokens_T = mask_N.nonzero().reshape(-1)
        self._tokens_BL = (mask_N.cumsum(dim=0) - 1).clamp(min=0)  # flat; where there is none, some other place's
        hidden = (1.0 - attention_mask_BL.float()) * torch.finfo(torch.float32).min
        self.bias_B11L = hidden[:, None, None]

    def join(self, states_BLH: Tensor, width: int) -> Tensor:
        """The tokens alone: (B, L, ..), of H = width numbers each, -> (1, T, H)."""
        return states_BLH.reshape(1, -1, width).index_select(1, self._of_tokens_T)

    def part(self, states_1TH: Tensor, width: int) -> Tensor:
        """Each text by itself, anything where it has no token: (1, T, H), H = width, -> (B, L, H)."""
        return states_1TH.index_select(1, self._tokens_BL).view(*self._shape, width)


class TextwiseAttention(nn.Module):
    """Self-attention of a layer, of each text by itself. Queries, keys and values are one product."""

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
    """A body of the BERT or RoBERTa family; its own modules but for queries, keys and values, which are copied."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self._embeddings, self._layers, self._width = body.embeddings, body.encoder.layer, body.config.hidden_size
        self.attention = nn.ModuleList(TextwiseAttention(layer.attention.self) for layer in self._layers.children())

    def forward(self, input_ids_BL: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """Token ids and mask, int64 -> (B, L, H), anything where there is no token."""
        places = Places(attention_mask_BL)
        attention = dict(zip(self._layers.children(), self.attention, strict=True))
        states_1TH = places.join(self._embeddings(input_ids=input_ids_BL), self._width)
        for layer in self._layers:  # each as often as the unit recurs
            attended_1TH = layer.attention.output(attention[layer](states_1TH, places), states_1TH)
            states_1TH = layer.output(layer.intermediate(attended_1TH), attended_1TH)
        return places.part(states_1TH, self._width)


def unpadded(body: Any) -> UnpaddedBody | None:
    """A body that skips padding; None: of a family that this does not know, which keeps it."""
    body = getattr(body, "body", body)  # that of a student
    known = (
        body.config.model_type in FAMILIES and getattr(body.config, "position_embedding_type", "absolute") == "absolute"
    )
    return UnpaddedBody(body) if known else None
