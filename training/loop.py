"""The training loop of every stage: steps, learning rates, checkpoints, a log. Knows no loss by name."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm

from training.device import autocast
from training.errors import DivergedError
from training.files import write_atomically
from training.stages.config import StageConfig

logger = logging.getLogger(__name__)
BatchT = TypeVar("BatchT")
STATE = "state.pt"  # what a killed stage goes on from
LOG_STEPS = 25  # steps averaged into one line of the log
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Objective(Generic[BatchT]):
    """What a stage minimises: `losses(batch)` names the parts, and their sum is the loss."""

    model: nn.Module  # whose trainable parameters are optimised and checkpointed
    losses: Callable[[BatchT], dict[str, Tensor]]


def parameter_groups(model: nn.Module, config: StageConfig) -> list[dict[str, Any]]:
    """Two learning rates: word embeddings move apart from the body."""
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    embeddings = [parameter for name, parameter in trainable if "word_embeddings" in name]
    body = [parameter for name, parameter in trainable if "word_embeddings" not in name]
    groups = [
        {"params": embeddings, "lr": config.embedding_learning_rate or config.learning_rate},
        {"params": body, "lr": config.learning_rate},
    ]
    return [group for group in groups if group["params"]]


def warmup_then_linear(steps: int, warmup: float) -> Callable[[int], float]:
    """Factor on the learning rate at each step: up from 0 over `warmup` of the steps, then down to 0."""
    warmup_steps = max(1, math.ceil(steps * warmup))

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return max(0.0, (steps - step) / max(1, steps - warmup_steps))

    return factor


def train(
    objective: Objective[BatchT],
    batches: Sequence[BatchT],
    config: StageConfig,
    folder: Path,
    *,
    name: str,
    checkpoint_minutes: float,
    device: torch.device,
) -> None:
    """Run one stage to its end, resuming from `folder`/state.pt where a killed run left one.

    Writes `log.jsonl`: step, mean loss parts, learning rates, pairs a second.
    Raises:  DivergedError: the loss is not finite.
    """
    optimizer = torch.optim.AdamW(
        parameter_groups(objective.model, config), betas=(0.9, 0.98), weight_decay=config.weight_decay, fused=True
    )
    scheduler = LambdaLR(optimizer, warmup_then_linear(len(batches), config.warmup))
    state_path = folder / STATE
    first_step = _restore(state_path, objective.model, optimizer, scheduler, device)
    saved_at = logged_at = time.monotonic()
    sums: dict[str, float] = {}
    summed_steps = pairs = 0
    _forget_lines_after(folder / "log.jsonl", first_step)
    with tqdm(total=len(batches), initial=first_step, desc=name, unit="batch", mininterval=5) as bar:
        for step in range(first_step, len(batches)):
            batch = batches[step]
            with autocast(device):
                losses = objective.losses(batch)
                loss = torch.stack(list(losses.values())).sum()
            _check_finite(loss, what="loss", name=name, step=step, steps=len(batches))
            loss.backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(objective.model.parameters(), MAX_GRADIENT_NORM)
            _check_finite(norm, what="gradient", name=name, step=step, steps=len(batches))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            for part, value in losses.items():
                sums[part] = sums.get(part, 0.0) + value.item()
            summed_steps += 1
            pairs += len(batch)  # type: ignore[arg-type]
            bar.update()
            if (step + 1) % LOG_STEPS == 0 or step + 1 == len(batches):
                now = time.monotonic()
                line = {part: round(total / summed_steps, 5) for part, total in sums.items()}
                rates = [group["lr"] for group in optimizer.param_groups]
                _append(
                    folder / "log.jsonl",
                    {
                        "step": step + 1,
                        **line,
                        "learning_rates": rates,
                        "pairs_per_s": round(pairs / (now - logged_at), 1),
                    },
                )
                bar.set_postfix(line)
                sums, summed_steps, pairs, logged_at = {}, 0, 0, now
            if time.monotonic() - saved_at > checkpoint_minutes * 60:
                _save(state_path, step + 1, objective.model, optimizer, scheduler)
                saved_at = time.monotonic()


def _check_finite(value: Tensor, *, what: str, name: str, step: int, steps: int) -> None:
    """Stop before a number that is none reaches the weights, and with them the next checkpoint."""
    if not torch.isfinite(value):
        raise DivergedError(
            f"{name}: the {what} is {value.item()} at step {step} of {steps}; lower its learning_rate or "
            f"embedding_learning_rate and run again with --restart-from {name}"
        )


def _forget_lines_after(path: Path, step: int) -> None:
    """Drop what a kill undid: lines of later steps, and a last line cut short."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def _save(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: LambdaLR) -> None:
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }
    write_atomically(path, lambda temporary: torch.save(state, temporary))


def _restore(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: LambdaLR, device: torch.device
) -> int:
    """Load the last checkpoint, if any; the step to go on from."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    logger.info("resuming at step %d", state["step"])
    return int(state["step"])
