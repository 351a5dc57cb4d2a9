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
BLOCK_SIZE = (
    32  # numbers of a row that `round_words` gives a scale and a zero point, as `export.quantization.tables` has them
)


@dataclass(frozen=True)
class StageConfig:
    """One training stage. How long: `pairs`, or `epochs` over its sources; one of the two."""

    pairs: int | None = None  # drawn from the mix, repeats counted
    epochs: float | None = None  # as many pairs as this many times its sources hold
    sources: list[str] | None = None  # None: all of the corpus
    language_exponent: float | None = None  # None: `CorpusConfig.language_exponent`; below 0 favours thin languages
    seed: int | None = None  # of which pairs it draws, and their order; None: the run's
    batch_size: int = 64  # pairs, of all processes together
    accumulation: int = 1  # batches whose gradients make one step; a contrastive loss compares within each
    learning_rate: float = 1e-4  # at its highest
    embedding_learning_rate: float | None = None  # of the word embeddings; None: `learning_rate`
    warmup: float = 0.1  # of the pairs; then linear decay to zero
    cycles: int | None = None  # warm restarts: how often rates rise and fall so, each over its part; None: once
    average_cycles: int | None = (
        None  # the model is the mean of its weights at the ends of so many last cycles; one more: and at the start
    )
    weight_decay: float = 0.0  # of AdamW
    betas: list[float] | None = None  # of Adam's two moments; None: 0.9 and 0.98
    dropout: bool | None = None  # while training, as the base's configuration has it; None: off
    bucketed: bool | None = None  # batches of pairs of similar length; false: as they are drawn; None: true
    reduction: Reduction | None = None  # of the squared errors of Eqs. (2), (3), (4) and (6) over D; None: sum
    max_length: int = 64  # tokens while training; at most the student's
    sparse_embeddings: bool | None = None  # only the rows that a batch uses move; None: in tables over 16.8M numbers
    bf16: bool = True  # where the hardware multiplies it; false: the stage's steps in float32 (labels, scores: bf16)
    compile: bool = False  # the layers by torch.compile: 1.2 times as fast on a CPU, half a minute to start
    source_share: float | None = None  # all but stage 2: of a batch's English sides that are taught; None: all
    round_words: bool | None = None  # word embeddings as export's 4 bits hold them, while training; None: as they are
    validate_pairs: int | None = None  # a dev score every so many pairs, and at the end; None: no dev score
    patience: int | None = None  # dev scores without a better one before the stage ends, with its best model

    @property
    def squared_errors(self) -> Reduction:
        """How squared errors are reduced over D."""
        return self.reduction or "sum"


@dataclass(frozen=True)
class BottleneckConfig(StageConfig):
    """Stage 2."""

    pooled: bool | None = None  # Eq. (3) of the embedding outputs' mean over a sentence; None: token by token


@dataclass(frozen=True)
class StudentStageConfig(StageConfig):
    """Stage 3."""

    token_weight: float | None = None  # of the distance of every token's embedding beside Eq. (4); None: none


@dataclass(frozen=True)
class ContrastiveConfig(StageConfig):
    """Stage 4."""

    objective: ObjectiveName = "soft"  # which contrastive loss, by its equation
    # of the contrastive loss beside Eq. (6), which weighs D times more where `reduction` is the sum; Eq. (7) has 1
    mcl_weight: float = 1.0
    temperature: float = 0.05  # tau of Eq. (9)
