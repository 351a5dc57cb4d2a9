"""How a stage trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class StageConfig:
    """One training stage. How long: `pairs`, or `epochs` over its sources; one of the two."""

    pairs: int | None = None  # drawn from the mix, repeats counted
    epochs: float | None = None  # as many pairs as this many times its sources hold
    sources: list[str] | None = None  # None: all of the corpus
    language_exponent: float | None = None  # None: `CorpusConfig.language_exponent`; below 0 favours thin languages
    seed: int | None = None  # of which pairs it draws, and their order; None: the run's
    batch_size: int = 64  # pairs
    learning_rate: float = 1e-4
    embedding_learning_rate: float | None = None  # of the word embeddings; None: `learning_rate`
    warmup: float = 0.1  # of the pairs; then linear decay to zero
    weight_decay: float = 0.0
    max_length: int = 64  # tokens while training


@dataclass(frozen=True)
class ContrastiveConfig(StageConfig):
    """Stage 4."""

    objective: Literal["soft", "bool", "ce", "none"] = "soft"  # Eq. (5), Eq. (8), Eq. (9), Eq. (7) alone
    mcl_weight: float = 1.0  # of the contrastive loss beside Eq. (7); the paper's sum has 1
    temperature: float = 0.05  # tau of Eq. (9)
