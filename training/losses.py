"""The losses, one function per equation of Ding et al. 2022, and those of re-ranking. Tensors in, a scalar out.

Shapes: B pairs of a batch, S of them whose source side is encoded, N candidates, L tokens, H hidden, D dims of the
sentence embedding, Q queries of two passages each.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from training.config.run import Reduction

Indices = NDArray[np.int64]


def embedding_mse(student_BD: Tensor, target_BD: Tensor, reduction: Reduction = "sum") -> Tensor:
    """Mean over the batch of ||target - student||^2: one term of Eqs. (2), (4) and (6).

    Args: reduction: over D. "sum": the squared norm of the equations, 4 for opposite unit vectors.
        "mean": the mean squared error of a caption in the paper and of the authors' code, D times smaller.
    """
    return (student_BD - target_BD).square().sum(dim=-1).mean() / _divisor(student_BD, reduction)


def token_embedding_mse(
    student_BLH: Tensor, target_BLH: Tensor, attention_mask_BL: Tensor, reduction: Reduction = "sum"
) -> Tensor:
    """Eq. (3), token by token: squared distance of the embedding layers' outputs, mean over real tokens.

    A batch without a real token gives 0.

    Args: reduction: over H, as in `embedding_mse`.
    """
    total = squared_distance(student_BLH, target_BLH, attention_mask_BL) / attention_mask_BL.sum().clamp_min(1)
    return total / _divisor(student_BLH, reduction)


def pooled_embedding_mse(
    student_BLH: Tensor, target_BLH: Tensor, attention_mask_BL: Tensor, reduction: Reduction = "sum"
) -> Tensor:
    """Eq. (3) on sentences: squared distance of the embedding layers' outputs, each averaged over its real tokens.

    This is the paper's notation and the authors' code. Mean over sentences that have a real token.

    Args: reduction: over H, as in `embedding_mse`.
    """
    mask_BL = attention_mask_BL.to(student_BLH.dtype)
    length_B = mask_BL.sum(dim=1)
    difference_BH = ((student_BLH - target_BLH) * mask_BL[..., None]).sum(dim=1) / length_B.clamp_min(1)[:, None]
    total = difference_BH.square().sum() / (length_B > 0).sum().clamp_min(1)
    return total / _divisor(student_BLH, reduction)


def squared_distance(left_BLH: Tensor, right_BLH: Tensor, attention_mask_BL: Tensor) -> Tensor:
    """Squared distance of two models' token embeddings, summed over real tokens and H."""
    distance_BL = (left_BLH - right_BLH).square().sum(dim=-1)
    return (distance_BL * attention_mask_BL.to(distance_BL.dtype)).sum()


def cosine_matrix(left_BD: Tensor, right_ND: Tensor) -> Tensor:
    """cos(left_i, right_j): (B, N), without autocast: bf16 has steps of 0.004 near a cosine of 1."""
    with torch.autocast(left_BD.device.type, enabled=False):
        return F.normalize(left_BD, dim=-1) @ F.normalize(right_ND, dim=-1).T


def multilingual_contrastive(
    teacher_source_BD: Tensor, student_source_SD: Tensor, student_target_BD: Tensor, rows_S: Indices | None = None
) -> Tensor:
    """Eq. (5), soft labels: the student's cross-lingual similarities follow the teacher's monolingual ones.

    1/B^2 sum_ij (cos(h_T(s_i), h_T(s_j)) - cos(h_S(s_i), h_S(t_j)))^2; the labels come from the source side only.

    Args: rows_S: the i that `student_source_SD` holds, where it lacks some; the mean is then over S x B.
    """
    label_SB = cosine_matrix(_rows(teacher_source_BD, rows_S), teacher_source_BD)
    score_SB = cosine_matrix(student_source_SD, student_target_BD)
    return (label_SB - score_SB).square().mean()


def bool_contrastive(
    student_source_SD: Tensor,
    student_target_BD: Tensor,
    rows_S: Indices | None = None,
    *,
    teacher_source_BD: Tensor | None = None,
) -> Tensor:
    """Eq. (8), hard labels: 1/B^2 sum_ij ([h_T(s_i) = h_T(s_j)] - cos(h_S(s_i), h_S(t_j)))^2.

    Args: rows_S: as in `multilingual_contrastive`.  teacher_source_BD: equal ones are positives, as printed.
        None: [i = j], the diagonal, as in the authors' code; a sentence twice in a batch is its own negative.
    """
    score_SB = cosine_matrix(student_source_SD, student_target_BD)
    if teacher_source_BD is None:
        text_B = torch.arange(len(student_target_BD), device=score_SB.device)
    else:
        text_B = torch.unique(teacher_source_BD, dim=0, return_inverse=True)[1]
    label_SB = (_rows(text_B, rows_S)[:, None] == text_B).to(score_SB.dtype)
    return (label_SB - score_SB).square().mean()


def cross_entropy_contrastive(
    teacher_source_BD: Tensor,
    student_source_SD: Tensor,
    student_target_BD: Tensor,
    rows_S: Indices | None = None,
    *,
    temperature: float,
    over_anchors: Reduction = "mean",
) -> Tensor:
    """Eq. (9): -sum_ij cos(h_T(s_i), h_T(s_j)) log softmax_j(cos(h_S(s_i), h_S(t_j)) / tau).

    The teacher's cosines weight the terms as printed: not normalised, negative ones kept, so the loss can be negative.
    The printed sum over i and j dwarfs Eq. (6), which is at most 8 on unit vectors: with equal student cosines and
    teacher cosines of 0 off the diagonal it is B log B, 266 for B = 64.

    Args: rows_S: as in `multilingual_contrastive`.  over_anchors: "sum" over i, as printed: B times the mean. "mean":
        the loss and its gradient do not grow with B.
    """
    weight_SB = cosine_matrix(_rows(teacher_source_BD, rows_S), teacher_source_BD)
    score_SB = cosine_matrix(student_source_SD, student_target_BD)
    mean = -(weight_SB * F.log_softmax(score_SB / temperature, dim=1)).sum(dim=1).mean()
    return mean * len(student_target_BD) if over_anchors == "sum" else mean


def hard_cross_entropy(
    student_source_SD: Tensor, student_target_BD: Tensor, rows_S: Indices | None = None, *, temperature: float
) -> Tensor:
    """Eq. (9) as in the authors' code: -log softmax_j(cos(h_S(s_i), h_S(t_j)) / tau) at j = i, mean over i.

    InfoNCE, without a teacher. The authors weight it 0.01 against Eq. (6), with tau = 1/20.

    Args: rows_S: as in `multilingual_contrastive`.
    """
    score_SB = cosine_matrix(student_source_SD, student_target_BD)
    text_B = torch.arange(len(student_target_BD), device=score_SB.device)
    return F.cross_entropy(score_SB / temperature, _rows(text_B, rows_S))


def _divisor(vectors_ND: Tensor, reduction: Reduction) -> int:
    return vectors_ND.shape[-1] if reduction == "mean" else 1


def _rows(of_batch: Tensor, rows_S: Indices | None) -> Tensor:
    return of_batch if rows_S is None else of_batch[torch.from_numpy(rows_S).to(of_batch.device)]


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
