"""Stage 1: teach the assistant (Eq. (2), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import StageConfig
from training.losses import embedding_mse
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows


def assistant_objective(
    assistant: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder, config: StageConfig | None = None
) -> Objective:
    """||h_T(s) - h_A(s)||^2 + ||h_T(s) - h_A(t)||^2: the teacher is monolingual, so both targets are h_T(s).

    `source_share` trains on only a sample of a batch's English sides (not in the paper). An assistant initialised from
    the teacher already matches it on English, so time is better spent on targets.
    """
    config = config or StageConfig()
    reduction = config.reduction

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD, taught_S = pairs.labels(teacher, batch_B), drawn_rows(batch_B, config.source_share)
        source_SD, target_BD = pairs.encode(assistant, batch_B, sources_S=batch_B[taught_S])
        return {
            "source": embedding_mse(source_SD, label_BD[taught_S], reduction),
            "target": embedding_mse(target_BD, label_BD, reduction),
        }

    return Objective(assistant, losses)
