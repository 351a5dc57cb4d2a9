"""How a tokenizer cuts each side of the pairs: into how many pieces, and how many of them it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from training.errors import AlignmentError

MOST_UNKNOWN = 0.3  # share of the pieces


@dataclass(frozen=True)
class Fertility:
    """Of a side.  A word is what stands between spaces.  unknown: share of the pieces."""

    pieces: int
    pieces_a_word: float
    characters_a_piece: float
    unknown: float


def fertility(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> Fertility:
    """Special tokens are not counted."""
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    pieces = sum(map(len, rows))
    unknown = sum(row.count(tokenizer.unk_token_id) for row in rows)
    words, characters = (sum(map(len, parts)) for parts in ([text.split() for text in texts], texts))
    return Fertility(pieces, pieces / max(words, 1), characters / max(pieces, 1), unknown / max(pieces, 1))


def check_known(found: Fertility, *, column: int, language: str) -> None:
    """Raises: AlignmentError: the tokenizer does not know the language's characters: nothing can be learnt."""
    if found.unknown > MOST_UNKNOWN:
        raise AlignmentError(
            f"the model's vocabulary does not know {100 * found.unknown:.0f} % of the pieces of column {column} "
            f"({language}); {100 * MOST_UNKNOWN:.0f} % are allowed. --new-pieces 1000 adds pieces of that language, "
            "or distil a model whose vocabulary has it (docs/guide/adapt.md)"
        )
