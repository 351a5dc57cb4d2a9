"""The training loop of every stage: optimiser steps, dev scores, checkpoints, a log. Works with any `Objective`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from training.config.run import LoopConfig
from training.errors import DivergedError
from training.optimisation.batches import BatchStream, Indices, Position
from training.optimisation.checkpoints import FOLDER, load_newest, save_state
from training.optimisation.optimizer import Stepper, WeightAverage, clip_gradients, cycle_of, warmup_then_linear
from training.optimisation.processes import from_main_process, is_main_process, sum_gradients
from training.system.device import autocast

Validate = Callable[[], float | dict[str, float]]  # a score, or scores by language pair, to be averaged


@dataclass(frozen=True)
class Objective:
    """What a stage minimises: `losses(batch)` returns the parts by name; their sum is the loss.

    A part without a gradient is only logged.

    Every process computes the losses of the whole batch, and the gradient of its own share.
    """

    model: nn.Module  # its trainable parameters are optimised and checkpointed
    losses: Callable[[Indices], dict[str, Tensor]]


@dataclass(frozen=True)
class Progress:
    """The progress of a stage: steps and pairs behind it, and the next batch."""

    step: int = 0
    pairs: int = 0
    position: Position = field(default_factory=Position)


def train(
    objective: Objective,
    batches: BatchStream,
    config: LoopConfig,
    folder: Path,
    *,
    name: str,
    checkpoint_minutes: float,
    device: torch.device,
    validate: Validate | None = None,
) -> None:
    """Train `objective.model` to the end of one stage, resuming if a run was killed.

    Writes `log.jsonl` (step, pairs, epoch, mean loss parts, learning rates, pairs a second), `dev.jsonl` (step, pairs,
    epoch, score, and by language pair) and, until the stage is done, `resume/`. Only the main process writes and
    validates.

    Args:
        validate: scores the model (higher is better) every `config.validate_pairs` pairs and at the end.
    Raises:
        DivergedError: the loss or its gradient is not finite; the weights are unchanged by it.
        CheckpointError: every checkpoint is damaged.
    """
    stage = _Stage(objective.model, config, len(batches), folder / FOLDER, name, device)
    progress = stage.restore()
    log = TrainingLog(folder, batches.epoch_pairs, progress) if is_main_process() else None
    saved_at = time.monotonic()
    stream = batches.starting_at(progress.position)
    options: dict[str, Any] = {"desc": name, "unit": "pair", "mininterval": 5, "disable": not log}
    with tqdm(total=len(batches), initial=progress.pairs, **options) as bar:
        while step := list(islice(stream, config.accumulation)):
            micro_batches, before = [batch for batch, _ in step], progress.pairs
            pairs = sum(map(len, micro_batches))
            factor = warmup_then_linear(before, pairs, len(batches), warmup=config.warmup, cycles=config.cycles)
            if config.dropout:
                _switch_dropout_on(objective.model, seed=(batches.seed, progress.step))
            losses = _accumulate(objective, micro_batches, device=device, bf16=config.bf16)
            sum_gradients(stage.stepper.parameters)
            norm = clip_gradients(stage.stepper.parameters)
            _check_finite(losses, norm, name=name, step=progress.step)
            stage.stepper.step(factor)
            progress = Progress(progress.step + 1, before + pairs, position=step[-1][1])
            bar.update(pairs)
            is_end = progress.pairs >= len(batches)
            stage.average_ends(before, progress.pairs)
            if log:
                log.add(losses, progress, stage.stepper.learning_rates(), is_end=is_end)
            every = config.validate_pairs
            if validate and (is_end or (every is not None and before // every < progress.pairs // every)):
                if log:
                    objective.model.eval()
                    log.write_score(validate(), progress)
                from_main_process(0.0)  # the other processes wait
            if log and time.monotonic() - saved_at > checkpoint_minutes * 60:
                stage.save(progress)
                saved_at = time.monotonic()
    objective.model.eval()


def _switch_dropout_on(model: nn.Module, *, seed: tuple[int, int]) -> None:
    """Enable dropout before each step, since it is off in validation; the seed makes a resumed stage reproducible."""
    model.train()
    torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))


def _accumulate(
    objective: Objective, micro_batches: Sequence[Indices], *, device: torch.device, bf16: bool
) -> dict[str, Tensor]:
    """Accumulate the gradients of the micro-batches, weighted by their pairs; return the mean losses, weighted alike.

    A contrastive loss compares within a micro-batch: accumulation saves memory but adds no negatives.
    """
    pairs = sum(map(len, micro_batches))
    means: dict[str, Tensor] = {}
    for batch in micro_batches:
        with autocast(device, enabled=bf16):
            losses = objective.losses(batch)
            share = {part: value * (len(batch) / pairs) for part, value in losses.items()}
            total = torch.stack(list(share.values())).sum()
        total.backward()  # type: ignore[no-untyped-call]
        for part, value in share.items():
            means[part] = means.get(part, 0.0) + value.detach()
    return means


def _check_finite(losses: dict[str, Tensor], norm: Tensor, *, name: str, step: int) -> None:
    """Stop before a NaN or infinity reaches the weights and the next checkpoint.

    Raises: DivergedError: the loss or the gradient's norm is not finite.
    """
    loss = torch.stack(list(losses.values())).sum()
    if torch.isfinite(loss + norm):  # one device synchronisation
        return
    what, value = ("gradient", norm) if torch.isfinite(loss) else ("loss", loss)
    raise DivergedError(
        f"{name}: the {what} is {value.item()} at step {step}; lower its learning_rate or "
        f"embedding_learning_rate and run again with --restart-from {name}"
    )


@dataclass
class _Stage:
    model: nn.Module
    config: LoopConfig
    pairs: int  # of the whole stage
    folder: Path
    name: str
    device: torch.device

    def __post_init__(self) -> None:
        self.stepper = Stepper(self.model, self.config)
        self.average = WeightAverage()

    def restore(self) -> Progress:
        state = load_newest(self.folder, device=self.device, stage=self.name)
        if state is None:
            if self.config.average_cycles > self.config.cycles:
                self.average.add(self.model)  # average_cycles = cycles + 1 includes the initial weights
            return Progress()
        self.model.load_state_dict(state["model"])
        self.stepper.load_state_dict(state["optimizers"])
        if "average" in state:
            self.average.load_state_dict(state["average"])
        return Progress(**{**state["progress"], "position": Position(**state["progress"]["position"])})

    def save(self, progress: Progress) -> None:
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizers": self.stepper.state_dict(),
            "progress": asdict(progress),
            **({"average": self.average.state_dict()} if self.config.average_cycles else {}),
        }
        save_state(state, self.folder, name=f"{progress.step:010d}")

    def average_ends(self, before: int, now: int) -> None:
        """Add the weights at the end of each of the last cycles; at the stage's end, load their mean."""
        cycles, wanted = self.config.cycles, self.config.average_cycles
        ended, is_end = cycle_of(before, self.pairs, cycles), now >= self.pairs
        if ended >= cycles - wanted and (is_end or cycle_of(now, self.pairs, cycles) > ended):
            self.average.add(self.model)
        if is_end:
            self.average.load_into(self.model)


