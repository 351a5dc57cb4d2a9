"""The losses of re-ranking. Pure: tensors in, a scalar out. Shapes: B pairs, Q queries of two passages each."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def relevance(logit_B: Tensor, label_B: Tensor) -> Tensor:
    """Eqs. (2) and (4), Chen et al. 2020: binary cross-entropy of sigmoid(logit) and the label.

    Eq. (2) prints z-hat for the label that its text calls z. Differs: mean, not sum, over pairs, so that the step does
    not grow with the batch.
    """
    return F.binary_cross_entropy_with_logits(logit_B.float(), label_B.float())


def margin_mse(student_positive_Q: Tensor, student_negative_Q: Tensor, teacher_margin_Q: Tensor) -> Tensor:
    """Mean squared difference of the margins between a positive and a negative: eq. (4), Hofstätter et al. 2020.

    The teacher is a cross-encoder, the student a bi-encoder.
    """
    return (student_positive_Q - student_negative_Q - teacher_margin_Q).square().mean()
