"""Writes a stage's `log.jsonl` (losses) and `dev.jsonl` (dev scores), one JSON object a line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from torch import Tensor

LOG_STEPS = 25  # averaged into one line


class TrainingLog:
    """Appends to the two files of a stage, after dropping lines of steps that a kill undid.

    Args:
        epoch_pairs: pairs in an epoch.
        step, pairs: where the stage starts or resumes.
    """

    def __init__(self, folder: Path, epoch_pairs: int, *, step: int, pairs: int) -> None:
        self._losses_path, self._scores_path = folder / "log.jsonl", folder / "dev.jsonl"
        self._epoch_pairs = epoch_pairs
        for path in (self._losses_path, self._scores_path):
            forget_lines_after(path, step)
        self._start_line(pairs)

    def add(
        self, losses: dict[str, Tensor], step: int, pairs: int, learning_rates: list[float], *, is_end: bool
    ) -> None:
        """Add the losses of a step, and write a line if it is due."""
        for part, value in losses.items():
            self._sums[part] = self._sums[part] + value if part in self._sums else value  # on the device: no waiting
        self._steps += 1
        if step % LOG_STEPS == 0 or is_end:
            self.write_line(step, pairs, learning_rates)

    def write_line(self, step: int, pairs: int, learning_rates: list[float]) -> None:
        """Write a line for the steps since the last one, if any."""
        if not self._steps:
            return
        means = {part: round(total.item() / self._steps, 5) for part, total in self._sums.items()}
        rate = round((pairs - self._pairs) / (time.monotonic() - self._since), 1)
        line = {**self._at(step, pairs), **means, "learning_rates": learning_rates, "pairs_per_s": rate}
        _append(self._losses_path, line)
        self._start_line(pairs)

    def write_score(self, score: float, step: int, pairs: int, by_pair: dict[str, float]) -> None:
        """Write a line of `dev.jsonl`, with scores by language pair if given."""
        own = {"by_pair": {pair: round(value, 4) for pair, value in by_pair.items()}} if by_pair else {}
        _append(self._scores_path, {**self._at(step, pairs), "score": round(score, 4), **own})

    def _at(self, step: int, pairs: int) -> dict[str, float]:
        return {"step": step, "pairs": pairs, "epoch": round(pairs / self._epoch_pairs, 4)}

    def _start_line(self, pairs: int) -> None:
        self._sums: dict[str, Tensor] = {}
        self._steps, self._pairs, self._since = 0, pairs, time.monotonic()


def forget_lines_after(path: Path, step: int) -> None:
    """Drop lines of later steps, and a last line that a kill truncated."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
