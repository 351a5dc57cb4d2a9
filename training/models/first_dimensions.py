"""Rotates embeddings so that their first dimensions carry the most; cosines of whole embeddings stay.

Kusupati et al. 2022 (Matryoshka Representation Learning) train a whole model for its first dimensions. Here only an
orthogonal map behind the head is fitted, so nothing is lost.

Shapes: N pairs, B batch, D dims of an embedding, K of them kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from training.models.sentence_encoder import SentenceEncoder

TEMPERATURE = 0.1
LEARNING_RATE = 2e-3
ITSELF = 1e4  # taken from a text's cosine with itself


def fit_rotation(
    left_ND: NDArray[np.float32],
    right_ND: NDArray[np.float32],
    dims: Sequence[int],
    *,
    steps: int = 600,
    batch_size: int = 512,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Fit a rotation after which embeddings cut to their first dims rank texts as whole ones do.

    Minimises, from the principal axes, the KL divergence between the softmax of the cosines of whole and of cut
    embeddings over a batch: from side to side, and within each side.

    Args:    left_ND, right_ND: embeddings of texts and of their translations.  dims: the values of K.
    Returns: (D, D) float32, orthogonal; it multiplies embeddings from the right.
    """
    left, right = (F.normalize(torch.from_numpy(side).float(), dim=1) for side in (left_ND, right_ND))
    both = torch.cat([left, right])
    axes_DD = torch.linalg.eigh(both.T @ both).eigenvectors.flip(1)
    free_DD = axes_DD.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([free_DD], lr=LEARNING_RATE)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rotation_DD = torch.linalg.qr(free_DD).Q
        rows = torch.randint(len(left), (batch_size,), generator=generator)
        whole, turned = (left[rows], right[rows]), (left[rows] @ rotation_DD, right[rows] @ rotation_DD)
        wanted = _rankings(*whole)
        loss = torch.zeros(())
        for count in dims:
            cut = _rankings(*(F.normalize(side[:, :count], dim=1) for side in turned))
            loss = loss + F.kl_div(cut, wanted, log_target=True, reduction="sum") / batch_size
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        decay.step()
    fitted: NDArray[np.float32] = torch.linalg.qr(free_DD.detach()).Q.numpy()
    return fitted


def _rankings(left_BD: Tensor, right_BD: Tensor) -> Tensor:
    """Log softmax of cosines, (4B, B): left to right, right to left, and within each side."""
    across_BB, itself_BB = left_BD @ right_BD.T, ITSELF * torch.eye(len(left_BD))
    within = [left_BD @ left_BD.T - itself_BB, right_BD @ right_BD.T - itself_BB]
    return (torch.cat([across_BB, across_BB.T, *within]) / TEMPERATURE).log_softmax(dim=1)


def rotate(model: SentenceEncoder, rotation_DD: NDArray[np.float32]) -> None:
    """Multiply all embeddings of a model by a rotation, from the right; a model without a head gets one."""
    rotation = torch.from_numpy(rotation_DD)
    head = model.head or nn.Linear(*rotation.shape)
    if model.head is None:
        head.load_state_dict({"weight": torch.eye(len(rotation)), "bias": torch.zeros(len(rotation))})
    turned = {name: rotation.T.to(value) @ value for name, value in head.state_dict().items()}
    head.load_state_dict(turned)
    model.head = head.to(next(model.encoder.parameters()).device)
