"""The closed-form start of the bottleneck. Shapes: V vocabulary, H hidden, B bottleneck."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_svd(embeddings_VH: Tensor, frequency_V: Tensor, bottleneck_size: int) -> tuple[Tensor, Tensor]:
    """The rank-B factors that lose least of a word-embedding table, tokens weighted by how often they occur.

    Minimises sum_v f_v ||E_v - T_v P||^2 over T (V x B) and P (B x H): P spans the top B eigenvectors of E' F E and
    T is E's projection on them. This is the error of stage 2 (Eq. (3), Ding et al. 2022) before position embeddings and
    LayerNorm, at its minimum before the first step. Not in the paper.

    Args:    frequency_V: occurrences of each token, >= 0.
    Returns: table T (V, B) and projection weight P' (H, B) as `nn.Linear(B, H)` stores it; T is scaled so that its
             entries have the spread of E's.
    """
    embeddings = embeddings_VH.double()
    # + 1: a token that the sample lacks still counts a little
    covariance_HH = embeddings.T @ ((frequency_V.double() + 1.0).unsqueeze(1) * embeddings)
    _, eigenvectors_HH = torch.linalg.eigh(covariance_HH)  # ascending
    basis_HB = eigenvectors_HH[:, -bottleneck_size:].flip(1)
    table_VB = embeddings @ basis_HB
    scale = embeddings.std() / table_VB.std()
    return (table_VB * scale).float(), (basis_HB / scale).float()
