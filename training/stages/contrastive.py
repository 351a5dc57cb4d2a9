"""Stage 4: multilingual contrastive learning beside distillation (Eqs. (5)-(7), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.loop import Objective
from training.losses import embedding_mse, multilingual_contrastive
from training.sentence import SentenceEncoder
from training.stages.config import ContrastiveConfig
from training.stages.pairs import PairEncoder, TeacherLabels


def contrastive_objective(
    student: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder, config: ContrastiveConfig
) -> Objective[NDArray[np.int64]]:
    """l_MCL + l_KD; the teacher's labels are its own, monolingual, source-side embeddings."""

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD = pairs.labels(teacher, batch_B)
        source_BD, target_BD = pairs.encode(student, batch_B)
        parts = {"source": embedding_mse(source_BD, label_BD), "target": embedding_mse(target_BD, label_BD)}
        if config.objective == "soft":
            parts["contrastive"] = config.mcl_weight * multilingual_contrastive(label_BD, source_BD, target_BD)
        return parts

    return Objective(student, losses)
