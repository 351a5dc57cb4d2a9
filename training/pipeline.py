"""The batch job: steps in order, each in its own folder, finished ones skipped, half-done ones resumed.

corpus -> tokenizer -> tokens -> teacher -> lexical -> assistant -> bottleneck -> student -> contrastive -> final
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.config import RunConfig
from training.errors import StepMismatchError
from training.files import write_json_atomically

logger = logging.getLogger(__name__)
DONE = "done.json"
STARTED = "started.json"


@dataclass(frozen=True)
class Step:
    """One unit of work.

    Args:
        settings: what of the configuration changes this step's result; with `after`, its fingerprint.
        after: steps whose results it reads.
        work: fills the folder it is given; is called again on the same folder after a kill.
    """

    name: str
    settings: Callable[[RunConfig], Any]
    after: tuple[str, ...]
    work: Callable[[Path], None]


def run_steps(steps: list[Step], config: RunConfig, out: Path, *, data_fingerprint: str) -> None:
    """Run what is not done yet.

    Raises: StepMismatchError: a step's folder was made with other settings or other data.
    """
    fingerprints = {"data": data_fingerprint}
    for step in steps:
        settings = _plain(step.settings(config))
        upstream = {name: fingerprints[name] for name in step.after}
        fingerprints[step.name] = _fingerprint({"step": step.name, "settings": settings, "after": upstream})
        folder = out / step.name
        _check_same_step(folder, step.name, fingerprints[step.name], settings)
        if (folder / DONE).exists():
            logger.info("%s: already done", step.name)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        mark = {"fingerprint": fingerprints[step.name], "settings": settings, "git_commit": git_commit()}
        write_json_atomically(folder / STARTED, mark)
        started = time.monotonic()
        step.work(folder)
        write_json_atomically(folder / DONE, {**mark, "last_run_s": round(time.monotonic() - started, 1)})
        logger.info("%s: done in %.0f s", step.name, time.monotonic() - started)


def restart_from(name: str, steps: list[Step], out: Path) -> None:
    """Throw away a step and all that depends on it.

    Raises: StepMismatchError: there is no such step.
    """
    if name not in {step.name for step in steps}:
        raise StepMismatchError(f"there is no step {name!r}; steps: {', '.join(step.name for step in steps)}")
    stale = {name}
    for step in steps:
        if step.name in stale or stale & set(step.after):
            stale.add(step.name)
            shutil.rmtree(out / step.name, ignore_errors=True)


def git_commit() -> str:
    """The commit of the code that runs, `-dirty` when it was changed since; `unknown` outside a checkout."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def folder_fingerprint(folder: Path) -> str:
    """Names and sizes of every file under a folder: enough to notice another corpus, quick for a large one."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return _fingerprint([[str(path.relative_to(folder)), path.stat().st_size] for path in files])


def _check_same_step(folder: Path, name: str, fingerprint: str, settings: Any) -> None:
    marks = [folder / mark for mark in (DONE, STARTED) if (folder / mark).exists()]
    if not marks:
        return
    mark = json.loads(marks[0].read_text(encoding="utf-8"))
    if mark["fingerprint"] == fingerprint:
        return
    changed = (
        [key for key in settings if mark["settings"].get(key) != settings[key]] if isinstance(settings, dict) else []
    )
    what = f"other settings ({', '.join(changed)})" if changed else "other data or other earlier steps"
    raise StepMismatchError(
        f"{folder} was made with {what}; choose another --out, or --restart-from {name} to discard it and what follows"
    )


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _fingerprint(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
