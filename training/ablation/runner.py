"""Trains cells one after another, doing once what they have in common. Knows nothing of scores."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.ablation.grid import Cell
from training.errors import ConfigError
from training.pipeline.run import Run
from training.pipeline.runner import DONE, Step, fingerprints, run_steps, share_steps
from training.pipeline.steps import steps_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trial:
    """A cell, the steps that make it, and where their results are: cells that agree in a step share its folder."""

    cell: Cell
    run: Run
    steps: list[Step]
    data_fingerprint: str
    folders: dict[str, Path]

    @property
    def result(self) -> str:
        """The step that leaves the finished student."""
        return self.run.models[-1]

    def is_done(self, step: str) -> bool:
        """Whether a step was finished, by this cell or another."""
        return (self.folders[step] / DONE).exists()


def plan_trials(cells: list[Cell], data: Path, out: Path) -> list[Trial]:
    """What has to be done for each cell, and where; nothing is written.

    Raises: CorpusError: a source that the cells read has no file.  ConfigError: a repeat would be the cell itself.
    """
    known: dict[str, str] = {}
    trials = []
    for cell in cells:
        run = Run(cell.config, data, out / "cells" / cell.folder)
        # Of sources the order counts: it decides which of them keeps a pair.
        text = repr((list(cell.config.corpus.sources), cell.config.languages))
        if text not in known:
            known[text] = run.data_fingerprint()
        steps = steps_of(run)
        identities = fingerprints(steps, cell.config, data_fingerprint=known[text])
        folders = {name: out / "steps" / f"{name}-{identity}" for name, identity in identities.items()}
        trials.append(Trial(cell, run, steps, known[text], folders))
        same = [one for one in trials[:-1] if cell.seed is not None and one.cell.name == cell.name]
        if any(one.folders == folders for one in same):
            raise ConfigError(
                f"seeds.{cell.name} has {cell.seed}, but seed_keys changes nothing that the cell trains: its repeat "
                "would be the same training, and no measure of noise"
            )
    return trials


def train_trials(trials: list[Trial], out: Path) -> dict[str, str]:
    """Train what is not trained yet. A cell that fails is left behind and the next one begun.

    Returns: why cells failed, by folder name.
    """
    failures: dict[str, str] = {}
    broken: dict[Path, str] = {}  # a step that failed once is not tried again for another cell
    for number, trial in enumerate(trials, start=1):
        logger.info("cell %d of %d: %s", number, len(trials), trial.cell.folder)
        reason = next((broken[folder] for folder in trial.folders.values() if folder in broken), None)
        if reason is None:
            try:
                _train(trial, out)
                continue
            except Exception as exc:  # whatever it is, the other cells can still be trained
                logger.exception("cell %s failed", trial.cell.folder)
                reason = f"{type(exc).__name__}: {exc}"
                broken[next(folder for step, folder in trial.folders.items() if not trial.is_done(step))] = reason
        failures[trial.cell.folder] = reason
    return failures


def describe_plan(trials: list[Trial]) -> Iterator[str]:
    """Lines for a reader: what each cell would train, and what it takes from cells before it."""
    first: dict[Path, str] = {}
    for trial in trials:
        by_state: dict[str, list[str]] = {"to do": [], "shared with a cell above": [], "done": []}
        for step, folder in trial.folders.items():
            is_first = first.setdefault(folder, trial.cell.folder) == trial.cell.folder
            state = "done" if trial.is_done(step) else "to do" if is_first else "shared with a cell above"
            by_state[state].append(step)
        yield f"{trial.cell.folder} (scored after {trial.result})"
        yield from (f"    {state}: {', '.join(steps)}" for state, steps in by_state.items() if steps)
    left = sum(not (folder / DONE).exists() for folder in first)
    yield f"{len(trials)} cells; {len(first)} different steps, {left} to do"


def _train(trial: Trial, out: Path) -> None:
    run = trial.run
    share_steps(trial.steps, run.config, run.out, out / "steps", data_fingerprint=trial.data_fingerprint)
    teacher = run.out / "teacher"  # its embeddings are kept by the teacher's own identity: one store serves all cells
    if not teacher.is_symlink():
        (out / "teacher").mkdir(exist_ok=True)
        teacher.symlink_to(os.path.relpath(out / "teacher", run.out), target_is_directory=True)
    run_steps(trial.steps, run.config, run.out, data_fingerprint=trial.data_fingerprint)
