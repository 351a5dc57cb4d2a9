"""`crosslet adapt MODEL --pairs FILE --out DIR`: goes on training a model with a user's pairs, on a CPU.

An artifact is read back into a module, and what it became is exported in the same form; a checkpoint stays one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers.utils import logging as transformers_logging

from export.__main__ import say
from export.align import (
    REFUSED,
    add_arguments,
    at_least_1,
    finite_rate,
    is_refused,
    model_folder,
    print_gain,
    read_split,
    record,
    remove_model,
)
from export.bundle import rewrite_card
from export.errors import ExportError
from export.evaluation.models import load_model
from export.pipeline import export_artifact
from export.request import ExportRequest
from export.restore.source import open_source, restored_student
from service.model.artifact import MANIFEST_FILE, ArtifactError, load_manifest
from training.adaptation.job import Task, Training, adapt
from training.adaptation.lesson import kept_texts
from training.adaptation.report import write_report
from training.adaptation.start import Start, open_checkpoint
from training.adaptation.trainer import RATES, UNFROZEN, Settings
from training.alignment.pairs import PairFile, Split, with_languages
from training.alignment.scores import ServedScores, lost_beyond, served_scores
from training.errors import AlignmentError
from training.models.sentence_encoder import save_sentence_encoder
from training.system.command import exit_status
from training.system.files import RECORD_FILE, write_json_atomically

UNFINISHED = ".training."  # begins the name of a folder in --out


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0; 1 where nothing is gained or a language is harmed; 2 with one sentence; 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    return exit_status(lambda: run(options), stopped="stopped; the same command goes on")


def run(options: argparse.Namespace) -> int:
    """Read, train, export, measure, report; keep the model where it gains and harms nothing."""
    torch.set_num_threads(1)  # beside other work a second thread costs more than it brings
    out = model_folder(options)
    pairs, split = read_split(options)
    served = load_model(options.model)
    start, form = open_start(Path(options.model))
    settings = Settings(
        options.unfreeze,
        options.epochs,
        options.learning_rate,
        max_length=min(Settings.max_length, start.max_length),
        seed=options.seed,
        round_words=form is not None and form.word_bits == 4,
    )
    most, folder = options.max_search_loss, unfinished_folder(options, pairs, split, settings, served.revision)
    task = Task(
        served, pairs, split, options.data, start, settings, options.new_pieces, folder=folder, max_search_loss=most
    )
    before = served_scores(served, task, bar="scores before")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        training = adapt(task)
    except AlignmentError:
        shutil.rmtree(folder)
        with suppress(OSError):  # it has an earlier run's report
            options.out.rmdir()
        raise
    strength = f"strength {training.chosen.strength:g}"
    with tempfile.TemporaryDirectory(prefix=".export.", dir=options.out) as scratch:
        written = write_model(replace(task, start=training.start), form, Path(scratch), licence=options.licence)
        after = served_scores(load_model(str(written)), task, bar="scores after")
        write_report(task, training, before, after, options.out, model=Path(options.model).name)
        print_gain(options, task, before, after, strength)
        shutil.rmtree(folder)
        if (reason := refusal(task, training, before, after)) and is_refused(options, reason):
            return REFUSED
        method = f"{settings.unfreeze}, {settings.epochs} passes, {strength}"
        facts = {"before": served.revision, "new_pieces": training.pieces, **record(task, before, after, method)}
        describe_model(written, facts)
        remove_model(out)
        written.rename(out)
    print(f"model: {out}")
    return 0


def unfinished_folder(
    options: argparse.Namespace, pairs: PairFile, split: Split, settings: Settings, revision: str
) -> Path:
    """Return the folder in --out of an interrupted training with the same model, pairs and settings; remove others."""
    facts = repr((revision, pairs.languages, split.train, settings, options.new_pieces))
    folder: Path = options.out / f"{UNFINISHED}{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    for other in options.out.glob(f"{UNFINISHED}*"):
        if other != folder:
            shutil.rmtree(other)
    return folder


def refusal(task: Task, training: Training, before: ServedScores, after: ServedScores) -> str | None:
    """Why the model is not worth writing, if it is not."""
    if lost := task.lost(before.guard, after.guard):
        return lost_beyond(lost)
    if training.chosen.dev_p1 <= training.before_p1:
        return f"nothing gained on dev: P@1 {training.before_p1:.1f} before, {training.chosen.dev_p1:.1f} after"
    return None


@dataclass(frozen=True)
class Form:
    """How an artifact stores its weights and reads texts.  word_bits: of the word table in int8; None: fp32."""

    precision: Literal["int8", "fp32"]
    word_bits: Literal[4, 8] | None
    folds_text: bool


def open_start(folder: Path) -> tuple[Start, Form | None]:
    """Open an artifact, or a checkpoint with its record, whose form is None.

    Raises: AlignmentError: it is neither, damaged, or of a kind that cannot be trained further.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return open_checkpoint(folder), None
    try:
        source = open_source(folder)
        manifest = source.manifest
        if manifest.prompts or manifest.truncate_dim is not None:
            raise AlignmentError(f"{folder} has prompts or cuts its vectors; `crosslet align` takes such models")
        model = restored_student(source)
    except (ArtifactError, ExportError) as exc:
        raise AlignmentError(str(exc)) from exc
    return Start(model, source.tokenizer, source.record()), Form(
        manifest.precision, source.weights.word_bits, manifest.folds_text
    )


