"""Stage 3: teach the student from the assistant (Eq. (4), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.loop import Objective
from training.losses import embedding_mse
from training.sentence import SentenceEncoder
from training.stages.pairs import PairEncoder


def student_objective(assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder) -> Objective:
    """||h_A(s) - h_S(s)||^2 + ||h_A(t) - h_S(t)||^2."""

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        with torch.no_grad():
            label_source_BD, label_target_BD = pairs.encode(assistant, batch_B)
        source_BD, target_BD = pairs.encode(student, batch_B)
        return {
            "source": embedding_mse(source_BD, label_source_BD),
            "target": embedding_mse(target_BD, label_target_BD),
        }

    return Objective(student, losses)
