"""Stage 2: align the student's embedding bottleneck (Eq. (3), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.loop import Objective
from training.losses import token_embedding_mse
from training.processes import sum_over_processes
from training.sentence import SentenceEncoder
from training.stages.config import StageConfig
from training.stages.pairs import PairEncoder


def bottleneck_objective(
    assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder, config: StageConfig | None = None
) -> Objective:
    """Eq. (3): only the student's embedding layer trains; the loss is over its output at real tokens."""
    config = config or StageConfig()
    student.requires_grad_(False)
    student.encoder.body.embeddings.requires_grad_(True)

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        input_ids_BL, attention_mask_BL = pairs.own_token_ids(batch_B)
        with torch.no_grad():
            target_BLH = assistant.encoder.embed_tokens(input_ids_BL)
        student_BLH = student.encoder.embed_tokens(input_ids_BL)
        own_tokens = attention_mask_BL.sum()
        share = own_tokens / sum_over_processes(own_tokens)
        own_loss = token_embedding_mse(student_BLH, target_BLH, attention_mask_BL, config.squared_errors)
        return {"tokens": sum_over_processes(share * own_loss)}  # the mean over all processes' tokens

    return Objective(student, losses)
