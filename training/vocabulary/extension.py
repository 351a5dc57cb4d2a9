"""Adds pieces of a language to a Unigram vocabulary, by editing its `tokenizer.json`. The ids that are there stay.

SentencePiece proposes pieces on the language's own sentences (Kudo 2018, ACL). A piece's score is the logarithm of its
share of their pieces, less that of the number of languages: in text of all of them it is as much rarer.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import sentencepiece
from tokenizers import Tokenizer  # type: ignore[import-untyped]

from training.errors import ConfigError
from training.vocabulary.pruning import count_pieces
from training.vocabulary.tokenizer import WORD_START

Piece = tuple[str, float]  # with its score
LEAST_COUNT = 3  # of a piece of several characters; a rarer one is not learnt
PROPOSED = 2  # times as many as are asked for: some are known, or rare once the others are there
MOST_CHARACTERS = 16
ROUNDS = 3  # of counting and scoring


def new_pieces(
    tokenizer: Tokenizer, texts: Sequence[str], most: int, *, others: Sequence[str], languages: int
) -> list[Piece]:
    """The pieces that a Unigram vocabulary lacks for a language: characters, then the most frequent; the best first.

    Args:   texts: in the language.  others: texts that shall be cut as before.  languages: that the model knows.
    Raises: ConfigError: the vocabulary is of another kind.
    """
    if (kind := json.loads(tokenizer.to_str())["model"]["type"]) != "Unigram":
        raise ConfigError(f"the model's vocabulary is {kind}; pieces can be added to Unigram alone")
    known = tokenizer.get_vocab()
    pieces = [piece for piece in _proposed(tokenizer, texts, PROPOSED * most) if piece[0] not in known]
    for _ in range(ROUNDS):
        pieces = _frequent(tokenizer, pieces, texts, most, languages=languages)
    while True:
        counts_V = count_pieces(extended(tokenizer, pieces), others)
        unused = [
            piece for piece, count in zip(pieces, counts_V[len(counts_V) - len(pieces) :], strict=True) if not count
        ]
        if len(unused) == len(pieces):
            return pieces
        pieces = unused


def extended(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> Tokenizer:
    """The tokenizer with these pieces after its own."""
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    state["model"]["vocab"] += [list(piece) for piece in pieces]
    return Tokenizer.from_str(json.dumps(state))


def parts_of(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> list[list[int]]:
    """Of each piece, the ids of the pieces that it replaces, unknown ones left out."""
    model = tokenizer.model
    unknown = json.loads(tokenizer.to_str())["model"]["unk_id"]
    return [[token.id for token in model.tokenize(piece) if token.id != unknown] for piece, _ in pieces]


def _proposed(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> list[Piece]:
    """What SentencePiece finds, and repeated words: it seeks what is repeated within distinct words."""
    normalizer = tokenizer.normalizer
    lines = [normalizer.normalize_str(text) if normalizer else text for text in texts]
    words = Counter(WORD_START + word for line in lines for word in line.split() if len(word) < MOST_CHARACTERS)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=most + len(set("".join(lines))),
        hard_vocab_limit=False,
        character_coverage=1.0,
        max_sentencepiece_length=MOST_CHARACTERS,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    scores = {word: math.log(count / words.total()) for word, count in words.items() if count >= LEAST_COUNT}
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for id_ in range(processor.GetPieceSize()):
        if not processor.IsControl(id_) and not processor.IsUnknown(id_):
            scores[processor.IdToPiece(id_)] = processor.GetScore(id_)
    return list(scores.items())


def _frequent(
    tokenizer: Tokenizer, pieces: list[Piece], texts: Sequence[str], most: int, *, languages: int
) -> list[Piece]:
    """Those that the language's texts use, scored by how often."""
    counts_V = count_pieces(extended(tokenizer, pieces), texts)
    total, own = counts_V.sum(), counts_V[len(counts_V) - len(pieces) :]
    kept = [
        (piece, math.log(max(count, 1) / total) - math.log(languages + 1))
        for (piece, _), count in zip(pieces, own.tolist(), strict=True)
        if len(piece) == 1 or count >= LEAST_COUNT
    ]
    return sorted(kept, key=lambda piece: (len(piece[0]) > 1, -piece[1], piece[0]))[:most]
