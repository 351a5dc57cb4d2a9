"""Makes the heads that may be served, trained ones and closed forms, and chooses one.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

import numpy as np
from scipy.linalg import orthogonal_procrustes

from training.alignment.layers import Head, Layer, Layers, Means, Vectors, apply
from training.alignment.trainer import Epoch, Pairs, Progress, Settings, train_head
from training.evaluation.bitext import score_bitext
from training.models.labels import linear_fit

T = TypeVar("T")
Method = Literal["best", "siamese", "midpoint", "whitening"]
METHODS: tuple[Method, ...] = get_args(Method)
STRENGTHS = (1.0, 0.5, 0.25)  # of the siamese head: how far from the identity it is moved
PENALTIES = (1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0)  # of the midpoint ridge
SHRINKAGES = (0.01, 0.1, 0.3, 1.0, 2.0, 4.0)  # of the whitening


@dataclass(frozen=True)
class Candidate(Head):
    """A head that may be served.  dev_p1: P@1 x 100 of dev, both ways averaged."""

    name: str
    dev_p1: float


def make_candidates(
    train: Pairs, dev: Pairs, settings: Settings, method: Method, progress: Progress = lambda epoch: None
) -> tuple[list[Candidate], tuple[Epoch, ...]]:
    """Heads of a method, the best on dev first; of equals, the weaker. All take vectors at unit length.

    Returns: also the epochs of the siamese head, if the method has one.
    """
    heads: dict[str, Layers] = {}
    epochs: tuple[Epoch, ...] = ()
    if method in ("best", "siamese"):
        trained = train_head(train, dev, settings, progress)
        layers, epochs = trained.layers, trained.epochs
        strengths = STRENGTHS if settings.structure == "linear" else (1.0,)
        heads |= {f"siamese, strength {strength:g}": _weakened(layers, strength) for strength in strengths}
    if method in ("best", "midpoint"):
        heads |= {f"midpoint ridge {value:g}": (midpoint_ridge(*train.sides, penalty=value),) for value in PENALTIES}
    if method in ("best", "whitening"):
        heads |= {f"whitening {value:g}": (whitening(*train.sides, shrinkage=value),) for value in SHRINKAGES}
    candidates = [_candidate(name, layers, train, dev) for name, layers in heads.items()]
    candidates.sort(key=lambda candidate: candidate.dev_p1)  # of equals, the weaker comes later
    return candidates[::-1], epochs


def choose(candidates: Sequence[T], harmless: Callable[[T], bool]) -> T:
    """The first candidate that harms no language, else the first of all."""
    return next(filter(harmless, candidates), candidates[0])


def _candidate(name: str, layers: Layers, train: Pairs, dev: Pairs) -> Candidate:
    means = Means.joint(*(apply(layers, side) for side in train.sides))
    candidate = Candidate(layers, means.source_D, name, 0.0)
    return replace(candidate, dev_p1=score_bitext(candidate(dev.source_ND), candidate(dev.target_ND))["p1"])


def _weakened(layers: Layers, strength: float) -> Layers:
    """Part of the way from the identity to linear layers."""
    if strength == 1:
        return layers
    part = np.float32(strength)
    return tuple(
        replace(
            layer,
            weight_DD=part * layer.weight_DD + (1 - part) * np.eye(len(layer.weight_DD), dtype=np.float32),
            bias_D=part * layer.bias_D,
        )
        for layer in layers
    )


def procrustes(source_ND: Vectors, target_ND: Vectors) -> Layer:
    """The rotation of the source side that brings it nearest to the target side (Schönemann 1966).

    Only one side goes through it, so a model that does not know a text's language cannot serve it.
    """
    rotation_DD, _ = orthogonal_procrustes(source_ND.astype(np.float64), target_ND.astype(np.float64))
    return Layer(rotation_DD.T.astype(np.float32), np.zeros(len(rotation_DD), np.float32))


def midpoint_ridge(source_ND: Vectors, target_ND: Vectors, *, penalty: float) -> Layer:
    """The affine map that takes both sides to the middle of their pair, by ridge regression towards the identity.

    Both sides go through it, as through a siamese head: it can be served. A high penalty, and directions of which the
    pairs say little, leave vectors where they are.
    """
    half_ND = (target_ND - source_ND) / 2
    both = np.concatenate([source_ND, target_ND])
    weight_DD, bias_D = linear_fit(both, np.concatenate([half_ND, -half_ND]), ridge=penalty)
    return Layer(weight_DD + np.eye(len(weight_DD), dtype=np.float32), bias_D)


def whitening(source_ND: Vectors, target_ND: Vectors, *, shrinkage: float) -> Layer:
    """Shortens the directions in which translations differ (relevant component analysis, Bar-Hillel et al. 2003).

    Both sides go through (S + shrinkage I)^(-1/2), S the covariance of the differences, its mean variance 1. It can be
    served. With a high shrinkage vectors change in length only.
    """
    difference_ND = (source_ND - target_ND).astype(np.float64)
    covariance_DD = difference_ND.T @ difference_ND
    covariance_DD *= len(covariance_DD) / np.trace(covariance_DD)
    variance_D, axes_DD = np.linalg.eigh(covariance_DD + shrinkage * np.eye(len(covariance_DD)))
    weight_DD = (axes_DD * variance_D**-0.5) @ axes_DD.T
    return Layer(weight_DD.astype(np.float32), np.zeros(len(weight_DD), np.float32))
