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
MOST_CHARACTERS = 20  # of a word, its start mark among them


def grow_tokenizer(tokenizer: Tokenizer, texts: Mapping[str, Iterable[str]], size: int) -> Tokenizer:
    """A copy with at most `size` pieces: those it has, and words, the most frequent in their own language first.

    Args:   texts: of each language that gets words.
    Raises: ConfigError: it is no BPE, or has more pieces than `size`, or ids beyond its own pieces.
    """
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    model = state["model"]
    if model["type"] != "BPE":
        raise ConfigError(f"a {model['type']} tokenizer cannot be grown; BPE can")
    vocabulary: dict[str, int] = model["vocab"]
    if tokenizer.get_vocab_size(with_added_tokens=True) != len(vocabulary):
        raise ConfigError("the tokenizer has added tokens beyond its model: it cannot be grown")
    if len(vocabulary) > size:
        raise ConfigError(f"tokenizer.vocab_size is {size}; the base's vocabulary has {len(vocabulary)} pieces already")
    shares: dict[str, float] = {}
    for language_texts in texts.values():
        counts = count_words(tokenizer, language_texts)
        for word, count in counts.items():
            if count >= LEAST_COUNT and len(word) <= MOST_CHARACTERS and word not in vocabulary:
                shares[word] = max(shares.get(word, 0.0), count / counts.total())
    for word in sorted(shares, key=lambda word: (-shares[word], word))[: size - len(vocabulary)]:
        vocabulary[word] = len(vocabulary)
    model["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(state))


def count_words(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs, normalised and cut as the tokenizer does before it looks for pieces."""
    counts: Counter[str] = Counter()
    for text in texts:
        normalised = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised))
    return counts


def grown_embeddings(table_VH: Tensor, before: Tokenizer, after: Tokenizer) -> Tensor:
    """(W, H): the rows of the vocabulary before; a new word has the mean of the pieces that it was cut into."""
    words = sorted(after.get_vocab().items(), key=lambda item: item[1])[len(table_VH) :]
    rows = [table_VH[[piece.id for piece in before.model.tokenize(word)]].mean(dim=0) for word, _ in words]
    return torch.cat([table_VH, *(row[None] for row in rows)])
