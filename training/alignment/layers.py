"""Layers of a head, unit length and centring, in numpy: the exporter applies them without torch.

Shapes: N sentences, D dims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.evaluation.vectors import unit_rows

Vectors = NDArray[np.float32]
Sides = tuple[Vectors, Vectors]  # of both languages; row i of one translates row i of the other
Activation = Literal["identity", "tanh", "relu"]


@dataclass(frozen=True)
class Layer:
    """One layer as it is served.  weight_DD: rows are outputs, as in torch.  bias_D: zeros if there is none."""

    weight_DD: Vectors
    bias_D: Vectors
    activation: Activation = "identity"

    def __call__(self, vector_ND: Vectors) -> Vectors:
        """(N, D) -> (N, D)."""
        linear_ND: Vectors = vector_ND @ self.weight_DD.T + self.bias_D
        if self.activation == "identity":
            return linear_ND
        active_ND: Vectors = np.tanh(linear_ND) if self.activation == "tanh" else np.maximum(linear_ND, 0)
        return active_ND


Layers = tuple[Layer, ...]


def apply(layers: Layers, vector_ND: Vectors) -> Vectors:
    """A head's layers, one after the other: (N, D) -> (N, D)."""
    for layer in layers:
        vector_ND = layer(vector_ND)
    return vector_ND


@dataclass(frozen=True)
class Head:
    """What goes after a model's vectors.  mean_D: subtracted between two normalisations; the same for every text."""

    layers: Layers
    mean_D: Vectors

    def __call__(self, vector_ND: Vectors) -> Vectors:
        """The model's vectors -> what is served, norm 1: (N, D)."""
        return unit_center_unit(self.mapped(vector_ND), self.mean_D)

    def mapped(self, vector_ND: Vectors) -> Vectors:
        """Through the layers alone: (N, D), not normalised."""
        return apply(self.layers, unit_rows(vector_ND))

    @property
    def parameters(self) -> int:
        """How many numbers the head has."""
        return self.mean_D.size + sum(layer.weight_DD.size + layer.bias_D.size for layer in self.layers)


@dataclass(frozen=True)
class Means:
    """The mean that is subtracted from each side.

    The paper centres each language by its own mean. A served model does not know a text's language: it has one mean.
    """

    source_D: Vectors
    target_D: Vectors

    @classmethod
    def by_language(cls, source_ND: Vectors, target_ND: Vectors) -> Means:
        """The mean of each side's unit vectors."""
        return cls(unit_rows(source_ND).mean(axis=0), unit_rows(target_ND).mean(axis=0))

    @classmethod
    def joint(cls, source_ND: Vectors, target_ND: Vectors) -> Means:
        """The mean of both sides' unit vectors; both sides weigh the same."""
        own = cls.by_language(source_ND, target_ND)
        mean_D = (own.source_D + own.target_D) / np.float32(2)
        return cls(mean_D, mean_D)

    def __call__(self, source_ND: Vectors, target_ND: Vectors) -> Sides:
        """Both sides by unit-center-unit."""
        return unit_center_unit(source_ND, self.source_D), unit_center_unit(target_ND, self.target_D)


def unit_center_unit(vector_ND: Vectors, mean_D: Vectors) -> Vectors:
    """["unit", "center", "unit"], Huang et al. 2023, section 3.3: (N, D) -> (N, D), each row at unit length."""
    return unit_rows(unit_rows(vector_ND) - mean_D)
