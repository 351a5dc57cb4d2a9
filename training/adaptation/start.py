"""Opens a checkpoint to train further, and measures how its tokenizer cuts the pairs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.errors import AlignmentError, LoadError
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder
from training.system.files import RECORD_FILE

MOST_UNKNOWN = 0.3  # share of the pieces


@dataclass(frozen=True)
class Start:
    """A model to train, with eager attention.  record: as in `crosslet.json`."""

    model: SentenceEncoder
    tokenizer: PreTrainedTokenizerFast
    record: dict[str, Any]

    @property
    def max_length(self) -> int:
        """Tokens of a text, special ones included."""
        return int(self.record["max_length"])


def open_checkpoint(folder: Path) -> Start:
    """Raises: AlignmentError: the folder is no checkpoint with its record, or cannot be trained further."""
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


@dataclass(frozen=True)
class Fertility:
    """How a tokenizer cuts texts.  A word is what stands between spaces.  unknown: share of the pieces."""

    pieces_a_word: float
    characters_a_piece: float
    unknown: float


def fertility(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Fertility:
    """Count pieces without special tokens."""
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    pieces = sum(map(len, rows))
    unknown = sum(row.count(tokenizer.unk_token_id) for row in rows)
    words, characters = sum(len(text.split()) for text in texts), sum(map(len, texts))
    return Fertility(pieces / max(words, 1), characters / max(pieces, 1), unknown / max(pieces, 1))


def check_known(cut: Fertility, *, column: int, language: str) -> None:
    """Raises: AlignmentError: the tokenizer does not know the language's characters: nothing can be learnt."""
    if cut.unknown > MOST_UNKNOWN:
        raise AlignmentError(
            f"the model's vocabulary does not know {100 * cut.unknown:.0f} % of the pieces of column {column} "
            f"({language}); {100 * MOST_UNKNOWN:.0f} % are allowed. --new-pieces 1000 adds pieces of that language, "
            "or distil a model whose vocabulary has it (docs/guide/adapt.md)"
        )
