"""Turns gradients into steps: parameter groups, rates, clipping, AdamW for sparse gradients, averages of weights.

Shapes: V vocabulary, E width of the word table, R rows touched by a batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from training.config.run import LoopConfig

logger = logging.getLogger(__name__)
EPSILON = 1e-8
MAX_GRADIENT_NORM = 1.0
SPARSE_FROM = 2**24  # parameters of a word table; below, dense steps cost little (docs/results/training.md)


class LazyAdamW(torch.optim.Optimizer):
    """AdamW for sparse gradients: updates weights, moments and decay of touched rows only.

    An untouched row keeps its moments, as in torch's SparseAdam, which lacks weight decay. Differs from AdamW, where
    momentum moves untouched rows, too.
    """

    def __init__(
        self, params: Any, *, lr: float = 1e-3, weight_decay: float = 0.0, betas: tuple[float, float] = (0.9, 0.98)
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.betas = betas

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the rows that have gradients."""
        for group in self.param_groups:
            for table_VE in group["params"]:
                if table_VE.grad is not None:
                    self._step(table_VE, lr=group["lr"], weight_decay=group["weight_decay"])

    def _step(self, table_VE: Tensor, *, lr: float, weight_decay: float) -> None:
        state = self.state[table_VE]
        if not state:
            state["step"] = torch.zeros(())
            state["first_VE"], state["second_VE"] = torch.zeros_like(table_VE), torch.zeros_like(table_VE)
        state["step"] += 1
        gradient = table_VE.grad.coalesce()  # type: ignore[union-attr]
        rows_R, gradient_RE = gradient.indices()[0], gradient.values()
        first, second = self.betas
        first_RE = state["first_VE"][rows_R].lerp_(gradient_RE, 1 - first)
        second_RE = state["second_VE"][rows_R].mul_(second).addcmul_(gradient_RE, gradient_RE, value=1 - second)
        state["first_VE"][rows_R], state["second_VE"][rows_R] = first_RE, second_RE
        step = int(state["step"])
        spread_RE = (second_RE / (1 - second**step)).sqrt_().add_(EPSILON)
        weights_RE = table_VE[rows_R].mul_(1 - lr * weight_decay)
        table_VE[rows_R] = weights_RE.addcdiv_(first_RE, spread_RE, value=-lr / (1 - first**step))


class Stepper:
    """The optimisers of a stage behind one interface."""

    def __init__(self, model: nn.Module, config: LoopConfig) -> None:
        tables = use_sparse_gradients(model, config.sparse_embeddings)
        rest = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.parameters = rest
        words = {parameter for name, parameter in model.named_parameters() if "word_embeddings" in name}
        own_rate = config.embedding_learning_rate
        word_rate = config.learning_rate if own_rate is None else own_rate
        body = [p for p in rest if p not in words]
        is_spared = config.weight_decay > 0 and not config.decay_biases
        spared = {p for p in body if is_spared and p.ndim < 2}  # biases and LayerNorm
        groups: list[dict[str, Any]] = [
            {"params": [p for p in rest if p in words and p not in tables], "lr": word_rate},
            {"params": [p for p in body if p not in spared], "lr": config.learning_rate},
            {"params": [p for p in body if p in spared], "lr": config.learning_rate, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        first, second = config.betas
        shared: dict[str, Any] = {"betas": (first, second), "weight_decay": config.weight_decay}
        self.optimizers: list[torch.optim.Optimizer] = []
        if groups:
            self.optimizers.append(torch.optim.AdamW(groups, eps=EPSILON, fused=True, **shared))
        if tables:
            self.optimizers.append(LazyAdamW(list(tables), lr=word_rate, **shared))
        self._peaks = [group["lr"] for group in self._groups()]

    def step(self, factor: float) -> None:
        """Update the weights at `factor` times the peak learning rates, then clear the gradients."""
        for group, peak in zip(self._groups(), self._peaks, strict=True):
            group["lr"] = peak * factor
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def learning_rates(self) -> list[float]:
        """Learning rates of the last step, one a parameter group."""
        return [group["lr"] for group in self._groups()]

    def state_dict(self) -> list[dict[str, Any]]:
        """The state that a resumed stage needs."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Restore from `state_dict`."""
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]


def use_sparse_gradients(model: nn.Module, wanted: bool | None) -> set[Tensor]:
    """Switch trainable word tables to sparse gradients, and return them.

    Args: wanted: all or none of them; None: those with more than `SPARSE_FROM` parameters.
    """
    tables: set[Tensor] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and "word_embeddings" in name and module.weight.requires_grad:
            module.sparse = module.weight.numel() > SPARSE_FROM if wanted is None else wanted
            if module.sparse:
                tables.add(module.weight)
                logger.info("sparse gradients for a word table of %d x %d", *module.weight.shape)
    return tables


def clip_gradients(parameters: Iterable[Tensor]) -> Tensor:
    """Scale all gradients, dense and sparse, to a joint norm of at most 1. Returns the norm before."""
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = nn.utils.get_total_norm(values)
    torch._foreach_mul_(values, (MAX_GRADIENT_NORM / (norm + 1e-6)).clamp(max=1.0))
    return norm


def warmup_then_linear(seen: int, batch: int, total: int, *, warmup: float, cycles: int = 1) -> float:
    """Learning-rate factor of a step: rises from 0 over the first `warmup` of the pairs, then falls to 0 at the last.

    Counts pairs, since steps differ in size.

    Args:
        seen: pairs before the step.
        batch: pairs in the step.
        total: pairs in the stage.
        warmup: share of a cycle's pairs.
        cycles: cycles of equal length: warm restarts (Loshchilov & Hutter 2017).
    """
    seen -= math.ceil(total / cycles) * cycle_of(seen, total, cycles)
    total = math.ceil(total / cycles)
    ramp = max(1, math.ceil(total * warmup))
    if seen + batch <= ramp:
        return (seen + batch) / ramp
    return max(0.0, min(1.0, (total - seen) / max(1, total - ramp)))


def cycle_of(seen: int, total: int, cycles: int) -> int:
    """The cycle, from 0, that is current after `seen` pairs; at the stage's end, the last one."""
    return min(seen // math.ceil(total / cycles), cycles - 1)


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
