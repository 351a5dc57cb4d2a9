"""The bottleneck's initial weights, in closed form. Shapes: V vocabulary, H hidden, B bottleneck."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_svd(embeddings_VH: Tensor, frequency_V: Tensor, bottleneck_size: int) -> tuple[Tensor, Tensor]:
    """The best rank-B factors of a word-embedding table, with tokens weighted by frequency.

    Minimises sum_v f_v ||E_v - T_v P||^2 over T (V x B) and P (B x H): P spans the top B eigenvectors of E' F E and
    T is E's projection on them. This minimises stage 2's error (Eq. (3), Ding et al. 2022) before position embeddings and
    LayerNorm. Not in the paper.

    Args:    frequency_V: occurrences of each token, >= 0.
    Returns: table T (V, B) and projection weight P' (H, B) as `nn.Linear(B, H)` stores it; T is scaled to
             the standard deviation of E.
    """
    embeddings = embeddings_VH.double()
    # + 1: tokens that the sample lacks still count a little
    covariance_HH = embeddings.T @ ((frequency_V.double() + 1.0).unsqueeze(1) * embeddings)
    _, eigenvectors_HH = torch.linalg.eigh(covariance_HH)  # ascending
    basis_HB = eigenvectors_HH[:, -bottleneck_size:].flip(1)
    table_VB = embeddings @ basis_HB
    scale = embeddings.std() / table_VB.std()
    return (table_VB * scale).float(), (basis_HB / scale).float()
