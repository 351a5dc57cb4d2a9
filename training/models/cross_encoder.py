"""The cross-encoder: a body reads `[CLS] query [SEP] passage [SEP]`, and a linear layer scores h_CLS.

Shapes: B pairs, L tokens, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from training.errors import ConfigError, LoadError
from training.models.encoder import CrossletEncoder
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder

HEAD_SPREAD = 0.02  # standard deviation of a new head's weights, as in BERT


class CrossEncoder(nn.Module):
    """S(q, p) = sigmoid(w h_CLS + b): eqs. (1) and (3), Chen et al. 2020.

    h_CLS goes straight into the linear layer, without BERT's pooler.

    Args:
        encoder: a transformers body, or ours with bottleneck and recurrent unit.
        sep_id: of the separator, whose position gives the segment ids.
    """

    def __init__(self, encoder: Any, *, sep_id: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.sep_id = sep_id
        self.head = nn.Linear(int(encoder.config.hidden_size), 1)
        self.reset_head(seed=0)

    @property
    def has_segments(self) -> bool:
        """Whether the body tells query and passage apart by segment ids."""
        config = getattr(self._body, "config", None)
        return int(getattr(config, "type_vocab_size", 0) or 0) > 1

    @property
    def _body(self) -> Any:
        return self.encoder.body if isinstance(self.encoder, CrossletEncoder) else self.encoder

    def forward(self, input_ids_BL: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """Token ids and mask, (B, L) int64 -> logits, (B,); the score is their sigmoid."""
        options = {}
        if self.has_segments:
            options["token_type_ids"] = segment_ids(input_ids_BL, attention_mask_BL, sep_id=self.sep_id)
        output = self._body(input_ids=input_ids_BL, attention_mask=attention_mask_BL, **options)
        logit_B: Tensor = self.head(output.last_hidden_state[:, 0]).squeeze(-1)
        return logit_B

    def reset_head(self, *, seed: int) -> None:
        """Initialise the head at random."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(self.head.weight.shape, generator=generator) * HEAD_SPREAD)
            self.head.bias.zero_()


def segment_ids(input_ids_BL: Tensor, attention_mask_BL: Tensor, *, sep_id: int) -> Tensor:
    """0 up to the first separator, 1 after it, 0 for padding: (B, L) int64.

    XLM-R puts two separators between the sides; the second one belongs to the passage.
    """
    is_sep_BL = (input_ids_BL == sep_id).long()
    before_BL = is_sep_BL.cumsum(dim=1) - is_sep_BL
    return (before_BL > 0).long() * attention_mask_BL


def load_base(name: str, *, attention: str) -> tuple[CrossEncoder, PreTrainedTokenizerFast]:
    """A cross-encoder with a new head on a body from a folder, an installed package or the hub.

    Raises: ConfigError: none of them has it, or it is not a transformer with a fast tokenizer.
    """
    options = {"attn_implementation": attention}
    try:
        loaded = load_sentence_transformer(str(packaged_folder(name) or name), device="cpu", model_kwargs=options)
    except LoadError as exc:
        raise ConfigError(f"base {name!r} cannot be loaded: {exc}") from exc
    encoder, tokenizer = getattr(loaded[0], "auto_model", None), loaded.tokenizer
    if encoder is None or not getattr(tokenizer, "is_fast", False):
        raise ConfigError(f"base {name!r} has no transformer, or a tokenizer without a tokenizer.json")
    if tokenizer.sep_token_id is None:
        raise ConfigError(f"base {name!r} has a tokenizer without a separator; a cross-encoder needs one")
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # belongs to pre-training; h_CLS is read before it
    return CrossEncoder(encoder.to(torch.float32), sep_id=int(tokenizer.sep_token_id)), tokenizer
