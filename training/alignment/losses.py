"""The contrastive loss of Huang et al. 2023, its distances, and its negatives. Pure: tensors in, tensors out.

The negatives are the batch's own targets, one for each pair, so that there are as many as positives. The paper names
three strategies and defines none. We read them so:

    random     any other target of the batch
    farthest   "worst" as its section 4.5.10 argues: the least similar, since similar negatives are said to harm
    hardest    "worst" as the highest loss: the most similar
    average    the target whose distance is nearest to the mean distance of the batch

Shapes: B pairs, D dims of a sentence vector.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

Distance = Literal["euclidean", "manhattan", "cosine"]
DISTANCES: tuple[Distance, ...] = get_args(Distance)
TINY = 1e-12  # under a root: its slope at zero is not finite
Negatives = Literal["random", "farthest", "hardest", "average", "none"]  # none: positives only
STRATEGIES: tuple[Negatives, ...] = get_args(Negatives)


def paired_distances(left_BD: Tensor, right_BD: Tensor, distance: Distance) -> Tensor:
    """The distance of each pair, (B,). Euclidean: Eq. (3), Huang et al. 2023. Manhattan: up to sqrt(D) times that."""
    if distance == "cosine":
        return 1 - F.cosine_similarity(left_BD, right_BD, dim=-1)
    difference_BD = left_BD - right_BD
    if distance == "manhattan":
        return difference_BD.abs().sum(dim=-1)
    return difference_BD.square().sum(dim=-1).clamp_min(TINY).sqrt()


def all_distances(left_BD: Tensor, right_BD: Tensor, distance: Distance) -> Tensor:
    """The distances between all of one side and all of the other: (B, B)."""
    if distance == "cosine":
        return 1 - F.normalize(left_BD, dim=-1) @ F.normalize(right_BD, dim=-1).T
    return torch.cdist(left_BD, right_BD, p=1 if distance == "manhattan" else 2)


def pair_loss(left_BD: Tensor, right_BD: Tensor, unlike_B: Tensor, *, distance: Distance, margin: float) -> Tensor:
    """Eq. (2), Huang et al. 2023: `1/2 (1 - l) D^2 + 1/2 l max(0, m - D)^2`, the mean over pairs.

    Unlike pairs further apart than the margin cost nothing and pull nothing. Differs: mean, not sum, over pairs.

    Args:    unlike_B: the paper's l, 0 for a parallel pair and 1 for any other.
             margin: the paper's m, in the units of the distance. The paper's 1.0 is for the Euclidean one; it prints
             none for the others.
    Returns: a scalar.
    """
    distance_B = paired_distances(left_BD, right_BD, distance)
    unlike_B = unlike_B.to(distance_B.dtype)
    parallel_B = (1 - unlike_B) * distance_B.square()
    others_B = unlike_B * (margin - distance_B).clamp_min(0).square()
    return 0.5 * (parallel_B + others_B).mean()


def choose_negatives(
    distance_BB: Tensor, same_BB: Tensor, strategy: Negatives, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Choose a negative for each pair that has one.

    Args:    distance_BB: of source i to target j.  same_BB: see `same_pairs`.  generator: for random negatives.
    Returns: the rows of the sources and of their targets, both (P,) int64: P pairs have a possible negative.
    """
    possible_BB = ~same_BB
    if strategy == "none":
        possible_BB = torch.zeros_like(possible_BB)
    if strategy == "random":
        score_BB = torch.rand(distance_BB.shape, generator=generator).to(distance_BB.device)
    elif strategy == "average":
        mean = distance_BB[possible_BB].mean()
        score_BB = -(distance_BB - mean).abs()
    else:
        score_BB = distance_BB if strategy == "farthest" else -distance_BB
    best_B = score_BB.masked_fill(~possible_BB, -torch.inf).argmax(dim=1)
    source_P = possible_BB.any(dim=1).nonzero().squeeze(1)
    return source_P, best_B[source_P]


def same_pairs(source_B: Tensor, target_B: Tensor) -> Tensor:
    """Whether target j translates source i: a pair of the batch has sentences equal to both, (B, B) bool.

    Args: source_B, target_B: a number for each distinct sentence.
    """
    sources_BB, targets_BB = ((side[:, None] == side[None, :]).float() for side in (source_B, target_B))
    return sources_BB @ targets_BB > 0
