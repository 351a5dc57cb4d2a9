"""Saves and loads the states that a killed stage resumes from. A file is named by its step and its checksum."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from training.errors import CheckpointError
from training.system.files import fresh

logger = logging.getLogger(__name__)
FOLDER = "resume"  # in a stage's folder; removed when the stage is done
PARTIAL = ".partial"


def save_state(state: dict[str, Any], folder: Path, *, name: str) -> None:
    """Write `<name>-<checksum>.pt`, then remove the states that were there before.

    Names must sort by age (steps in ten digits). A failed write keeps the earlier state.

    Raises: OSError: the disk is full, or the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = fresh(folder / PARTIAL)
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        digest = _checksum(temporary)
    except BaseException as exc:
        temporary.unlink(missing_ok=True)  # a partial state is useless, and the disk may be full
        cause = exc if isinstance(exc, OSError) else exc.__context__  # torch wraps the OSError
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(folder)) from None
        raise
    path = folder / f"{name}-{digest}.pt"
    temporary.replace(path)
    for earlier in _states(folder):
        if earlier != path:
            earlier.unlink()


def load_newest(folder: Path, *, device: torch.device, stage: str) -> dict[str, Any] | None:
    """Load the newest intact state; None if none was saved yet.

    Raises: CheckpointError: every saved state is damaged.
    """
    paths = _states(folder)
    for path in reversed(paths):
        if _checksum(path) == path.stem.rpartition("-")[2]:
            state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
            return state
        logger.warning("%s is damaged (its checksum differs): resuming from the one before", path)
    if paths:
        raise CheckpointError(
            f"{stage}: every checkpoint under {folder} is damaged; --restart-from {stage} trains it again"
        )
    return None


def has_states(stage_folder: Path) -> bool:
    """Whether an unfinished stage has states to resume from."""
    return any((stage_folder / FOLDER).glob("*.pt"))


def remove_states(stage_folder: Path) -> None:
    """Remove the states of a finished stage."""
    shutil.rmtree(stage_folder / FOLDER, ignore_errors=True)


def _states(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pt"))


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
