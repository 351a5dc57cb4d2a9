"""`python -m export.describe ARTIFACT`: puts what is known after the export into the card and the manifest.

The scores of the artifact as it is served, and a text of one's own: how to make the model again, its latency, what to
know about the figures. Knows files; measures nothing. The model and its fingerprint stay as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from export.__main__ import say, status_of
from export.bundle import rewrite_card
from export.card import model_card
from export.errors import BadRequest
from service.model.artifact import MODEL_FILE, load_manifest, verify_files

DETAILS = ("_forward", "_backward", "_p5")  # of a score that stands beside them


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, 2 with the reason on stderr, or 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.describe", description="Put scores and notes into the card of an artifact."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--served", type=Path, metavar="FILE.json", help="what `crosslet evaluate --out FILE` wrote")
    parser.add_argument("--notes", type=Path, metavar="FILE.md", help="Markdown for the card's section on training")
    options = parser.parse_args(arguments)
    return status_of(lambda: describe(options.artifact, served=options.served, notes=options.notes))


def describe(artifact: Path, *, served: Path | None, notes: Path | None) -> None:
    """Write the card anew; what is not given stays as it is.

    Raises: BadRequest: neither is given, or a file is not what it should be.  ArtifactError: the folder is none.
    """
    if served is None and notes is None:
        raise BadRequest("nothing to write: give --served, --notes or both")
    manifest = load_manifest(artifact)
    verify_files(artifact, manifest)
    evaluation, training = dict(manifest.evaluation), dict(manifest.training)
    if served is not None:
        evaluation["served"] = _scores(served)
    if notes is not None:
        training["notes"] = _text(notes).strip()
    manifest = dataclasses.replace(manifest, evaluation=evaluation, training=training)
    card = model_card(manifest, model_bytes=(artifact / MODEL_FILE).stat().st_size)
    rewrite_card(artifact, card, manifest)
    say(f"wrote the card of {artifact}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"{path} is no text in UTF-8") from exc


def _scores(path: Path) -> Mapping[str, Any]:
    try:
        scores = json.loads(_text(path))
    except json.JSONDecodeError as exc:
        raise BadRequest(f"{path} is no JSON; give what `crosslet evaluate --out` wrote") from exc
    if not isinstance(scores, dict) or not scores or not all(isinstance(one, dict) for one in scores.values()):
        raise BadRequest(f"{path} has no tables of scores; give what `crosslet evaluate --out` wrote")
    return {name: values for name, values in scores.items() if not name.endswith(DETAILS)}


if __name__ == "__main__":
    sys.exit(main())
