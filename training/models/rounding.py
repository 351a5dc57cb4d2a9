"""Trains word embeddings with the rounding of a 4-bit export in the forward pass.

Shapes: ... any, B width of the word table, G blocks of a row, S weights of a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.errors import ConfigError
from training.models.encoder import CrossletEncoder, word_table
from training.config.run import BLOCK_SIZE

LEVELS = 15  # steps between a block's minimum and maximum


def train_with_rounded_words(encoder: CrossletEncoder) -> None:
    """Make the word table return rows rounded as `--word-bits 4` stores them; its weights stay float32.

    Gradients pass the rounding unchanged: the straight-through estimator (Bengio et al. 2013,
    "Estimating or Propagating Gradients Through Stochastic Neurons").

    Raises: ConfigError: the table's width is not a multiple of the block.
    """
    table = word_table(encoder)
    if table.embedding_dim % BLOCK_SIZE:
        raise ConfigError(
            f"round_words needs a word table whose width is a multiple of {BLOCK_SIZE}, not {table.embedding_dim}"
        )
    table.register_forward_hook(lambda _module, _ids, rows: rows + (rounded(rows) - rows).detach())


@torch.no_grad()
def rounded(rows: Tensor) -> Tensor:
    """Round each block to 16 levels over its range, 0 included, with a float16 scale: (..., B) float32 -> (..., B)."""
    block_GS = rows.reshape(*rows.shape[:-1], -1, BLOCK_SIZE)
    low_G1 = block_GS.amin(-1, keepdim=True).clamp(max=0)
    high_G1 = block_GS.amax(-1, keepdim=True).clamp(min=0)
    scale_G1 = ((high_G1 - low_G1) / LEVELS).half().float()
    step_G1 = torch.where(scale_G1 > 0, scale_G1, 1)  # a block of zeros stays zeros
    zero_G1 = (-low_G1 / step_G1).round().clamp(0, LEVELS)
    code_GS = ((block_GS / step_G1).round() + zero_G1).clamp(0, LEVELS)
    return ((code_GS - zero_G1) * scale_G1).reshape(rows.shape)
