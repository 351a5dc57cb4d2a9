"""Vectors of a made-up language pair: one side is the other, shifted, stretched and with noise in few directions.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

import numpy as np

from training.alignment.layers import Vectors
from training.alignment.trainer import Pairs


def made_pairs(count: int, *, dim: int = 16, seed: int = 0, length: float = 1.0) -> tuple[Vectors, Vectors]:
    """Pairs that differ mostly in a third of the dims: what a linear head can shrink."""
    meaning = np.random.default_rng(seed)
    source_ND = meaning.standard_normal((count, dim))
    noise_ND = meaning.standard_normal((count, dim)) * np.where(np.arange(dim) < dim // 3, 3.0, 0.3)
    return (source_ND * length).astype(np.float32), ((source_ND + noise_ND) * length).astype(np.float32)


def made_split(*, length: float = 1.0) -> tuple[Pairs, Pairs]:
    """400 pairs to train on and 100 of dev."""
    sides, texts = made_pairs(500, length=length), [(str(row), str(row)) for row in range(500)]
    train, dev = slice(400), slice(400, 500)
    return tuple(Pairs.of(*(side[part] for side in sides), texts[part]) for part in (train, dev))
