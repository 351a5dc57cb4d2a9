"""Trains cells, one or several at a time; cells share the steps they have in common."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from training.ablation.spec import Cell
from training.errors import ConfigError, TrainingError
from training.pipeline.run import Run
from training.pipeline.runner import DONE, Step, fingerprints, run_steps, share_steps
from training.pipeline.steps import steps_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trial:
    """A cell, its steps, and their folders; cells with the same step share its folder."""

    cell: Cell
    run: Run
    steps: list[Step]
    data_fingerprint: str
    folders: dict[str, Path]

    @property
    def result(self) -> str:
        """The step that saves the finished student."""
        return self.run.models[-1]

    def is_done(self, step: str) -> bool:
        """Whether a step is finished, by this cell or another."""
        return (self.folders[step] / DONE).exists()


def plan_trials(cells: list[Cell], data: Path, out: Path) -> list[Trial]:
    """Plan the steps of each cell and their folders. Writes nothing.

    Raises: CorpusError: a source of a cell has no file.  ConfigError: a repeat is identical to its cell.
    """
    known: dict[str, str] = {}
    trials = []
    for cell in cells:
        run = Run(cell.config, data, out / "cells" / cell.folder)
        # The order of sources matters: the first source keeps a duplicate pair
        passages = cell.config.passages if "passages" in cell.config.stages else None
        read = (passages and (list(passages.sets), passages.measured), cell.config.tokenizer.mono)
        text = repr((list(cell.config.corpus.sources), cell.config.languages, cell.config.tokenizer.kind, read))
        if text not in known:
            known[text] = run.data_fingerprint()
        steps = steps_of(run)
        identities = fingerprints(steps, data_fingerprint=known[text])
        folders = {name: out / "steps" / f"{name}-{identity}" for name, identity in identities.items()}
        trials.append(Trial(cell, run, steps, known[text], folders))
        same = [one for one in trials[:-1] if cell.seed is not None and one.cell.name == cell.name]
        if any(one.folders == folders for one in same):
            raise ConfigError(
                f"seeds.{cell.name} has {cell.seed}, but seed_keys changes nothing that the cell trains: its repeat "
                "would be the same training and could not measure noise"
            )
    return trials


def train_in_processes(trials: list[Trial], out: Path, jobs: int) -> dict[str, str]:
    """`train_trials` with `jobs` processes, a cell each; a process waits for a step that another is making."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_start_job)
    try:
        running = [pool.submit(_train_cell, trial.cell, trial.run.data, out) for trial in trials]
        return {name: reason for job in running for name, reason in job.result().items()}
    except BrokenProcessPool as exc:
        raise TrainingError("a process was killed, perhaps for memory; run again, with fewer --jobs") from exc
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():  # after Ctrl-C; otherwise they have nothing to do
            process.terminate()


def _start_job() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s", stream=sys.stderr
    )
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _train_cell(cell: Cell, data: Path, out: Path) -> dict[str, str]:
    """A trial cannot be sent to a process: its steps hold functions."""
    return train_trials(plan_trials([cell], data, out), out)


def train_trials(trials: list[Trial], out: Path) -> dict[str, str]:
    """Train unfinished cells. If a cell fails, go on with the next.

    Returns: folder name -> reason, for cells that failed.
    """
    failures: dict[str, str] = {}
    broken: dict[Path, str] = {}  # failed steps are not retried for other cells
    for number, trial in enumerate(trials, start=1):
        logger.info("cell %d of %d: %s", number, len(trials), trial.cell.folder)
        reason = next((broken[folder] for folder in trial.folders.values() if folder in broken), None)
        if reason is None:
            try:
                _train(trial, out)
                continue
            except Exception as exc:  # any failure: the other cells can still be trained
                logger.exception("cell %s failed", trial.cell.folder)
                reason = f"{type(exc).__name__}: {exc}"
                broken[next(folder for step, folder in trial.folders.items() if not trial.is_done(step))] = reason
        failures[trial.cell.folder] = reason
    return failures


def describe_plan(trials: list[Trial]) -> Iterator[str]:
    """Describe for each cell the steps to do, the finished ones, and those shared with cells above."""
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
    share_steps(trial.steps, run.out, out / "steps", data_fingerprint=trial.data_fingerprint)
    teacher = run.out / "teacher"  # embeddings are stored by teacher: all cells share one store
    if not teacher.is_symlink():
        (out / "teacher").mkdir(exist_ok=True)
        teacher.symlink_to(os.path.relpath(out / "teacher", run.out), target_is_directory=True)
    run_steps(trial.steps, run.config, run.out, data_fingerprint=trial.data_fingerprint, shared=True)
