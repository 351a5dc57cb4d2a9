"""Averages a model's weights over the ends of its last learning-rate cycles.

Stochastic weight averaging (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization").
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class WeightAverage:
    """A running mean of weights in float32, on the model's device; it takes as much memory as the model."""

    def __init__(self) -> None:
        self._mean: dict[str, torch.Tensor] = {}
        self._count = 0

    @torch.no_grad()
    def add(self, model: nn.Module) -> None:
        """Add these weights to the mean; all additions weigh alike."""
        self._count += 1
        for name, weights in model.state_dict().items():
            mean = self._mean.setdefault(name, torch.zeros_like(weights, dtype=torch.float32))
            mean.lerp_(weights.float(), 1 / self._count)

    @torch.no_grad()
    def load_into(self, model: nn.Module) -> None:
        """Copy the mean into the model; without additions, leave it unchanged."""
        for name, weights in model.state_dict().items():
            if name in self._mean:
                weights.copy_(self._mean[name])

    def state_dict(self) -> dict[str, Any]:
        """The state that a resumed stage needs."""
        return {"mean": self._mean, "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore from `state_dict`."""
        self._mean, self._count = state["mean"], state["count"]
