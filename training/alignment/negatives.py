"""Chooses a sentence that is no translation for each pair of a batch. Knows distances; knows no text.

The negatives are the batch's own targets, one for each pair, so that there are as many as positives. The paper names
three strategies and defines none; these are the readings:

    random     any other target of the batch
    farthest   "worst" as its section 4.5.10 argues: the least similar, since similar negatives are said to harm
    hardest    "worst" as the highest loss: the most similar
    average    the target whose distance is nearest to the mean distance of the batch

Shapes: B pairs.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Negatives = Literal["random", "farthest", "hardest", "average", "none"]  # none: positives only
STRATEGIES: tuple[Negatives, ...] = get_args(Negatives)


def choose_negatives(
    distance_BB: Tensor, same_BB: Tensor, strategy: Negatives, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A negative for each pair that has one.

    Args:    distance_BB: of source i to target j.  same_BB: whether target j translates source i; the diagonal does.
             generator: of the random ones.
    Returns: the rows of the sources and of their targets, (P,) int64 both: P pairs have a target that is none of
             theirs.
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
