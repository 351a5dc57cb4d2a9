"""Makes the heads that may be served, and chooses one of them. Knows vectors; knows no text and no file.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

import numpy as np

from training.alignment.closed_form import midpoint_ridge, whitening
from training.alignment.layers import Layer, Layers, Vectors, apply
from training.alignment.normalise import Means, unit_center_unit
from training.alignment.trainer import Pairs, Progress, Settings, train_head
from training.evaluation.bitext import score_bitext
from training.evaluation.vectors import unit_rows

T = TypeVar("T")
Method = Literal["best", "siamese", "midpoint", "whitening"]
METHODS: tuple[Method, ...] = get_args(Method)
STRENGTHS = (1.0, 0.5, 0.25)  # of the siamese head: how far from the identity it is moved
PENALTIES = (1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0)  # of the midpoint ridge
SHRINKAGES = (0.01, 0.1, 0.3, 1.0, 2.0, 4.0)  # of the whitening


@dataclass(frozen=True)
class Candidate:
    """A head with its mean, as it would be served.  dev_p1: P@1 x 100 of dev, both ways averaged."""

    name: str
    layers: Layers
    mean_D: Vectors
    dev_p1: float

    def __call__(self, vector_ND: Vectors) -> Vectors:
        """The model's vectors -> what is served, norm 1: (N, D)."""
        return unit_center_unit(self.mapped(vector_ND), self.mean_D)

    def mapped(self, vector_ND: Vectors) -> Vectors:
        """Through the layers alone: (N, D), not normalised."""
        return apply(self.layers, unit_rows(vector_ND))


def make_candidates(
    train: Pairs, dev: Pairs, settings: Settings, method: Method, progress: Progress = lambda epoch: None
) -> list[Candidate]:
    """Heads of a method, the best on dev first; of equals, the weaker. All take vectors at unit length."""
    found = []
    if method in ("best", "siamese"):
        trained = train_head(train, dev, settings, progress)
        strengths = STRENGTHS if settings.structure == "linear" else (1.0,)
        found += [
            _candidate(f"siamese, strength {strength:g}", _weakened(trained.layers, strength), train, dev)
            for strength in strengths
        ]
    sides = unit_rows(train.source_ND), unit_rows(train.target_ND)
    if method in ("best", "midpoint"):
        found += [
            _candidate(f"midpoint ridge {penalty:g}", (midpoint_ridge(*sides, penalty=penalty),), train, dev)
            for penalty in PENALTIES
        ]
    if method in ("best", "whitening"):
        found += [
            _candidate(f"whitening {shrinkage:g}", (whitening(*sides, shrinkage=shrinkage),), train, dev)
            for shrinkage in SHRINKAGES
        ]
    found.reverse()
    return sorted(found, key=lambda candidate: -candidate.dev_p1)


def choose(candidates: Sequence[T], harmless: Callable[[T], bool]) -> tuple[T, bool]:
    """The first candidate that harms no language, else the first of all; and whether it is harmless."""
    for candidate in candidates:
        if harmless(candidate):
            return candidate, True
    return candidates[0], False


def _candidate(name: str, layers: Layers, train: Pairs, dev: Pairs) -> Candidate:
    mapped = [apply(layers, unit_rows(side)) for side in (train.source_ND, train.target_ND)]
    candidate = Candidate(name, layers, Means.joint(*mapped).source_D, 0.0)
    return replace(candidate, dev_p1=score_bitext(candidate(dev.source_ND), candidate(dev.target_ND))["p1"])


def _weakened(layers: Iterable[Layer], strength: float) -> Layers:
    """Part of the way from the identity to linear layers."""
    if strength == 1:
        return tuple(layers)
    part = np.float32(strength)
    return tuple(
        replace(
            layer,
            weight_DD=part * layer.weight_DD + (1 - part) * np.eye(len(layer.weight_DD), dtype=np.float32),
            bias_D=part * layer.bias_D,
        )
        for layer in layers
    )
