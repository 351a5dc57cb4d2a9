"""The batch job: runs steps in order, each in its own folder; skips finished ones and resumes interrupted ones."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from training.config.parsing import ConfigModel
from training.errors import ConfigError, CorpusError, EvaluationError, LeakageError, StepMismatchError, TrainingError
from training.optimisation.checkpoints import has_states, remove_states
from training.optimisation.processes import from_main_process, is_main_process, on_main_process
from training.system.device import describe_hardware
from training.system.files import LOCK, check_folder, wait_for, write_json_atomically, write_text_atomically

logger = logging.getLogger(__name__)
DONE = "done.json"
STARTED = "started.json"


@dataclass(frozen=True)
class Step:
    """One unit of work.

    Args:
        work: fills the folder it is given; after a kill it is called again on the same folder.
        settings: the part of the configuration that changes this step's result; fingerprinted together with `after`.
        after: steps whose results it reads; `data` is the text of the run.
        together: all processes of a run take part; otherwise only the main one works, and the others wait.
    """

    name: str
    work: Callable[[Path], None]
    settings: dict[str, Any]
    after: tuple[str, ...]
    together: bool = False


@contextmanager
def run_alone(out: Path) -> Iterator[None]:
    """Lock an output folder; the system releases the lock however the run ends.

    Raises: TrainingError: another run holds the lock, or there can be no folder.
    """
    if not is_main_process():  # the main process locks for all of them
        yield
        return
    check_folder(out, error=TrainingError)
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise TrainingError(f"another run is writing to {out}") from exc
        yield


def run_steps(
    steps: list[Step],
    config: ConfigModel,
    out: Path,
    *,
    data_fingerprint: str,
    restart_from: str | None = None,
    until: str | None = None,
    shared: bool = False,
) -> None:
    """Run unfinished steps up to `until`; first discard `restart_from` and every step that depends on it.

    Nothing is discarded or written until every remaining step is found to match this configuration.

    Args:   shared: other processes may make the same steps, each once: wait for them.
    Raises: StepMismatchError: a step's folder was made with other settings or other data, or there is no such step.
    """
    names = [step.name for step in steps]
    for name in (until, restart_from):
        if name is not None and name not in names:
            raise StepMismatchError(f"there is no step {name!r}; steps: {', '.join(names)}")
    expected = fingerprints(steps, data_fingerprint=data_fingerprint)
    on_main_process(lambda: _prepare(steps, config, out, expected, restart_from))
    for step in steps if until is None else steps[: names.index(until) + 1]:
        folder = out / step.name
        with wait_for(folder) if shared else nullcontext():
            if from_main_process((folder / DONE).exists()):
                logger.info("%s: already done", step.name)
            elif step.together:
                _run(step, expected[step.name], folder)
            else:
                on_main_process(functools.partial(_run, step, expected[step.name], folder))


def _prepare(
    steps: list[Step], config: ConfigModel, out: Path, expected: dict[str, str], restart_from: str | None
) -> None:
    """Check every step that stays, then discard `restart_from` and all that depend on it."""
    discarded = {restart_from}
    for step in steps:
        if discarded & {step.name, *step.after}:
            discarded.add(step.name)
        else:
            _check_same_step(out / step.name, step, expected[step.name])
    for step in reversed(steps):  # last first: a kill must not leave a finished step after a discarded one
        folder = out / step.name
        if step.name not in discarded:
            continue
        if folder.exists():
            (folder / DONE).unlink(missing_ok=True)
            shutil.rmtree(folder.resolve())
        if folder.is_symlink():  # a step shared by cells of an ablation
            folder.resolve().mkdir()
    out.mkdir(parents=True, exist_ok=True)
    resolved = yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)
    write_text_atomically(out / "config.yaml", resolved)


def fingerprints(steps: list[Step], *, data_fingerprint: str) -> dict[str, str]:
    """A hash of each step's settings and of the steps it reads, by name: equal fingerprints mean equal results."""
    known = {"data": data_fingerprint}
    for step in steps:
        upstream = {name: known[name] for name in step.after}
        identity = json.dumps({"step": step.name, "settings": step.settings, "after": upstream}, sort_keys=True)
        known[step.name] = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return {step.name: known[step.name] for step in steps}


def share_steps(steps: list[Step], out: Path, store: Path, *, data_fingerprint: str) -> None:
    """Link each step's folder to `store`/<step>-<fingerprint>, so that runs share common steps.

    A step whose settings changed gets a new link; its earlier result stays in the store. `run_steps` does the work.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name, fingerprint in fingerprints(steps, data_fingerprint=data_fingerprint).items():
        shared, link = store / f"{name}-{fingerprint}", out / name
        shared.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(os.path.relpath(shared, out), target_is_directory=True)


def _run(step: Step, fingerprint: str, folder: Path) -> None:
    if not is_main_process():
        step.work(folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "fingerprint": fingerprint,
        "settings": step.settings,
        "git_commit": git_commit(),
        "hardware": describe_hardware(),
        "resumed": (folder / STARTED).exists(),
    }
    write_json_atomically(folder / STARTED, record)
    started = time.monotonic()
    try:
        step.work(folder)
    except (ConfigError, CorpusError, EvaluationError, LeakageError):
        if not has_states(folder):  # nothing to resume: let the user fix a setting or a file and run again
            for path in folder.iterdir():  # what other settings would take for their own
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name not in (STARTED, LOCK):
                    path.unlink()
            (folder / STARTED).unlink()
        raise
    write_json_atomically(folder / DONE, {**record, "last_run_s": round(time.monotonic() - started, 1)})
    remove_states(folder)
    logger.info("%s: done in %.0f s", step.name, time.monotonic() - started)


def git_commit() -> str:
    """The commit of the running code, with `-dirty` if it has uncommitted changes; `unknown` outside a checkout.

    CROSSLET_REVISION goes first: in an image it names the commit that was built.
    """
    if revision := os.environ.get("CROSSLET_REVISION"):
        return revision
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _check_same_step(folder: Path, step: Step, fingerprint: str) -> None:
    path = next((folder / file for file in (DONE, STARTED) if (folder / file).exists()), None)
    if path is None:
        return
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["fingerprint"] == fingerprint:
        return
    before = record["settings"]
    changed = [key for key in sorted(step.settings.keys() | before.keys()) if step.settings.get(key) != before.get(key)]
    what = f"other settings ({', '.join(changed)})" if changed else "other data or other earlier steps"
    way_out = f"choose another --out, or discard it and its dependents: --restart-from {step.name}"
    raise StepMismatchError(f"{folder} was made with {what}; {way_out}")
