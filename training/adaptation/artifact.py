"""Reads an artifact into a module, and exports what it became. The only module here that knows `export`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from export.bundle import rewrite_card
from export.card import model_card
from export.errors import ExportError
from export.pipeline import export_artifact
from export.request import ExportRequest, Progress
from export.restore.source import open_source
from export.restore.student import restored_student
from service.model.artifact import MANIFEST_FILE, MODEL_FILE, ArtifactError, Manifest, load_manifest
from training.errors import AlignmentError
from training.models.sentence_encoder import SentenceEncoder

__all__ = ["MANIFEST_FILE", "Form", "describe_artifact", "export_checkpoint", "read_artifact"]


@dataclass(frozen=True)
class Form:
    """How an artifact stores its weights.  word_bits: of the word table in int8; None: fp32."""

    precision: Literal["int8", "fp32"]
    word_bits: Literal[4, 8] | None


def read_artifact(folder: Path) -> tuple[SentenceEncoder, PreTrainedTokenizerFast, dict[str, Any], Form]:
    """A trainable model, its tokenizer, what `crosslet.json` would say of it, and how it was stored.

    Raises: AlignmentError: the artifact is damaged, or of a kind that cannot be trained further.
    """
    try:
        source = open_source(folder)
        manifest = source.manifest
        if manifest.prompts or manifest.truncate_dim is not None:
            raise AlignmentError(f"{folder} has prompts or cuts its vectors; `crosslet align` takes such models")
        model = restored_student(source)
    except (ArtifactError, ExportError) as exc:
        raise AlignmentError(str(exc)) from exc
    record = _record(manifest) | {
        "parity_texts": {"parity": list(source.parity.texts[:-1])}
    }  # the last joins the others
    return model, source.tokenizer, record, Form(manifest.precision, source.weights.word_bits)


def export_checkpoint(checkpoint: Path, out: Path, form: Form, calibration: Path, progress: Progress) -> None:
    """Write the artifact of a checkpoint, stored as the one before.

    Args:   calibration: a text a line, for the activation steps of int8.
    Raises: AlignmentError: the exporter's gates refuse it.
    """
    transformers_logging.set_verbosity_error()
    request = ExportRequest(
        checkpoint,
        out,
        form.precision,
        calibration=calibration if form.precision == "int8" else None,
        word_bits=form.word_bits or 8,
    )
    try:
        export_artifact(request, progress=progress)
    except (ArtifactError, ExportError) as exc:
        raise AlignmentError(str(exc)) from exc


def describe_artifact(folder: Path, evaluation: Mapping[str, Any]) -> None:
    """Rewrite manifest and card with what was measured of the artifact as it is served."""
    manifest = load_manifest(folder)
    manifest = replace(manifest, evaluation={**manifest.evaluation, **evaluation})
    card = model_card(manifest, model_bytes=(folder / MODEL_FILE).stat().st_size, folder=folder)
    rewrite_card(folder, card, manifest)


def _record(manifest: Manifest) -> dict[str, Any]:
    facts = {
        name: manifest.training[name] for name in ("config", "git_commit", "pairs_seen") if name in manifest.training
    }
    return {
        "name": manifest.name,
        "languages": list(manifest.languages),
        "max_length": manifest.max_length,
        "data": [asdict(source) for source in manifest.data_licences],
        **facts,
    }
