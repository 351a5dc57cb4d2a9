"""A sentence encoder: token encoder, mean pooling, head, unit length. Saved as a sentence-transformers folder.

Shapes: B batch, L tokens, D dims of the sentence embedding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from training.errors import LoadError
from training.models.encoder import CrossletEncoder, mean_pool
from training.models.loading import load_body, load_sentence_transformer
from training.system.files import share


class CrossletTransformer(Transformer):
    """Loads a crosslet checkpoint inside sentence-transformers: importing this module registers the architecture."""


class SentenceEncoder(nn.Module):
    """h_X of the paper: the pooled embedding of a sentence by encoder X.

    Args:
        encoder: gives token embeddings.
        head: maps H to the teacher's width, or None where the widths agree.
        normalized: whether embeddings get unit length, as the teacher's have.
    """

    def __init__(self, encoder: CrossletEncoder, head: nn.Linear | None = None, *, normalized: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.normalized = normalized

    def forward(self, input_ids_BL: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """Token ids and mask, (B, L) int64 -> (B, D) float32."""
        return self.pooled(self.token_embeddings(input_ids_BL, attention_mask_BL), attention_mask_BL)

    def token_embeddings(self, input_ids_BL: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """The encoder's last hidden states, before pooling: (B, L, H)."""
        hidden_BLH: Tensor = self.encoder(input_ids_BL, attention_mask_BL).last_hidden_state
        return hidden_BLH

    def pooled(self, hidden_BLH: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """The sentence embedding, from token embeddings: (B, D) float32."""
        embedding_BD = self.project(mean_pool(hidden_BLH, attention_mask_BL))
        return F.normalize(embedding_BD, dim=-1) if self.normalized else embedding_BD

    def project(self, mean_NH: Tensor) -> Tensor:
        """Apply the head to pooled token embeddings: (N, H) -> (N, D)."""
        return mean_NH if self.head is None else self.head(mean_NH).float()


def save_sentence_encoder(
    model: SentenceEncoder, tokenizer: PreTrainedTokenizerFast, folder: Path, *, max_length: int
) -> None:
    """Write a folder that `SentenceTransformer(folder)` loads, where `training` can be imported."""
    save_modules(model.encoder, tokenizer, folder, max_length=max_length, head=model.head, normalized=model.normalized)


def save_modules(
    body: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    *,
    max_length: int,
    head: nn.Linear | None = None,
    normalized: bool = False,
    **settings: Any,
) -> None:
    """Write a body with mean pooling as a sentence-transformers folder.

    Args: head, normalized: what follows the pooling.  settings: of `SentenceTransformer`.
    """
    kind = CrossletTransformer if isinstance(body, CrossletEncoder) else Transformer
    body.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    hidden_size = int(body.config.hidden_size)
    modules = [load_body(folder, kind, max_length=max_length), Pooling(hidden_size, pooling_mode="mean")]
    if head is not None:
        dense = Dense(hidden_size, head.out_features, bias=True, activation_function=nn.Identity())
        dense.linear.load_state_dict(head.state_dict())
        modules.append(dense)
    if normalized:
        modules.append(Normalize())
    SentenceTransformer(modules=modules, device="cpu", **settings).save(str(folder), create_model_card=False)
    share(folder)


def load_sentence_encoder(folder: Path, *, attention: str = "sdpa") -> SentenceEncoder:
    """Load a crosslet checkpoint as a trainable module.

    Raises: ValueError: the folder's first module is not a crosslet encoder.
            LoadError: it lacks a weight, or has modules behind its encoder that a `SentenceEncoder` has no place for.
    """
    options = {"attn_implementation": attention}
    first, *modules = load_sentence_transformer(str(folder), device="cpu", model_kwargs=options)
    encoder = first.auto_model
    if not isinstance(encoder, CrossletEncoder):
        raise ValueError(f"{folder} holds a {type(encoder).__name__}, not a crosslet checkpoint")
    dense, rest = split_head(modules)
    if rest and not (len(rest) == 1 and isinstance(rest[0], Normalize)):
        names = ", ".join(type(module).__name__ for module in modules)
        raise LoadError(
            f"it has {names} behind its encoder; mean pooling, one Dense without activation and Normalize can be "
            "trained further (a model of `crosslet align`: take the one it was made from)"
        )
    head = None if dense is None else dense.linear
    return SentenceEncoder(encoder.to(torch.float32), head, normalized=bool(rest))


def split_head(modules: list[nn.Module]) -> tuple[Dense | None, list[nn.Module]]:
    """Of the modules behind a body, the head, a linear layer right after mean pooling, and all that is neither."""
    match modules:
        case [Pooling(pooling_mode="mean"), Dense(activation_function=nn.Identity()) as dense, *rest]:
            return dense, rest
        case [Pooling(pooling_mode="mean"), *rest]:
            return None, rest
    return None, modules
