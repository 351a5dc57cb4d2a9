"""Reads the results of trained cells: scores, sizes, logs, cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from training.ablation.runner import Trial
from training.ablation.spec import Cell, Metric
from training.models.encoder import CrossletConfig, CrossletEncoder, ParameterCounts, parameter_counts
from training.pipeline.run import CHECKPOINT
from training.pipeline.runner import DONE

STSB, STS2017 = "stsb_test", "sts2017"
SetScores = dict[str, dict[str, float]]  # set -> pair or language, or "average" -> score x 100


def scores_of_metric(scores: SetScores | None, metric: Metric) -> dict[str, float]:
    """The scores of a metric by pair (English first) or language, with the average; empty if there are none."""
    sts = STS2017 if is_on_sts2017(scores) else STSB
    name = {"mono": f"{sts}_monolingual", "cross": sts, "tatoeba": "tatoeba_p1"}[metric]
    found = (scores or {}).get(name, {})
    return {f"en-{pair[:-3]}" if pair.endswith("-en") else pair: score for pair, score in found.items()}


def is_on_sts2017(scores: SetScores | None) -> bool:
    """Whether STS scores are on STS2017, as in the paper; otherwise they are on the STS benchmark's test set."""
    return scores is not None and STS2017 in scores and not any(name.startswith(STSB) for name in scores)


@dataclass(frozen=True)
class Result:
    """One trained cell. Results of unfinished steps are None or empty."""

    trial: Trial

    @property
    def cell(self) -> Cell:
        """The variant that was trained."""
        return self.trial.cell

    @cached_property
    def scores(self) -> SetScores | None:
        """Scores of the finished student."""
        return self.scores_of(self.trial.result)

    def scores_of(self, step: str) -> SetScores | None:
        """Scores of a step's model; None if it was not scored."""
        return self._read(f"{step}-scores", "scores.json")

    def score(self, metric: Metric) -> float | None:
        """The average of one metric over the finished student's pairs."""
        return scores_of_metric(self.scores, metric).get("average")

    @cached_property
    def parameters(self) -> ParameterCounts | None:
        """Parameters of the finished student."""
        return self.parameters_of(self.trial.result)

    def parameters_of(self, step: str) -> ParameterCounts | None:
        """Parameters of a step's model."""
        folder = self.checkpoint(step)
        if folder is None:
            return None
        with torch.device("meta"):  # shapes only
            return parameter_counts(CrossletEncoder(CrossletConfig.from_pretrained(folder)))

    def checkpoint(self, step: str) -> Path | None:
        """The model folder of a finished step."""
        folder = self._finished(step)
        return folder / CHECKPOINT if folder and (folder / CHECKPOINT).is_dir() else None

    @cached_property
    def pairs_seen(self) -> dict[str, int]:
        """How many pairs each stage trained on, repeats included."""
        logs = {stage: self.log(stage) for stage in self.cell.config.stages}
        return {stage: int(lines[-1]["pairs"]) for stage, lines in logs.items() if lines}

    @property
    def student_pairs(self) -> int:
        """How many pairs the student trained on, over all stages except the assistant's."""
        return sum(pairs for stage, pairs in self.pairs_seen.items() if stage != "assistant")

    @cached_property
    def contrastive_loss(self) -> float | None:
        """Eq. (5), without its weight, over the last steps of stage 4, trained or only measured; None: another loss."""
        config, lines = self.cell.config.contrastive, self.log("contrastive")
        if config.objective not in ("soft", "none") or not lines or not config.mcl_weight:
            return None
        last: float | None = lines[-1].get("contrastive")
        return None if last is None else last / config.mcl_weight

    def log(self, stage: str) -> list[dict[str, Any]]:
        """The training log of a stage: step, pairs, epoch, loss parts."""
        return self._lines(stage, "log.jsonl")

    def dev_scores(self, stage: str) -> list[dict[str, Any]]:
        """The dev scores during a stage: step, pairs, epoch, score."""
        return self._lines(stage, "dev.jsonl")

    def records(self) -> dict[Path, dict[str, Any]]:
        """How each finished step was made (commit, hardware, seconds), by folder; cells may share folders."""
        found = {folder: self._read(step, DONE) for step, folder in self.trial.folders.items()}
        return {folder: record for folder, record in found.items() if record is not None}

    def _finished(self, step: str) -> Path | None:
        return self.trial.folders[step] if step in self.trial.folders and self.trial.is_done(step) else None

    def _read(self, step: str, name: str) -> dict[str, Any] | None:
        folder = self._finished(step)
        return json.loads((folder / name).read_text(encoding="utf-8")) if folder else None

    def _lines(self, stage: str, name: str) -> list[dict[str, Any]]:
        folder = self._finished(stage)
        if folder is None or not (folder / name).exists():
            return []
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Results:
    """All cells of an ablation; repeats are kept apart from the cells they repeat."""

    cells: dict[str, Result]
    repeats: dict[str, list[Result]]

    @classmethod
    def of(cls, trials: list[Trial]) -> Results:
        """The results of trials."""
        cells = {trial.cell.name: Result(trial) for trial in trials if trial.cell.seed is None}
        repeats: dict[str, list[Result]] = {name: [] for name in cells}
        for trial in trials:
            if trial.cell.seed is not None:
                repeats[trial.cell.name].append(Result(trial))
        return cls(cells, repeats)

    def values(self, name: str, metric: Metric) -> list[float]:
        """The scores of a cell and its repeats, without missing ones."""
        found = [result.score(metric) for result in (self.cells[name], *self.repeats[name])]
        return [score for score in found if score is not None]

    def score(self, name: str, metric: Metric) -> float | None:
        """The score of a cell, averaged over its seeds."""
        values = self.values(name, metric)
        return mean(values) if values else None
