"""Writes the adapted model: an artifact of an artifact, a checkpoint of a checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.adaptation.artifact import MANIFEST_FILE, describe_artifact, export_checkpoint
from training.adaptation.job import Task
from training.adaptation.lesson import kept_texts
from training.adaptation.start import RECORD_FILE
from training.models.sentence_encoder import save_sentence_encoder
from training.system.files import write_json_atomically


def write_model(task: Task, scratch: Path, *, licence: str) -> Path:
    """Write the weights in `task.start.model` under a scratch folder; returns the model's folder.

    Args:   licence: of the pairs.
    Raises: AlignmentError: the exporter's gates refuse it.
    """
    start, checkpoint = task.start, scratch / "checkpoint"
    checkpoint.mkdir()
    save_sentence_encoder(start.model, start.tokenizer, checkpoint, max_length=start.max_length)
    write_json_atomically(checkpoint / RECORD_FILE, adapted_record(task, licence=licence))
    if start.form is None:
        return checkpoint
    calibration = scratch / "calibration.txt"
    texts = dict.fromkeys([text for pair in task.split.train for text in pair] + kept_texts(task.model.languages))
    calibration.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    export_checkpoint(checkpoint, scratch / "artifact", start.form, calibration, say)
    return scratch / "artifact"


def describe_model(folder: Path, facts: Mapping[str, Any]) -> None:
    """Add what the adaptation gained and lost to a model that was written."""
    if (folder / MANIFEST_FILE).is_file():
        describe_artifact(folder, {"adaptation": facts})
        return
    record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    write_json_atomically(folder / RECORD_FILE, record | {"evaluation": {"adaptation": facts}})


def adapted_record(task: Task, *, licence: str) -> dict[str, Any]:
    """`crosslet.json` of the adapted model: its scores before are left out, they are another model's."""
    before = task.start.record
    languages = dict.fromkeys([*before["languages"], *(language.split("_")[0] for language in task.pairs.languages)])
    source = {"source": f"{task.pairs.path.name}, pairs", "licence": licence, "url": "", "pairs": len(task.split.train)}
    return {
        **before,
        "name": f"{before['name']}-{task.pairs.label}",
        "languages": list(languages),
        "evaluation": {},
        "weaknesses": [],
        "data": [*before.get("data", []), source],
    }


def say(message: str) -> None:
    """One line of the exporter's progress on stderr."""
    print(f"export: {message}", file=sys.stderr, flush=True)
