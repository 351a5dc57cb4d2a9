"""Stage 2: the student from the assistant, its embedding bottleneck aligned (Eqs. (1) and (3), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.config import StudentConfig
from training.errors import ConfigError
from training.loop import Objective
from training.losses import token_embedding_mse
from training.model import BottleneckEmbedding, CrossletConfig, CrossletEncoder, copy_body, shape_of
from training.sentence import SentenceEncoder
from training.stages.pairs import PairEncoder
from training.svd import weighted_svd


def student_from_assistant(
    assistant: SentenceEncoder, config: StudentConfig, token_frequency_V: NDArray[np.int64]
) -> SentenceEncoder:
    """The student before training: the assistant's first M layers applied K times, word embeddings by weighted SVD.

    Raises: ConfigError: M is more than the assistant has.
    """
    base = assistant.encoder.config.base_config()
    if config.unit_layers > base.num_hidden_layers:
        raise ConfigError(f"student.unit_layers is {config.unit_layers}; the assistant has {base.num_hidden_layers}")
    shape = shape_of(base, num_hidden_layers=config.unit_layers)
    student_config = CrossletConfig(base=shape, bottleneck_size=config.bottleneck_size, recurrences=config.recurrences)
    student_config._attn_implementation = assistant.encoder.config._attn_implementation
    encoder = CrossletEncoder(student_config)
    copy_body(assistant.encoder, encoder)
    table_VH: Tensor = assistant.encoder.body.get_input_embeddings().weight.detach()
    words = encoder.get_input_embeddings()
    with torch.no_grad():
        if isinstance(words, BottleneckEmbedding):
            frequency_V = torch.from_numpy(token_frequency_V).to(table_VH.device)
            table_VB, projection_HB = weighted_svd(table_VH, frequency_V, words.table.embedding_dim)
            words.table.weight.copy_(table_VB)
            words.projection.weight.copy_(projection_HB)
        else:
            encoder.body.get_input_embeddings().weight.copy_(table_VH)
    head = None
    if assistant.head is not None:
        head = nn.Linear(assistant.head.in_features, assistant.head.out_features)
        head.load_state_dict(assistant.head.state_dict())
    return SentenceEncoder(encoder, head, normalized=assistant.normalized)


def bottleneck_objective(
    assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder
) -> Objective[NDArray[np.int64]]:
    """Eq. (3): only the student's embedding layer trains; the loss is over its output at real tokens."""
    student.requires_grad_(False)
    student.encoder.body.embeddings.requires_grad_(True)

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        input_ids_BL, attention_mask_BL = pairs.token_ids(batch_B)
        with torch.no_grad():
            target_BLH = assistant.encoder.embed_tokens(input_ids_BL)
        student_BLH = student.encoder.embed_tokens(input_ids_BL)
        return {"tokens": token_embedding_mse(student_BLH, target_BLH, attention_mask_BL)}

    return Objective(student, losses)
