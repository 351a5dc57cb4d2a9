"""Grows a BPE vocabulary by whole words of languages that it cuts into many pieces. Knows text and `tokenizer.json`.

BPE counts all languages together, so a language with little text gets few pieces of its own. A word that is a piece
takes one row of the word table and no merges: it is looked up before anything is merged (`ignore_merges`).

Shapes: V vocabulary before, W after, H hidden.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor

from training.errors import ConfigError

LEAST_COUNT = 3  # what occurs less often is learnt no better whole than in pieces
MOST_CHARACTERS = 20  # of a word


def grow_tokenizer(tokenizer: Tokenizer, texts: Mapping[str, Iterable[str]], size: int) -> Tokenizer:
    """A copy with at most `size` pieces: those it has, and words, the most frequent in their own language first.

    Args:   texts: of each language that gets words.
    Raises: ConfigError: it is no BPE, cuts no words, has ids with gaps or beyond its pieces, or more than `size`.
    """
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    model = state["model"]
    if model["type"] != "BPE":
        raise ConfigError(f"a {model['type']} tokenizer cannot be grown; BPE can")
    if tokenizer.pre_tokenizer is None:
        raise ConfigError("the tokenizer does not cut a text into words: it cannot be grown")
    vocabulary: dict[str, int] = model["vocab"]
    size_before = tokenizer.get_vocab_size(with_added_tokens=True)
    if sorted(vocabulary.values()) != list(range(size_before)):
        raise ConfigError("the tokenizer's ids have gaps, or go beyond its own pieces: it cannot be grown")
    if size_before > size:
        raise ConfigError(f"tokenizer.vocab_size is {size}; the base's vocabulary has {size_before} pieces already")
    shares: dict[str, float] = {}
    for language_texts in texts.values():
        counts = count_words(tokenizer, language_texts)
        for word, count in counts.items():
            if count >= LEAST_COUNT and word not in vocabulary and tokenizer.model.tokenize(word):
                shares[word] = max(shares.get(word, 0.0), count / counts.total())
    for word in sorted(shares, key=lambda word: (-shares[word], word))[: size - len(vocabulary)]:
        vocabulary[word] = len(vocabulary)
    model["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(state))


def count_words(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How often each word of a length that is learnt occurs, normalised and cut as the tokenizer does it."""
    counts: Counter[str] = Counter()
    for text in texts:
        normalised = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        words = tokenizer.pre_tokenizer.pre_tokenize_str(normalised)
        # by its place in the text: a word itself may be written in bytes
        counts.update(word for word, (start, stop) in words if stop - start <= MOST_CHARACTERS)
    return counts


def grown_embeddings(table_VH: Tensor, before: Tokenizer, after: Tokenizer) -> Tensor:
    """(W, H): the rows of the vocabulary before; a new word has the mean of the pieces that it was cut into.

    Args: table_VH: may have more rows than there are pieces, as some bases have for the sake of alignment.
    """
    size_before = before.get_vocab_size(with_added_tokens=True)
    words = [after.id_to_token(index) for index in range(size_before, after.get_vocab_size(with_added_tokens=True))]
    rows = [table_VH[[piece.id for piece in before.model.tokenize(word)]].mean(dim=0) for word in words]
    return torch.cat([table_VH[:size_before], *(row[None] for row in rows)])
