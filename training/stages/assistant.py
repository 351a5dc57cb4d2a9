"""Stage 1: teach the assistant (Eq. (2), Ding et al. 2022)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.loop import Objective
from training.losses import embedding_mse
from training.sentence import SentenceEncoder
from training.stages.pairs import PairEncoder, TeacherLabels


def assistant_objective(
    assistant: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder, *, source_share: float | None = None
) -> Objective:
    """||h_T(s) - h_A(s)||^2 + ||h_T(s) - h_A(t)||^2: the teacher is monolingual, so both targets are h_T(s).

    Args: source_share: of the English sides, how many are encoded; the mean over them then weighs as much less. The
        assistant starts out close to the teacher on English, so most of the time goes to the other side. Not in the
        paper, which is None: all.
    """
    share = 1.0 if source_share is None else source_share

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD = pairs.labels(teacher, batch_B)
        taught_S = np.random.default_rng(batch_B).permutation(len(batch_B))[: max(1, round(share * len(batch_B)))]
        source_SD, target_BD = pairs.encode(assistant, batch_B, sources_S=batch_B[taught_S])
        source = embedding_mse(source_SD, label_BD[torch.from_numpy(taught_S)])
        return {"source": share * source, "target": embedding_mse(target_BD, label_BD)}

    return Objective(assistant, losses)
