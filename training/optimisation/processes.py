"""Data parallelism: which process writes, and how tensors are exchanged. One process exchanges nothing.

Every process sees the same batches, encodes its share of the texts, and computes the whole batch's loss from all
embeddings. So losses are equal everywhere; each process has the gradient of its own share, and gradients are summed.

Shapes: U texts, D dims, P processes, R touched rows of a word table, E its width.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather, pad_across_processes, reduce
from torch import Tensor
from torch import distributed as dist

from training.errors import PeerError, TrainingError
from training.system.device import pick_device

PATIENCE = timedelta(days=14)  # building a corpus or embedding texts takes long; a dead peer is noticed at once


def join_processes() -> None:
    """Join the process group if `accelerate launch` or torchrun started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # without `cpu`, accelerate does not take part in an exchange between processes on CPUs
        PartialState(cpu=pick_device().type == "cpu", timeout=PATIENCE)


def process_count() -> int:
    """The number of processes training together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def process_index() -> int:
    """This process's rank."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_main_process() -> bool:
    """Whether this process writes logs, checkpoints and results."""
    return process_index() == 0


def on_main_process(work: Callable[[], None]) -> None:
    """Run `work` in the main process while the others wait.

    Raises: in the main process, what `work` raises; in the others, PeerError if it failed.
    """
    failure: Exception | None = None
    if is_main_process():
        try:
            work()
        except (TrainingError, OSError) as exc:
            failure = exc
    if from_main_process(float(failure is not None)):
        raise failure or PeerError("the main process failed; see its error message")


def from_main_process(number: float) -> float:
    """Broadcast the main process's number to every process; also a barrier."""
    if process_count() == 1:
        return number
    numbers: list[float] = broadcast_object_list([number])
    return numbers[0]


def own_share(count: int) -> slice:
    """This process's share of `count` ordered items: every P-th, so that texts sorted by length are shared evenly."""
    return slice(process_index(), count, process_count())


def gather_shares(own_UD: Tensor, count: int) -> Tensor:
    """Gather the rows of all processes, in order; gradients flow to a process's own rows.

    Args:    own_UD: the rows of `own_share`; shares may differ by one row, or be empty.  count: rows in all.
    Returns: (count, D).
    """
    if process_count() == 1:
        return own_UD
    gathered_UD: Tensor = _GatherShares.apply(own_UD, count)  # type: ignore[no-untyped-call]
    return gathered_UD


def sum_over_processes(value: Tensor) -> Tensor:
    """Sum a value over all processes; gradients flow to a process's own value."""
    if process_count() == 1:
        return value
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return total


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum gradients over all processes."""
    if process_count() == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            is_sparse = parameter.grad.is_sparse
            parameter.grad = _sum_sparse(parameter.grad) if is_sparse else reduce(parameter.grad, "sum")


def _sum_sparse(gradient: Tensor) -> Tensor:
    """Sum a sparse gradient over all processes; the result has the rows touched by any of them."""
    gradient = gradient.coalesce()
    rows = gather(pad_across_processes(gradient.indices()[0], pad_index=-1))
    values = gather(pad_across_processes(gradient.values()))
    is_row = rows >= 0
    indices = rows[is_row].unsqueeze(0)
    return torch.sparse_coo_tensor(indices, values[is_row], gradient.shape, check_invariants=False).coalesce()


class _GatherShares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own_UD: Tensor, count: int) -> Tensor:
        rows_PUD: Tensor = gather(pad_across_processes(own_UD)).unflatten(0, (process_count(), -1))
        return rows_PUD.transpose(0, 1).flatten(0, 1)[:count]  # row r of process p is item r x P + p

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # the loss is the same everywhere: own rows only
        return gradients[0][own_share(len(gradients[0]))], None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]
