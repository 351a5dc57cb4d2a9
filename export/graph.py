"""A whole model as one torch module: an encoder with pooling, heads and normalisation, or a cross-encoder with sigmoid.

In a family whose layers are known, padding is skipped: all layers but attention work on single tokens, so the tokens of
all texts are joined into one row. Attention handles texts separately, padded to the longest. If that length is a
multiple of four, a vector does not depend on its batch, to the bit: softmax sums in groups of four, and padding adds
exact zeros.

Shapes: B texts, L positions of each, T tokens of all texts, H hidden, A heads, D dims of the sentence embedding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import Tensor, nn
from torch.nn import functional as F

from export.errors import BadCheckpoint
from training.models.cross_encoder import CrossEncoder, segment_ids
from training.models.start import OFFSET_FAMILIES

POOLING_MODES = ("mean", "cls")
UNPADDED_FAMILIES = ("bert", *OFFSET_FAMILIES)  # same structure; MiniLM is a "bert"


class UnitLength(nn.Module):
    """Scale each row to L2 norm 1."""

    def forward(self, embedding_BD: Tensor) -> Tensor:
        """(B, D) -> (B, D)."""
        return F.normalize(embedding_BD, dim=-1)


class FirstDims(nn.Module):
    """Keep the first `dim` dims of each row, as configured by `truncate_dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, embedding_BD: Tensor) -> Tensor:
        """(B, D) -> (B, dim)."""
        return embedding_BD[:, : self.dim]


class TracedGraph(nn.Module):
    """What is traced: a transformers encoder, and what follows it.

    Args: skip_padding: if the body's family supports it.
    """

    def __init__(self, body: Any, *, skip_padding: bool = True) -> None:
        super().__init__()
        self.body = body
        self.config = body.config  # optimum reads the vocabulary size from it
        self.unpadded = unpadded(body) if skip_padding else None

    def hidden(self, input_ids: Tensor, attention_mask: Tensor, segment_ids_BL: Tensor | None) -> Any:
        """Token ids, mask and segments, int64 -> (B, L, H)."""
        if self.unpadded is not None:
            return self.unpadded(input_ids, attention_mask, segment_ids_BL)
        body = getattr(self.body, "body", self.body)  # that of a student
        options = {} if segment_ids_BL is None else {"token_type_ids": segment_ids_BL}
        return body(input_ids=input_ids, attention_mask=attention_mask, **options).last_hidden_state

    @property
    def parameter_count(self) -> int:
        """The number of parameters; shared ones count once, as do those that `unpadded` copies."""
        return sum(value.numel() for name, value in self.named_parameters() if not name.startswith("unpadded."))


class SentenceGraph(TracedGraph):
    """Token ids in, unit vectors out.

    Args:
        pooling: "mean" over real tokens, or "cls".
        tail: modules after the pooling; the last one normalises to unit length.
    """

    def __init__(self, body: Any, *, pooling: str, tail: nn.Sequential, skip_padding: bool = True) -> None:
        super().__init__(body, skip_padding=skip_padding)
        self.pooling = pooling
        self.tail = tail
        self.has_token_types = "token_type_ids" in inspect.signature(body.forward).parameters

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed sentences.

        Args:    input_ids: (B, L) int64.  attention_mask: (B, L) int64, 1 = token, 0 = padding.
        Returns: (B, D) float32, norm 1.
        """
        has_zeros = self.has_token_types and self.unpadded is None
        hidden_BLH = self.hidden(input_ids, attention_mask, torch.zeros_like(input_ids) if has_zeros else None)
        pooled_BH = _mean(hidden_BLH, attention_mask) if self.pooling == "mean" else hidden_BLH[:, 0]
        embedding_BD: Tensor = self.tail(pooled_BH)
        return embedding_BD


class PairGraph(TracedGraph):
    """Token ids of pairs in, scores out."""

    def __init__(self, model: CrossEncoder, *, skip_padding: bool = True) -> None:
        super().__init__(model.encoder, skip_padding=skip_padding)
        self.head = model.head
        self.has_segments, self.sep_id = model.has_segments, model.sep_id

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Score pairs.

        Args:    input_ids: (B, L) int64.  attention_mask: (B, L) int64, 1 = token, 0 = padding.
        Returns: (B, 1) float32, in [0, 1].
        """
        segment_ids_BL = segment_ids(input_ids, attention_mask, sep_id=self.sep_id) if self.has_segments else None
        hidden_BLH = self.hidden(input_ids, attention_mask, segment_ids_BL)
        score_B1: Tensor = self.head(hidden_BLH[:, 0]).sigmoid()
        return score_B1


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
    has_absolute_positions = getattr(body.config, "position_embedding_type", "absolute") == "absolute"
    is_known = body.config.model_type in UNPADDED_FAMILIES and has_absolute_positions
    return UnpaddedBody(body) if is_known else None


def _mean(hidden_BLH: Tensor, attention_mask: Tensor) -> Tensor:
    """The mean over real tokens, as a matrix product: a sum in ONNX Runtime would depend on the batch."""
    mask_BL = attention_mask.to(hidden_BLH.dtype)
    sum_BH = torch.matmul(mask_BL.unsqueeze(1), hidden_BLH).squeeze(1)
    return sum_BH / mask_BL.sum(dim=1, keepdim=True)


def truncated_dim(model: SentenceTransformer) -> int | None:
    """The number of dims kept by `truncate_dim`; None: all."""
    with model.truncate_embeddings(None):
        width = model.get_embedding_dimension()
    dims = model.truncate_dim
    return dims if dims is not None and (width is None or dims < width) else None


def build_graph(model: SentenceTransformer, *, skip_padding: bool = True) -> SentenceGraph:
    """Join the modules of a sentence-transformers bi-encoder.

    Args:   skip_padding: compute on real tokens only, if the body's family supports it.
    Raises: BadCheckpoint: the modules are not Transformer, Pooling (mean or cls), Dense, Normalize, in that order.
    """
    modules = list(model)
    if len(modules) < 2 or not isinstance(modules[0], Transformer) or not isinstance(modules[1], Pooling):
        names = ", ".join(type(module).__name__ for module in modules)
        raise BadCheckpoint(f"the checkpoint is {names}; it must begin with Transformer, Pooling")
    pooling = modules[1].pooling_mode
    if pooling not in POOLING_MODES:
        raise BadCheckpoint(f"the checkpoint pools by {pooling}; the graph can pool by {' or '.join(POOLING_MODES)}")
    body = modules[0].auto_model
    if getattr(body, "pooler", None) is not None:
        body.pooler = None  # the pooler of pre-training: unused in sentence embeddings
    return SentenceGraph(
        body, pooling=pooling, tail=_tail(modules[2:], truncated_dim(model)), skip_padding=skip_padding
    ).eval()


def _tail(modules: Iterable[nn.Module], dim: int | None) -> nn.Sequential:
    """The modules after the pooling. dim: the number of dims to keep; None: all."""
    tail: list[nn.Module] = []
    for module in modules:
        if isinstance(module, Dense) and module.module_input_name == module.module_output_name == "sentence_embedding":
            tail += [module.linear, module.activation_function]
        elif isinstance(module, Normalize):
            tail.append(UnitLength())
        else:
            raise BadCheckpoint(
                f"the checkpoint has a {type(module).__name__} after its pooling, not Dense or Normalize"
            )
    if dim is not None:
        tail.append(FirstDims(dim))
    if not tail or not isinstance(tail[-1], UnitLength):
        tail.append(UnitLength())  # the contract: every vector has norm 1
    return nn.Sequential(*tail)