LOG_STEPS = 25  # averaged into one line


class TrainingLog:
    """Appends to the two files of a stage, after dropping lines of steps that a kill undid.

    Args: progress: where the stage starts or resumes.
    """

    def __init__(self, folder: Path, epoch_pairs: int, progress: Progress) -> None:
        self._losses_path, self._scores_path = folder / "log.jsonl", folder / "dev.jsonl"
        self._epoch_pairs = epoch_pairs
        for path in (self._losses_path, self._scores_path):
            forget_lines_after(path, progress.step)
        self._start_line(progress.pairs)

    def add(self, losses: dict[str, Tensor], progress: Progress, rates: list[float], *, is_end: bool) -> None:
        """Add the losses of a step; if a line is due, write their means since the last one."""
        for part, value in losses.items():
            self._sums[part] = self._sums[part] + value if part in self._sums else value  # on the device: no waiting
        self._steps += 1
        if progress.step % LOG_STEPS == 0 or is_end:
            means = {part: round(total.item() / self._steps, 5) for part, total in self._sums.items()}
            rate = round((progress.pairs - self._pairs) / (time.monotonic() - self._since), 1)
            self._append(self._losses_path, progress, {**means, "learning_rates": rates, "pairs_per_s": rate})
            self._start_line(progress.pairs)

    def write_score(self, scores: float | dict[str, float], progress: Progress) -> None:
        """Write a score, or the mean of scores by language pair and each of them."""
        by_pair = {}
        if isinstance(scores, dict):
            by_pair = {"by_pair": {pair: round(value, 4) for pair, value in scores.items()}}
            scores = sum(scores.values()) / len(scores)
        self._append(self._scores_path, progress, {"score": round(scores, 4), **by_pair})

    def _append(self, path: Path, progress: Progress, values: dict[str, Any]) -> None:
        epoch = round(progress.pairs / self._epoch_pairs, 4)
        line = {"step": progress.step, "pairs": progress.pairs, "epoch": epoch, **values}
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def _start_line(self, pairs: int) -> None:
        self._sums: dict[str, Tensor] = {}
        self._steps, self._pairs, self._since = 0, pairs, time.monotonic()


def forget_lines_after(path: Path, step: int) -> None:
    """Drop lines of later steps, and a last line that a kill truncated."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
