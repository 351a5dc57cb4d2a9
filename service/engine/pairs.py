"""Pairs of query and passage as inputs of the pool, scored by a re-ranker."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from service.errors import TextTooLong
from service.model.encoder import Encoded, Encoder, TextInput
from service.model.reranker import PairTokens, Reranker

CHARS_A_TOKEN = 4  # about


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a passage; the re-ranker truncates what does not fit."""

    query: str
    passage: str

    @property
    def size(self) -> int:
        """Its length in characters."""
        return len(self.query) + len(self.passage)


@dataclass(frozen=True, slots=True)
class PairWindow:
    """A query and a part of a passage that fits, as token ids with specials.  full_length: the ids before any cut."""

    input_ids: tuple[int, ...]
    full_length: int

    @property
    def size(self) -> int:
        """About its length in characters."""
        return CHARS_A_TOKEN * len(self.input_ids)


PairInput = Pair | PairWindow
Input = TextInput | PairInput


def scored(reranker: Reranker, pair: PairInput, truncate: bool) -> Encoded:
    """Return the score of a pair as a vector of one number.

    Raises: TextTooLong: it does not fit and `truncate` is off.  InferenceFailed: the model raised.
    """
    if isinstance(pair, Pair):
        tokens = reranker.tokenize(pair.query, pair.passage)
    else:
        query_cut = pair.full_length - len(pair.input_ids)  # a window leaves nothing out of its passage
        tokens = PairTokens(list(pair.input_ids), pair.full_length, query_cut)
    if tokens.truncated and not truncate:
        raise TextTooLong(
            f"and the query have {tokens.full_length} tokens; the re-ranker reads {reranker.max_length}, half of them "
            "for the query at most (set truncate to true, or ask for windows)"
        )
    score = np.array([reranker.score(tokens)], np.float32)  # the model's own type: every bit stays
    return Encoded(score, len(tokens.input_ids), tokens.full_length, tokens.query_cut)


def encode_with(encoder: Encoder, reranker: Reranker | None) -> Callable[[Input, bool], Encoded]:
    """Return what workers call: the encoder for texts, the re-ranker for pairs."""

    def encode(given: Input, truncate: bool) -> Encoded:
        if reranker is not None and isinstance(given, PairInput):
            return scored(reranker, given, truncate)
        assert not isinstance(given, PairInput)  # noqa: S101 - routes make pairs only for a re-ranker
        return encoder.encode(given, truncate)

    return encode
