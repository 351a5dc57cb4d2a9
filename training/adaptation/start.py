"""The model that training goes on from: an artifact, or a checkpoint of this project."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.adaptation.artifact import MANIFEST_FILE, Form, read_artifact
from training.errors import AlignmentError, LoadError
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder

RECORD_FILE = "crosslet.json"


@dataclass(frozen=True)
class Start:
    """A model to train, with eager attention, and what is known of it.

    record: as in `crosslet.json`.  form: how the artifact is stored; None: it is a checkpoint.
    """

    model: SentenceEncoder
    tokenizer: PreTrainedTokenizerFast
    record: dict[str, Any]
    form: Form | None

    @property
    def max_length(self) -> int:
        """Tokens of a text, special ones included."""
        return int(self.record["max_length"])


def open_start(folder: Path) -> Start:
    """Open an artifact, or a checkpoint with its record.

    Raises: AlignmentError: it is neither, or cannot be trained further.
    """
    if (folder / MANIFEST_FILE).is_file():
        return Start(*read_artifact(folder))
    if not (folder / RECORD_FILE).is_file():
        raise AlignmentError(
            f"{folder} is neither an artifact ({MANIFEST_FILE}) nor a checkpoint of this project ({RECORD_FILE}); "
            "`crosslet align` takes any sentence-transformers model"
        )
    try:
        model = load_sentence_encoder(folder, attention="eager")
    except (LoadError, ValueError) as exc:
        raise AlignmentError(f"{folder} cannot be trained further: {exc}") from exc
    record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    return Start(model, AutoTokenizer.from_pretrained(str(folder)), record, None)
