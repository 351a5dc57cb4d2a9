"""Stage 4: multilingual contrastive learning with distillation (Eqs. (5) to (9), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import ContrastiveConfig, Reduction
from training.losses import (
    bool_contrastive,
    cross_entropy_contrastive,
    embedding_mse,
    hard_cross_entropy,
    multilingual_contrastive,
)
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows


def contrastive_objective(
    student: SentenceEncoder,
    teacher: TeacherLabels,
    pairs: PairEncoder,
    config: ContrastiveConfig,
) -> Objective:
    """Eq. (7): a contrastive loss, Eq. (5), (8) or (9), plus the distillation loss, Eq. (6).

    The labels are the monolingual teacher's embeddings of the source sides.
    With `source_share`, the contrastive loss compares the sampled English sides with every target of the batch.
    """

    def contrast(label_BD: Tensor, source_SD: Tensor, target_BD: Tensor, rows_S: NDArray[np.int64]) -> Tensor:
        if config.objective == "soft":
            return multilingual_contrastive(label_BD, source_SD, target_BD, rows_S)
        if config.objective in ("bool", "bool_equal"):
            equal_BD = label_BD if config.objective == "bool_equal" else None
            return bool_contrastive(source_SD, target_BD, rows_S, teacher_source_BD=equal_BD)
        if config.objective == "ce_hard":
            return hard_cross_entropy(source_SD, target_BD, rows_S, temperature=config.temperature)
        over_anchors: Reduction = "sum" if config.objective == "ce_sum" else "mean"
        return cross_entropy_contrastive(
            label_BD, source_SD, target_BD, rows_S, temperature=config.temperature, over_anchors=over_anchors
        )

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD, taught_S = pairs.labels(teacher, batch_B), drawn_rows(batch_B, config.source_share)
        source_SD, target_BD = pairs.encode(student, batch_B, sources_S=batch_B[taught_S])
        parts = {
            "source": embedding_mse(source_SD, label_BD[taught_S], config.reduction),
            "target": embedding_mse(target_BD, label_BD, config.reduction),
        }
        if config.objective != "none":
            parts["contrastive"] = config.mcl_weight * contrast(label_BD, source_SD, target_BD, taught_S)
        return parts

    return Objective(student, losses)
