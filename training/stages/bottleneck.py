"""Stage 2: align the student's embedding bottleneck (Eq. (3), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import BottleneckConfig
from training.losses import pooled_embedding_mse, token_embedding_mse
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.optimisation.processes import sum_over_processes
from training.stages.pairs import PairEncoder


def bottleneck_objective(
    assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder, config: BottleneckConfig | None = None
) -> Objective:
    """Eq. (3): trains only the student's embedding layer, on its output at real tokens.

    The loss compares token by token or, if `pooled`, each sentence's mean over tokens, summed over s and t.
    """
    config = config or BottleneckConfig()
    student.requires_grad_(False)
    student.encoder.body.embeddings.requires_grad_(True)

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        input_ids_BL, attention_mask_BL = pairs.own_token_ids(batch_B)
        with torch.no_grad():
            target_BLH = assistant.encoder.embed_tokens(input_ids_BL)
        student_BLH = student.encoder.embed_tokens(input_ids_BL)
        loss, counted = (
            (pooled_embedding_mse, attention_mask_BL.any(dim=1).sum())
            if config.pooled
            else (token_embedding_mse, attention_mask_BL.sum())
        )
        share = counted / sum_over_processes(counted)
        own_loss = loss(student_BLH, target_BLH, attention_mask_BL, config.reduction)
        mean = sum_over_processes(share * own_loss)  # over the tokens or sentences of all processes
        return {"sentences": 2 * mean} if config.pooled else {"tokens": mean}

    return Objective(student, losses)
