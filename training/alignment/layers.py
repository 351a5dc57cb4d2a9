"""A head as it is served: matrices and what follows them. Knows numpy alone: a graph is edited without torch.

Shapes: N sentences, D dims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Activation = Literal["identity", "tanh", "relu"]


@dataclass(frozen=True)
class Layer:
    """One layer as it is served.  weight_DD: rows are outputs, as in torch.  bias_D: zeros where there is none."""

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
