"""How a stage trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reduction = Literal["sum", "mean"]  # of a squared error over the dimensions of an embedding
ObjectiveName = Literal[
    "soft",  # Eq. (5)
    "bool",  # Eq. (8) of the authors' code: the diagonal is positive
    "bool_equal",  # Eq. (8) as printed: equal sentences are positive
    "ce",  # Eq. (9), mean over anchors
    "ce_sum",  # Eq. (9) as printed: sum over anchors; dwarfs Eq. (6)
    "ce_hard",  # Eq. (9) of the authors' code: the diagonal as labels; their mcl_weight is 0.01
    "none",  # Eq. (6) alone
]
BLOCK_SIZE = 32  # word-table weights that share a scale and a zero point (`round_words`, `export.quantization.tables`)


@dataclass(frozen=True)
class StageConfig:
    """One training stage. Set either `pairs` or `epochs`: its length."""

    pairs: int | None = None  # pairs to train on, repeats included
    epochs: float | None = None  # passes over its sources
    sources: list[str] | None = None  # the corpora it draws from; None: all
    language_exponent: float | None = None  # None: `CorpusConfig.language_exponent`; below 0 favours thin languages
    seed: int | None = None  # of its draw of pairs and their order; None: the run's
    batch_size: int = 64  # pairs a batch, over all processes
    accumulation: int = 1  # batches an optimiser step; a contrastive loss compares within a batch
    learning_rate: float = 1e-4  # the peak
    embedding_learning_rate: float | None = None  # the peak for word embeddings; None: `learning_rate`
    warmup: float = 0.1  # share of the pairs that rates rise over; then linear decay to zero
    cycles: int | None = None  # warm restarts: how many times rates rise and fall; None: once
    # average the weights at the last N cycle ends; N = cycles + 1 includes the initial weights; None: off
    average_cycles: int | None = None
    weight_decay: float = 0.0  # of AdamW
    betas: list[float] | None = None  # decay of Adam's two moments; None: 0.9 and 0.98
    dropout: bool | None = None  # train with the base's dropout; None: off
    bucketed: bool | None = None  # batch pairs of similar length; false: in drawn order; None: true
    reduction: Reduction | None = None  # of the squared errors of Eqs. (2), (3), (4) and (6) over D; None: sum
    max_length: int = 64  # tokens a text while training; at most the student's
    sparse_embeddings: bool | None = None  # update only rows that a batch uses; None: in tables over 16.8M weights
    bf16: bool = True  # where the hardware supports it; false: train in float32 (labels and scores stay bf16)
    compile: bool = False  # torch.compile the layers: 1.2 times as fast on a CPU, half a minute to start
    source_share: float | None = None  # share of a batch's English sides to train on; not in stage 2; None: all
    round_words: bool | None = None  # train with word embeddings rounded as in a 4-bit export; None: not rounded
    validate_pairs: int | None = None  # a dev score every N pairs and at the end; None: no dev score
    patience: int | None = None  # stop after N dev scores without a better one, with the best model; None: never

    @property
    def squared_errors(self) -> Reduction:
        """How squared errors are reduced over D."""
        return self.reduction or "sum"


@dataclass(frozen=True)
class BottleneckConfig(StageConfig):
    """Stage 2."""

    pooled: bool | None = None  # Eq. (3) on sentence means of the embedding outputs; None: token by token


@dataclass(frozen=True)
class StudentStageConfig(StageConfig):
    """Stage 3."""

    token_weight: float | None = None  # weight of the distance between all token embeddings, added to Eq. (4); None: 0


@dataclass(frozen=True)
class ContrastiveConfig(StageConfig):
    """Stage 4."""

    objective: ObjectiveName = "soft"  # the contrastive loss
    # weight of the contrastive loss against Eq. (6), which is D times larger with `reduction: sum`; Eq. (7) has 1
    mcl_weight: float = 1.0
    temperature: float = 0.05  # tau of Eq. (9)
