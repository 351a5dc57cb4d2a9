"""The siamese head: the same one or two layers for both languages.

Shapes: N sentences, D dims.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from torch import nn

from training.alignment.layers import Activation, Layer, Layers

Structure = Literal["linear", "tanh", "relu", "two-tanh"]
Start = Literal["identity", "random"]
STRUCTURES: tuple[Structure, ...] = get_args(Structure)
LAYERS: dict[Structure, tuple[Activation, ...]] = {  # what follows each linear layer
    "linear": ("identity",),
    "tanh": ("tanh",),
    "relu": ("relu",),
    "two-tanh": ("tanh", "tanh"),
}
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"identity": nn.Identity, "tanh": nn.Tanh, "relu": nn.ReLU}


class SiameseHead(nn.Sequential):
    """Eq. (1), Huang et al. 2023: one head through which the vectors of both languages go, (N, D) -> (N, D).

    Args:
        dim: D.
        structure: one layer, one with an activation, or two with tanh.
        bias: whether layers have one; the paper does not say.
        start: "identity" leaves vectors where they are; "random" is torch's own. The paper does not say.
        dropout: share of a layer's outputs that are zero in training, 0.2 in the paper; its place is ours.
    """

    def __init__(
        self,
        dim: int,
        structure: Structure = "linear",
        *,
        bias: bool = True,
        start: Start = "identity",
        dropout: float = 0.0,
    ) -> None:
        self.activations = LAYERS[structure]
        modules: list[nn.Module] = []
        for activation in self.activations:
            linear = nn.Linear(dim, dim, bias=bias)
            if start == "identity":
                nn.init.eye_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)
            modules += [linear, ACTIVATIONS[activation](), nn.Dropout(dropout)]
        super().__init__(*modules)

    def layers(self) -> Layers:
        """What is served: copies of the weights."""
        layers = []
        for linear, activation in zip(list(self)[::3], self.activations, strict=True):
            state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in linear.state_dict().items()}
            no_bias_D = np.zeros(len(state["weight"]), np.float32)
            layers.append(Layer(state["weight"], state.get("bias", no_bias_D), activation))
        return tuple(layers)
