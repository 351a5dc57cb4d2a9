"""Pairs of query and passage as inputs of the pool, scored by a re-ranker."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from service.errors import TextTooLong
from service.model.encoder import Encoded, Encoder, TextInput
from service.model.reranker import PairTokens, Reranker
from service.model.stages import StageTimer

CHARS_A_TOKEN = 4  # about


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a passage; the re-ranker truncates what does not fit."""

    query: str
    passage: str


PairInput = Pair | PairTokens  # PairTokens: a query and a part of a passage that fits
Input = TextInput | PairInput


def size_of(text: Input) -> int:
    """Return the length in characters; of token ids, about that."""
    if isinstance(text, str):
        return len(text)
    if isinstance(text, Pair):
        return len(text.query) + len(text.passage)
    return CHARS_A_TOKEN * len(text if isinstance(text, tuple) else text.input_ids)


def scored(reranker: Reranker, pair: PairInput, truncate: bool) -> Encoded:
    """Return the score of a pair as a vector of one number.

    Raises: TextTooLong: it does not fit and `truncate` is off.  InferenceFailed: the model raised.
    """
    with StageTimer("tokenise"):
        tokens = reranker.tokenize(pair.query, pair.passage) if isinstance(pair, Pair) else pair
    if tokens.truncated and not truncate:
        raise TextTooLong(
            f"and the query have {tokens.full_length} tokens; the re-ranker reads {reranker.manifest.max_length}, half "
            "of them for the query at most (set truncate to true, or ask for windows)"
        )
    with StageTimer("inference"):
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
