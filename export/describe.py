"""`python -m export.describe ARTIFACT`: adds scores and notes to the card and the manifest, after the export.

Scores are those of the artifact as it is served. Notes are free text: how to reproduce the model, its latency, how to
read the figures. The model and its fingerprint stay unchanged.
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
from export.errors import BadRequest
from service.model.artifact import CARD_FILE, load_manifest, verify_files
from training.system.files import refuse_pointers

DETAILS = ("_forward", "_backward", "_p5")  # suffixes of details, left out of the card


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 2 with the reason on stderr, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.describe", description="Add scores and notes to the card of an artifact."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--served", type=Path, metavar="FILE.json", help="output of `crosslet evaluate --out FILE`")
    parser.add_argument("--notes", type=Path, metavar="FILE.md", help="Markdown for the card's section on training")
    options = parser.parse_args(arguments)
    return status_of(lambda: describe(options.artifact, served=options.served, notes=options.notes))


def describe(artifact: Path, *, served: Path | None, notes: Path | None) -> None:
    """Rewrite the card; scores or notes that are not given stay unchanged.

    Raises: BadRequest: neither is given, or a file is malformed.  ArtifactError: the folder is not an artifact.
    """
    if served is None and notes is None:
        raise BadRequest("nothing to write: give --served, --notes or both")
    manifest = load_manifest(artifact)
    # A run that was stopped may have left another card: running again mends it.
    rest = {name: entry for name, entry in manifest.files.items() if name != CARD_FILE}
    verify_files(artifact, dataclasses.replace(manifest, files=rest))
    evaluation, training = dict(manifest.evaluation), dict(manifest.training)
    if served is not None:
        evaluation["served"] = _scores(served)
    if notes is not None:
        training["notes"] = _text(notes).strip()
    manifest = dataclasses.replace(manifest, evaluation=evaluation, training=training)
    rewrite_card(artifact, manifest)
    say(f"wrote the card of {artifact}")


def _text(path: Path) -> str:
    refuse_pointers([path])
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"{path} is not UTF-8 text") from exc


def _scores(path: Path) -> Mapping[str, Any]:
    try:
        scores = json.loads(_text(path))
    except json.JSONDecodeError as exc:
        raise BadRequest(f"{path} is not JSON; give the output of `crosslet evaluate --out`") from exc
    if not isinstance(scores, dict) or not scores or not all(isinstance(row, dict) for row in scores.values()):
        raise BadRequest(f"{path} has no tables of scores; give the output of `crosslet evaluate --out`")
    return {name: values for name, values in scores.items() if not name.endswith(DETAILS)}


if __name__ == "__main__":
    sys.exit(main())
