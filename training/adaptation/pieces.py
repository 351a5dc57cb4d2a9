"""New pieces for the languages that a model was not taught, and their rows of the word table.

Shapes: N pairs, V pieces, W width of the word table, P new pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from training.adaptation.lesson import kept_texts
from training.adaptation.start import Start
from training.alignment.pairs import Pair
from training.errors import AlignmentError, ConfigError
from training.models.encoder import CrossletEncoder, word_table
from training.models.lexical import bags_of, solve_ridge
from training.vocabulary.extension import extended, new_pieces, parts_of

RIDGE, ITERATIONS = 1.0, 40  # of the lexical start, as in training


def with_new_pieces(start: Start, pairs: Sequence[Pair], sides: Sequence[int], most: int) -> tuple[Start, int]:
    """A start with the same model and up to `most` more pieces in its vocabulary; and how many were added.

    Args:   sides: those in a language that the model was not taught.
    Raises: AlignmentError: there is no such side, or the vocabulary is of a kind that cannot be extended.
    """
    if not sides:
        raise AlignmentError("--new-pieces is for languages that the model was not taught; it was taught both of these")
    tokenizer = Tokenizer.from_str(start.tokenizer.backend_tokenizer.to_str())
    texts = [pair[side] for pair in pairs for side in sides]
    others = [pair[side] for pair in pairs for side in {0, 1} - set(sides)]
    others += kept_texts(None)  # the probe is not among them: it shows whether new pieces harm a language
    try:
        pieces = new_pieces(tokenizer, texts, most, others=others, languages=len(start.record["languages"]))
    except ConfigError as exc:
        raise AlignmentError(f"{exc}; leave --new-pieces out") from exc
    add_rows(start.model.encoder, parts_of(tokenizer, pieces))
    longer = PreTrainedTokenizerFast(
        tokenizer_object=extended(tokenizer, pieces),
        model_max_length=start.tokenizer.model_max_length,
        **start.tokenizer.special_tokens_map,
    )
    if pieces and len(sides) == 1:
        fit_rows(word_table(start.model.encoder).weight, longer, pairs, sides[0], len(pieces))
    return replace(start, tokenizer=longer), len(pieces)


@torch.no_grad()
def add_rows(encoder: CrossletEncoder, parts: Sequence[Sequence[int]]) -> None:
    """Append a row for each new piece: the mean of its parts' rows, or of all rows where it has none."""
    table = word_table(encoder)
    old_VW = table.weight
    mean_W = old_VW.mean(dim=0)
    new_PW = [old_VW[list(ids)].mean(dim=0) if ids else mean_W for ids in parts]
    table.weight = nn.Parameter(torch.cat([old_VW, torch.stack(new_PW)]) if new_PW else old_VW)
    table.num_embeddings = len(table.weight)
    encoder.config.base["vocab_size"] = encoder.body.config.vocab_size = table.num_embeddings


@torch.no_grad()
def fit_rows(
    table_VW: Tensor, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair], side: int, added: int
) -> None:
    """Move the last `added` rows so that the mean row of a text is that of its translation: the lexical start.

    Args: side: of the pairs, whose pieces are new.
    """
    texts = [[pair[one] for pair in pairs] for one in (side, 1 - side)]
    own, other = (bags_of(tokenizer(side_, add_special_tokens=False)["input_ids"], len(table_VW)) for side_ in texts)
    new, word_VW = slice(len(table_VW) - added, None), table_VW.numpy()
    rest_NW = other @ word_VW - own[:, : new.start] @ word_VW[: new.start]
    table_VW[new] = solve_ridge(
        own[:, new], torch.from_numpy(rest_NW), table_VW[new], ridge=RIDGE, iterations=ITERATIONS
    )
