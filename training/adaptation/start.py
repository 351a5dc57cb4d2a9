"""The model that training goes on from, and a checkpoint of this project as one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.errors import AlignmentError, LoadError
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder

RECORD_FILE = "crosslet.json"


@dataclass(frozen=True)
class Start:
    """A model to train, with eager attention, and what is known of it.  record: as in `crosslet.json`."""

    model: SentenceEncoder
    tokenizer: PreTrainedTokenizerFast
    record: dict[str, Any]

    @property
    def max_length(self) -> int:
        """Tokens of a text, special ones included."""
        return int(self.record["max_length"])


def open_checkpoint(folder: Path) -> Start:
    """Open a checkpoint with its record.

    Raises: AlignmentError: it is none, or cannot be trained further.
    """
    if not (folder / RECORD_FILE).is_file():
        raise AlignmentError(
            f"{folder} is neither an artifact (manifest.json) nor a checkpoint of this project ({RECORD_FILE}); "
            "`crosslet align` takes any sentence-transformers model"
        )
    try:
        model = load_sentence_encoder(folder, attention="eager")
    except (LoadError, ValueError) as exc:
        raise AlignmentError(f"{folder} cannot be trained further: {exc}") from exc
    record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    return Start(model, AutoTokenizer.from_pretrained(str(folder)), record)
