"""Turns an artifact back into a module that training goes on with, its word table as narrow as it is stored.

Shapes: B width of the word table, H hidden, D dims of the sentence embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from export.restore.source import UNREADABLE, Source, unreadable
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder

WORDS = "embeddings.word_embeddings"


def restored_student(source: Source) -> SentenceEncoder:
    """The artifact's model in float32, with eager attention, which trains faster on a CPU.

    Raises: BadRequest: its graph is of another kind.  Refused: its vectors differ from the artifact's.
    """
    try:
        model = _student(source)
    except UNREADABLE as exc:
        raise unreadable(source.folder, exc) from exc
    source.check(lambda ids: model(*_batch(ids)))
    return model


def _student(source: Source) -> SentenceEncoder:
    weights, state = source.weights, dict(source.weights.state)
    width = None
    if weights.projection_BH is not None:
        width = len(weights.projection_BH)
        state[f"{WORDS}.table.weight"] = state.pop(f"{WORDS}.weight")
        state[f"{WORDS}.projection.weight"] = weights.projection_BH.T
    config = CrossletConfig(base=shape_of(source.config()), bottleneck_size=width)
    config._attn_implementation = "eager"
    encoder = CrossletEncoder(config)
    encoder.body.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    head: nn.Linear | None = None
    if weights.head is not None:
        weight_DH, bias_D = (torch.from_numpy(np.array(value)) for value in weights.head)
        head = nn.Linear(weight_DH.shape[1], len(weight_DH))
        head.load_state_dict({"weight": weight_DH, "bias": bias_D})
    return SentenceEncoder(encoder, head, normalized=True).eval()


def _batch(ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    ids_1L = torch.tensor([list(ids)])
    return ids_1L, torch.ones_like(ids_1L)
