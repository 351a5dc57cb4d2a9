"""Trains a head on pairs of fixed vectors.

Shapes: N pairs to train on, V pairs of dev, B pairs of a batch, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.alignment.head import SiameseHead, Start, Structure
from training.alignment.layers import Layers, Means, Sides, Vectors, apply
from training.alignment.losses import Distance, Negatives, all_distances, choose_negatives, pair_loss, same_pairs
from training.errors import DivergedError
from training.evaluation.bitext import score_bitext
from training.evaluation.vectors import unit_rows

Inputs = Literal["unit", "raw", "scaled"]


@dataclass(frozen=True)
class Settings:
    """How a head is trained. The defaults are ours; `PAPER` has what Huang et al. 2023 print.

    The paper's rate moves a weight by some 0.02 in all, too little for a model that is off by more; its dropout drowns
    the distance of a pair of unit vectors in noise.

    margin: in the units of the distance.
    inputs: what the head gets. "unit": vectors at unit length, whose distances are at most 2. "raw": as the model gives
        them, where margin 1.0 may be out of reach. "scaled": all divided by one number, so that unlike pairs are 1
        apart on average.
    """

    structure: Structure = "linear"
    bias: bool = True
    start: Start = "identity"
    dropout: float = 0.0
    distance: Distance = "euclidean"
    margin: float = 1.0
    inputs: Inputs = "unit"
    negatives: Negatives = "hardest"
    learning_rate: float = 1e-3
    batch: int = 64
    epochs: int = 30
    seed: int = 0


# 32 pairs and as many negatives are a batch of 64: 63 batches of 2,016 pairs, 4,410 steps.
PAPER = Settings(dropout=0.2, learning_rate=5e-6, epochs=70, batch=32)


@dataclass(frozen=True)
class Pairs:
    """Vectors of pairs and which sentences are the same.  source_N, target_N: a number for each distinct sentence."""

    source_ND: Vectors
    target_ND: Vectors
    source_N: NDArray[np.int64]
    target_N: NDArray[np.int64]

    @classmethod
    def of(cls, source_ND: Vectors, target_ND: Vectors, texts: Sequence[tuple[str, str]]) -> Pairs:
        """texts: of each pair."""
        return cls(source_ND, target_ND, *(_numbered([pair[side] for pair in texts]) for side in (0, 1)))

    def __len__(self) -> int:
        return len(self.source_ND)

    @property
    def sides(self) -> Sides:
        """Unit vectors of both sides."""
        return unit_rows(self.source_ND), unit_rows(self.target_ND)

    def first(self, count: int) -> Pairs:
        """The first pairs."""
        return Pairs(*(column[:count] for column in vars(self).values()))

    def scaled(self, factor: float) -> Pairs:
        """All vectors times a number."""
        by = np.float32(factor)
        return replace(self, source_ND=self.source_ND * by, target_ND=self.target_ND * by)


@dataclass(frozen=True)
class Epoch:
    """One pass over the pairs.  loss: mean of its batches, None before the first.  p1: of dev, both ways, x 100."""

    number: int
    loss: float | None
    p1: float


@dataclass(frozen=True)
class TrainedHead:
    """The head of the epoch that was best on dev, and all epochs; epoch 0 is before training."""

    layers: Layers  # for the model's own vectors; at unit length if unit_inputs
    unit_inputs: bool
    best: Epoch
    epochs: tuple[Epoch, ...]

    def __call__(self, vector_ND: Vectors) -> Vectors:
        """The model's own vectors through the head: (N, D), not normalised."""
        return apply(self.layers, unit_rows(vector_ND) if self.unit_inputs else vector_ND)


Progress = Callable[[Epoch], None]


