"""Stage 1: teach the assistant (Eq. (2), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.loop import Objective
from training.losses import embedding_mse
from training.sentence import SentenceEncoder
from training.stages.pairs import PairEncoder, TeacherLabels


def assistant_objective(assistant: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder) -> Objective:
    """||h_T(s) - h_A(s)||^2 + ||h_T(s) - h_A(t)||^2: the teacher is monolingual, so both targets are h_T(s)."""

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD = pairs.labels(teacher, batch_B)
        source_BD, target_BD = pairs.encode(assistant, batch_B)
        return {"source": embedding_mse(source_BD, label_BD), "target": embedding_mse(target_BD, label_BD)}

    return Objective(assistant, losses)
