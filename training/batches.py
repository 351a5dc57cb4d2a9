"""Cuts a sampling plan into batches of similar length. Pure: the same plan and seed give the same batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEGA_BATCH = 50  # batches sorted by length together: enough for little padding, few enough to keep the order random


def length_bucketed(
    plan: NDArray[np.int64], lengths: NDArray[np.int64], batch_size: int, *, seed: int
) -> list[NDArray[np.int64]]:
    """Batches of `plan`'s pairs, each of similar length, in random order.

    Args:
        plan: indices of pairs in the order of the sampling plan.
        lengths: tokens of each pair of the corpus.
    """
    generator = np.random.default_rng(seed)
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(plan), batch_size * MEGA_BATCH):
        mega = plan[start : start + batch_size * MEGA_BATCH]
        mega = mega[np.argsort(lengths[mega], kind="stable")]
        cut = [mega[i : i + batch_size] for i in range(0, len(mega), batch_size)]
        batches += (cut[i] for i in generator.permutation(len(cut)))
    return [batch for batch in batches if len(batch) > 1]  # a contrastive batch of one pair has no negatives