def train_head(train: Pairs, dev: Pairs, settings: Settings, progress: Progress = lambda epoch: None) -> TrainedHead:
    """Train on `train`, keep the epoch with the highest P@1 on `dev`; of equals, the earlier.

    Dev is scored as the served model would be: head, unit length, less one joint mean of `train`, unit length.

    Raises: DivergedError: the loss is not a finite number.
    """
    train, dev, scale = prepare(train, dev, settings.inputs)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        head = SiameseHead(
            train.source_ND.shape[1],
            settings.structure,
            bias=settings.bias,
            start=settings.start,
            dropout=settings.dropout,
        )
    optimizer = torch.optim.Adam(head.parameters(), lr=settings.learning_rate)
    generator = torch.Generator().manual_seed(settings.seed)
    epochs = [Epoch(0, None, dev_score(head.layers(), train, dev))]
    best, best_weights = epochs[0], deepcopy(head.state_dict())
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)  # for the dropout
        for number in range(1, settings.epochs + 1):
            loss = _train_epoch(head, optimizer, train, settings, generator)
            epoch = Epoch(number, loss, dev_score(head.layers(), train, dev))
            epochs.append(epoch)
            progress(epoch)
            if epoch.p1 > best.p1:
                best, best_weights = epoch, deepcopy(head.state_dict())
    head.load_state_dict(best_weights)
    first, *others = head.layers()
    first = replace(first, weight_DD=first.weight_DD * np.float32(scale))  # takes unscaled vectors
    return TrainedHead((first, *others), settings.inputs == "unit", best, tuple(epochs))


def dev_score(layers: Layers, train: Pairs, dev: Pairs) -> float:
    """P@1 x 100, both ways averaged, of mapped vectors less one joint mean."""
    means = Means.joint(apply(layers, train.source_ND), apply(layers, train.target_ND))
    return score_bitext(*means(apply(layers, dev.source_ND), apply(layers, dev.target_ND)))["p1"]


def batch_loss(head: SiameseHead, batch: tuple[Tensor, ...], settings: Settings, generator: torch.Generator) -> Tensor:
    """The loss of a batch's positives and negatives: a scalar.

    Args: batch: source and target vectors, (B, D), and the numbers of their sentences, (B,).
    """
    source_BD, target_BD, source_B, target_B = batch
    mapped_source_BD, mapped_target_BD = head(source_BD), head(target_BD)
    with torch.no_grad():
        distance_BB = all_distances(mapped_source_BD, mapped_target_BD, settings.distance)
        same_BB = same_pairs(source_B, target_B)
        source_P, target_P = choose_negatives(distance_BB, same_BB, settings.negatives, generator)
    left = torch.cat([mapped_source_BD, mapped_source_BD[source_P]])
    right = torch.cat([mapped_target_BD, mapped_target_BD[target_P]])
    unlike = torch.cat([torch.zeros(len(source_BD)), torch.ones(len(source_P))])
    return pair_loss(left, right, unlike, distance=settings.distance, margin=settings.margin)


def _train_epoch(
    head: SiameseHead, optimizer: torch.optim.Adam, train: Pairs, settings: Settings, generator: torch.Generator
) -> float:
    """One pass in a new order: the mean loss of its batches."""
    head.train()
    order = torch.randperm(len(train), generator=generator)
    columns = [torch.from_numpy(column) for column in vars(train).values()]
    losses = []
    for rows in torch.split(order, settings.batch):
        loss = batch_loss(head, tuple(column[rows] for column in columns), settings, generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    head.eval()
    mean = float(np.mean(losses))
    if not np.isfinite(mean):
        raise DivergedError(f"the loss is {mean}: the learning rate {settings.learning_rate} is too high")
    return mean


def prepare(train: Pairs, dev: Pairs, inputs: Inputs) -> tuple[Pairs, Pairs, float]:
    """Both as the head gets them, and the number that vectors were multiplied by."""
    if inputs == "raw":
        return train, dev, 1.0
    if inputs == "unit":
        return _at_unit_length(train), _at_unit_length(dev), 1.0
    shifted = np.roll(train.target_ND, 1, axis=0)  # unlike pairs
    scale = float(1 / np.linalg.norm(train.source_ND - shifted, axis=1).mean())
    return train.scaled(scale), dev.scaled(scale), scale


def _at_unit_length(pairs: Pairs) -> Pairs:
    source_ND, target_ND = pairs.sides
    return replace(pairs, source_ND=source_ND, target_ND=target_ND)


def _numbered(texts: Sequence[str]) -> NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