def write_model(task: Task, form: Form | None, scratch: Path, *, licence: str) -> Path:
    """Write the weights in `task.start.model` under a scratch folder; returns the model's folder.

    Args:   form: of the artifact to write; None: a checkpoint.  licence: of the pairs.
    Raises: AlignmentError: the exporter's gates refuse it.
    """
    start, checkpoint = task.start, scratch / "checkpoint"
    checkpoint.mkdir()
    save_sentence_encoder(start.model, start.tokenizer, checkpoint, max_length=start.max_length)
    write_json_atomically(checkpoint / RECORD_FILE, adapted_record(task, licence=licence))
    if form is None:
        return checkpoint
    calibration, out = scratch / "calibration.txt", scratch / "artifact"
    texts = dict.fromkeys([text for pair in task.split.train for text in pair] + kept_texts(task.model.languages))
    calibration.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    transformers_logging.set_verbosity_error()
    request = ExportRequest(
        checkpoint,
        out,
        form.precision,
        calibration=calibration if form.precision == "int8" else None,
        word_bits=form.word_bits or 8,
        fold_text=form.folds_text,
    )
    try:
        export_artifact(request, progress=say)
    except (ArtifactError, ExportError) as exc:
        raise AlignmentError(str(exc)) from exc
    return out


def adapted_record(task: Task, *, licence: str) -> dict[str, Any]:
    """`crosslet.json` of the adapted model: its scores before are left out, they are another model's."""
    before = task.start.record
    source = {"source": f"{task.pairs.path.name}, pairs", "licence": licence, "url": "", "pairs": len(task.split.train)}
    return {
        **before,
        "name": f"{before['name']}-{task.pairs.label}",
        "languages": list(with_languages(before["languages"], task.pairs.label)),
        "evaluation": {},
        "weaknesses": [],
        "data": [*before.get("data", []), source],
    }


def describe_model(folder: Path, facts: Mapping[str, Any]) -> None:
    """Add to a model's card, or a checkpoint's record, what the adaptation gained and lost as it is served."""
    if not (folder / MANIFEST_FILE).is_file():
        record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
        write_json_atomically(folder / RECORD_FILE, record | {"evaluation": {"adaptation": facts}})
        return
    manifest = load_manifest(folder)
    manifest = replace(manifest, evaluation={**manifest.evaluation, "adaptation": facts})
    rewrite_card(folder, manifest)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crosslet adapt", description="Train a model further with your pairs; docs/guide/adapt.md has more."
    )
    add_arguments(parser, pairs_required=True)
    add, default = parser.add_argument, Settings()
    rates = ", ".join(f"{rate:g} ({name})" for name, rate in RATES.items())
    add("--unfreeze", choices=UNFROZEN, default=default.unfreeze, help="what is trained; default: %(default)s")
    add("--epochs", type=at_least_1, default=default.epochs, help="passes over the pairs; default: %(default)s")
    add(
        "--new-pieces",
        type=at_least_1,
        default=0,
        metavar="N",
        help="of a language that the model was not taught, at most, for a Unigram vocabulary; default: none",
    )
    add("--learning-rate", type=finite_rate, help=f"default: {rates}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
