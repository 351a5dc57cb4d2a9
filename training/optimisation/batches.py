"""Cuts a sampling plan into batches of similar length, round by round. Deterministic for a plan and a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MEGA_BATCH = 50  # batches sorted by length together: enough to limit padding, few enough to keep the order random

Indices = NDArray[np.int64]


class Plan(Protocol):
    """The training order: rounds of pair indices, each computable without the earlier ones."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""

    def __len__(self) -> int:
        """The number of pairs in all rounds."""

    def round(self, index: int) -> Indices:
        """The pairs of one round, in order."""


@dataclass(frozen=True)
class Position:
    """A position in a stream: the next batch to yield."""

    round: int = 0
    batch: int = 0


@dataclass(frozen=True)
class BatchStream:
    """The batches of a plan, in memory one round at a time.

    Args:
        pair_lengths: tokens of the longer side of each given pair.
        batch_size: pairs in a batch.
        epoch_pairs: pairs of the corpus that the plan draws from, i.e. the length of an epoch.
        bucketed: true: batches of similar length; false: pairs in the plan's order.
    """

    plan: Plan
    pair_lengths: Callable[[Indices], NDArray[np.int64]]
    batch_size: int
    seed: int
    epoch_pairs: int
    bucketed: bool = True

    def __len__(self) -> int:
        """The number of pairs; the number of batches is known only after the last one is cut."""
        return len(self.plan)

    def starting_at(self, position: Position) -> Iterator[tuple[Indices, Position]]:
        """Yield batches from a position on, each with the position after it."""
        for index in range(position.round, self.plan.rounds):
            batches = self.round(index)
            first = position.batch if index == position.round else 0
            for number in range(first, len(batches)):
                is_last = number + 1 == len(batches)
                yield batches[number], Position(index + 1) if is_last else Position(index, number + 1)

    def round(self, index: int) -> list[Indices]:
        """The batches of one round."""
        pairs = self.plan.round(index)
        lengths = self.pair_lengths(pairs) if self.bucketed else np.ones_like(pairs)
        return length_bucketed(pairs, lengths, self.batch_size, seed=(self.seed, index))


def length_bucketed(
    pairs: Indices, lengths: NDArray[np.int64], batch_size: int, *, seed: int | tuple[int, ...]
) -> list[Indices]:
    """Cut batches of pairs of similar length, in random order.

    A single leftover pair joins the batch before: alone it would have no negatives.

    Args:
        lengths: tokens of the longer side of each pair.
    """
    if not len(pairs):
        return []
    generator = np.random.default_rng(seed)
    megas = max(1, round(len(pairs) / (MEGA_BATCH * batch_size)))
    together = -(-len(pairs) // (megas * batch_size)) * batch_size  # no batch of a plan is cut in two
    batches: list[Indices] = []
    for start in range(0, len(pairs), together):
        order = start + np.argsort(lengths[start : start + together], kind="stable")
        bounds = list(range(batch_size, len(order), batch_size))
        if bounds and bounds[-1] == len(order) - 1:
            del bounds[-1]
        cut = np.split(pairs[order], bounds)
        batches += (cut[number] for number in generator.permutation(len(cut)))
    return batches


@dataclass(frozen=True)
class FixedPlan:
    """A plan of one given round."""

    pairs: Indices
    rounds: int = 1

    def __len__(self) -> int:
        return len(self.pairs)

    def round(self, index: int) -> Indices:
        """All pairs."""
        return self.pairs
