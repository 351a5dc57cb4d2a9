"""Prunes a tokenizer to the pieces that a corpus uses, by editing its `tokenizer.json`.

A text made of kept pieces is tokenised as before. WordPiece and Unigram: the best segmentation stays the best among
fewer pieces. BPE: every merge that leads to a kept piece is kept.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from tokenizers.pre_tokenizers import ByteLevel  # type: ignore[import-untyped]

from training.errors import ConfigError

CONTINUATION = "##"  # WordPiece's prefix inside a word
COUNT_BATCH = 10_000
EMOJI = re.compile("[\u2600-\u27bf\u2b05-\u2b55\U0001f300-\U0001faff]")  # one emoji; kept, though training text has few


def count_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> NDArray[np.int64]:
    """How often each piece of the vocabulary occurs in the texts: (V,)."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    counts_V = np.zeros(size, dtype=np.int64)
    for start in range(0, len(texts), COUNT_BATCH):
        encodings = tokenizer.encode_batch(list(texts[start : start + COUNT_BATCH]), add_special_tokens=False)
        counts_V += np.bincount([index for encoding in encodings for index in encoding.ids], minlength=size)
    return counts_V


def prune_tokenizer(
    tokenizer: Tokenizer, counts_V: NDArray[np.int64], size: int, *, fill: bool = False
) -> tuple[Tokenizer, NDArray[np.int64]]:
    """A tokenizer of at most `size` pieces: special tokens, characters in use, emoji, then the most frequent pieces.

    Args:    fill: where that leaves room, add pieces in the scripts in use, by id: frequent ones have the lowest.
             A small corpus's pieces alone would cut other words to characters.
    Returns: the tokenizer, and the old id of each new one, (V',).
    Raises:  ConfigError: its kind cannot be pruned, or special tokens and characters alone exceed `size`.
    """
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    model = state["model"]
    if model["type"] not in ("WordPiece", "Unigram", "BPE"):
        raise ConfigError(f"a {model['type']} tokenizer cannot be pruned; WordPiece, Unigram and BPE can")
    pieces = _pieces(model)
    keep = _required(state, pieces, counts_V)
    if len(keep) > size:
        raise ConfigError(
            f"tokenizer.vocab_size is {size}; special tokens and the corpus's characters alone take {len(keep)}"
        )
    ids = {piece: index for index, piece in enumerate(pieces)}
    sources = _merge_sources(model)
    counts_V = counts_V[: len(pieces)]
    scripts = {"", *(script(character) for index in np.flatnonzero(counts_V) for character in pieces[index])}
    for index in np.argsort(-counts_V, kind="stable"):
        if len(keep) >= size or (counts_V[index] == 0 and not fill):
            break
        if counts_V[index] == 0 and not {script(character) for character in pieces[index]} <= scripts:
            continue
        needed = {ids[piece] for piece in _with_parts(pieces[index], sources)} - keep
        if len(keep) + len(needed) <= size:
            keep |= needed
    old_ids = np.array(sorted(keep), dtype=np.int64)
    _renumber(state, pieces, {int(old): new for new, old in enumerate(old_ids)})
    return Tokenizer.from_str(json.dumps(state)), old_ids


@cache
def script(character: str) -> str:
    """The script of a letter by the first word of its Unicode name (LATIN, CJK, HANGUL); "" for other characters."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def _pieces(model: dict[str, Any]) -> list[str]:
    if model["type"] == "Unigram":
        return [piece for piece, _ in model["vocab"]]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if [model["vocab"][piece] for piece in pieces] != list(range(len(pieces))):
        raise ConfigError("the tokenizer's ids have gaps; it cannot be pruned")
    return pieces


def _required(state: dict[str, Any], pieces: list[str], counts_V: NDArray[np.int64]) -> set[int]:
    """Special tokens, emoji, and every character of a piece in use, which rarer words fall back to."""
    specials = {token["id"] for token in state["added_tokens"]} | {state["model"].get("unk_id")}
    beyond = sorted(index for index in specials if index is not None and index >= len(pieces))
    if beyond:
        raise ConfigError(
            f"the tokenizer has an added token with id {beyond[0]}, beyond its model: it cannot be pruned"
        )
    used = {character for index in np.flatnonzero(counts_V[: len(pieces)]) for character in pieces[index]}
    if state["model"]["type"] == "BPE":
        used |= set(ByteLevel.alphabet()) & set(pieces)
    characters = {
        index
        for index, piece in enumerate(pieces)
        if (character := piece.removeprefix(CONTINUATION)) in used or EMOJI.fullmatch(character)
    }
    return characters | {index for index in specials if index is not None}


def _merge_sources(model: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The pairs that merge into each BPE piece; empty for other models."""
    sources: dict[str, list[tuple[str, str]]] = {}
    for left, right in _merges(model):
        sources.setdefault(left + right, []).append((left, right))
    return sources


def _merges(model: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for merge in model.get("merges") or []:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        yield left, right


def _with_parts(piece: str, sources: dict[str, list[tuple[str, str]]]) -> set[str]:
    """A piece and all pieces that BPE merges into it."""
    parts, waiting = {piece}, [piece]
    while waiting:
        for pair in sources.get(waiting.pop(), []):
            new = set(pair) - parts
            parts |= new
            waiting += new
    return parts


def _renumber(state: dict[str, Any], pieces: list[str], new_id: dict[int, int]) -> None:
    """Reduce `tokenizer.json` to the kept pieces, under their new ids."""
    model = state["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in new_id]
        model["unk_id"] = new_id.get(model["unk_id"])
    else:
        model["vocab"] = {pieces[old]: new for old, new in new_id.items()}
    if "merges" in model:
        kept = model["vocab"]
        model["merges"] = [
            [left, right] for left, right in _merges(model) if left in kept and right in kept and left + right in kept
        ]
    for token in state["added_tokens"]:
        token["id"] = new_id[token["id"]]
    _renumber_post_processor(state["post_processor"], new_id)


def _renumber_post_processor(processor: dict[str, Any] | None, new_id: dict[int, int]) -> None:
    if processor is None:
        return
    for nested in processor.get("processors", []):
        _renumber_post_processor(nested, new_id)
    for token in processor.get("special_tokens", {}).values():  # TemplateProcessing
        token["ids"] = [new_id[index] for index in token["ids"]]
    for key in ("sep", "cls"):  # BertProcessing, RobertaProcessing
        if key in processor:
            piece, index = processor[key]
            processor[key] = [piece, new_id[index]]
