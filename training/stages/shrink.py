"""The student before training: the assistant's first layers and a narrow word table (Eq. (1), Ding et al. 2022)."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import StudentConfig
from training.errors import ConfigError
from training.models.encoder import BottleneckEmbedding, CrossletConfig, CrossletEncoder, copy_body, shape_of
from training.models.sentence_encoder import SentenceEncoder
from training.models.svd import weighted_svd


def student_from_assistant(
    assistant: SentenceEncoder, config: StudentConfig, token_frequency_V: NDArray[np.int64], *, seed: int
) -> SentenceEncoder:
    """A student of M of the assistant's layers, applied K times; its word embeddings are whole, an SVD, or random.

    Args:   token_frequency_V: token weights of the SVD.  seed: of a random bottleneck.
    Raises: ConfigError: the assistant has fewer than M layers, or lacks a configured layer.
    """
    base = assistant.encoder.config.base_config()
    if config.unit_layers > base.num_hidden_layers:
        raise ConfigError(f"student.unit_layers is {config.unit_layers}; the assistant has {base.num_hidden_layers}")
    if config.layers is not None and max(config.layers) >= base.num_hidden_layers:
        raise ConfigError(
            f"student.layers has {max(config.layers)}; the assistant's are 0 to {base.num_hidden_layers - 1}"
        )
    shape = shape_of(base, num_hidden_layers=config.unit_layers)
    student_config = CrossletConfig(base=shape, bottleneck_size=config.bottleneck_size, recurrences=config.recurrences)
    student_config._attn_implementation = assistant.encoder.config._attn_implementation
    torch.manual_seed(seed)
    encoder = CrossletEncoder(student_config)
    copy_body(assistant.encoder, encoder, config.layers)
    table_VH: Tensor = assistant.encoder.body.get_input_embeddings().weight.detach()
    words = encoder.get_input_embeddings()
    with torch.no_grad():
        if not isinstance(words, BottleneckEmbedding):
            encoder.body.get_input_embeddings().weight.copy_(table_VH)
        elif config.bottleneck_start == "svd":
            frequency_V = torch.from_numpy(token_frequency_V).to(table_VH.device)
            table_VB, projection_HB = weighted_svd(table_VH, frequency_V, words.table.embedding_dim)
            words.table.weight.copy_(table_VB)
            words.projection.weight.copy_(projection_HB)
    return SentenceEncoder(encoder, copy.deepcopy(assistant.head), normalized=assistant.normalized)
