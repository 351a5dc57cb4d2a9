"""Stage 1: teach the assistant (Eq. (2), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.config.stage import StageConfig
from training.losses import embedding_mse
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows


def assistant_objective(
    assistant: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder, config: StageConfig | None = None
) -> Objective:
    """||h_T(s) - h_A(s)||^2 + ||h_T(s) - h_A(t)||^2: the teacher is monolingual, so both targets are h_T(s).

    With `source_share`, a part of a batch's English sides stands for all: an assistant that starts from the teacher is
    close to it on English, so time is better spent on targets. Not in the paper.
    """
    config = config or StageConfig()
    reduction = config.squared_errors

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD, taught_S = pairs.labels(teacher, batch_B), drawn_rows(batch_B, config.source_share)
        source_SD, target_BD = pairs.encode(assistant, batch_B, sources_S=batch_B[taught_S])
        return {
            "source": embedding_mse(source_SD, label_BD[taught_S], reduction),
            "target": embedding_mse(target_BD, label_BD, reduction),
        }

    return Objective(assistant, losses)
