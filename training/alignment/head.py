"""The siamese head: the same one or two layers for both languages. Knows vectors; knows no text and no training.

Shapes: N sentences, D dims.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

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
DROPOUT = 0.2


class SiameseHead(nn.Module):
    """Eq. (1), Huang et al. 2023: one head through which the vectors of both languages go.

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
        dropout: float = DROPOUT,
    ) -> None:
        super().__init__()
        self.activations = LAYERS[structure]
        linears = [nn.Linear(dim, dim, bias=bias) for _ in self.activations]
        self.linears = nn.ModuleList(linears)
        self.functions = nn.ModuleList(ACTIVATIONS[name]() for name in self.activations)
        self.dropout = nn.Dropout(dropout)
        if start == "identity":
            for linear in linears:
                nn.init.eye_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)

    def forward(self, vector_BD: Tensor) -> Tensor:
        """(B, D) -> (B, D)."""
        for linear, function in zip(self.linears, self.functions, strict=True):
            vector_BD = self.dropout(function(linear(vector_BD)))
        return vector_BD

    def layers(self) -> Layers:
        """What is served: copies of the weights."""
        linears = (cast("nn.Linear", linear) for linear in self.linears)
        return tuple(_served(linear, activation) for linear, activation in zip(linears, self.activations, strict=True))


def _served(linear: nn.Linear, activation: Activation) -> Layer:
    state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in linear.state_dict().items()}
    return Layer(state["weight"], state.get("bias", np.zeros(linear.out_features, np.float32)), activation)


def copy_of(head: SiameseHead) -> dict[str, Tensor]:
    """The weights as they are now."""
    return {name: tensor.detach().clone() for name, tensor in head.state_dict().items()}


def seeded_head(dim: int, structure: Structure, *, bias: bool, start: Start, dropout: float, seed: int) -> SiameseHead:
    """A head whose random start is of this seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SiameseHead(dim, structure, bias=bias, start=start, dropout=dropout)
