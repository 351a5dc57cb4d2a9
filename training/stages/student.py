"""Stage 3: teach the student from the assistant (Eq. (4), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import StudentStageConfig
from training.losses import embedding_mse, squared_distance
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.optimisation.processes import sum_over_processes
from training.stages.pairs import PairEncoder, TokenEmbeddings, drawn_rows


def student_objective(
    assistant: SentenceEncoder,
    student: SentenceEncoder,
    pairs: PairEncoder,
    config: StudentStageConfig | None = None,
) -> Objective:
    """||h_A(s) - h_S(s)||^2 + ||h_A(t) - h_S(t)||^2.

    `token_weight` adds the squared distance between the last hidden states of assistant and student, mean over the
    batch's tokens (not in the paper). A sentence then gives one target a token, so a student with fewer layers than
    the assistant recovers on a tenth of the text.
    """
    config = config or StudentStageConfig()
    reduction = config.reduction

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        sources_S = batch_B[drawn_rows(batch_B, config.source_share)]
        with torch.no_grad():
            label_source_SD, label_target_BD, labels = pairs.encode_tokens(assistant, batch_B, sources_S=sources_S)
        source_SD, target_BD, tokens = pairs.encode_tokens(student, batch_B, sources_S=sources_S)
        parts = {
            "source": embedding_mse(source_SD, label_source_SD, reduction),
            "target": embedding_mse(target_BD, label_target_BD, reduction),
        }
        if config.token_weight is not None:
            count = pairs.token_count(batch_B, sources_S)
            parts["tokens"] = config.token_weight * token_distance(tokens, labels, count=count)
        return parts

    return Objective(student, losses)


def token_distance(tokens: TokenEmbeddings, labels: TokenEmbeddings, *, count: int) -> Tensor:
    """Squared distance between two models' token embeddings of the same texts, summed over H, mean over `count` tokens.

    Args: tokens, labels: of the texts that this process encoded.  count: tokens over all processes.
    """
    own = [
        squared_distance(student_BLH, label_BLH, mask_BL)
        for student_BLH, label_BLH, mask_BL in zip(tokens.groups, labels.groups, tokens.masks, strict=True)
    ]
    return sum_over_processes(torch.stack(own).sum() if own else torch.zeros(())) / count
