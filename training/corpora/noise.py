"""Writes texts as people type them: with typing errors, in capitals or none, without accents or punctuation.

A noisy copy is paired with its text's translation, so the student learns that both mean the same. Not in the papers.
The same text and seed give the same copy.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np

from training.corpora.text_pairs import Pair

LETTERS_PER_ERROR = 24  # at least one error a text
WORD = re.compile(r"[^\W\d_]{4,}")
ALPHABETIC = re.compile("[A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff\u0590-\u06ff\u1e00-\u1eff]+")
OTHER_PER_ENGLISH = 4  # noisy other sides for one noisy English side


def noisy_pairs(pairs: Iterable[Pair], share: float, *, seed: int) -> Iterator[Pair]:
    """Yield noisy copies of a `share` of the pairs: English and its noisy translation, or at times noisy English.

    Copies that noise leaves unchanged are skipped.
    """
    for english, other in pairs:
        digest = hashlib.blake2b(f"{seed}\t{english}\t{other}".encode(), digest_size=8).digest()
        draw = int.from_bytes(digest, "little")
        if draw >= share * 2**64:
            continue
        generator = np.random.default_rng(draw)
        text = english if generator.integers(OTHER_PER_ENGLISH + 1) == 0 else other
        copy = noisy(text, generator)
        if copy and copy != text:
            yield english, copy


def noisy(text: str, generator: np.random.Generator) -> str:
    """Apply one or two of: typing errors, lower case, capitals, no accents on Latin letters, no punctuation."""
    kinds = (_typing_error, _typing_error, _lower, _upper, _without_accents, _without_punctuation)
    weights = (0.3, 0.2, 0.2, 0.05, 0.15, 0.1)
    count = 1 + int(generator.random() < 0.5)
    for number in generator.choice(len(kinds), size=count, replace=False, p=weights).tolist():
        text = kinds[number](text, generator)
    return " ".join(text.split())


def _typing_error(text: str, generator: np.random.Generator) -> str:
    """Swap, leave out, double or replace letters inside long words of alphabetic scripts."""
    words = [found for found in WORD.finditer(text) if ALPHABETIC.fullmatch(found[0])]
    if not words:
        return text
    count = min(len(words), max(1, sum(len(found[0]) for found in words) // LETTERS_PER_ERROR))
    letters = [*text]
    for number in generator.choice(len(words), size=count, replace=False).tolist():
        place = int(generator.integers(words[number].start() + 1, words[number].end() - 1))
        match generator.integers(4):
            case 0:
                letters[place], letters[place + 1] = letters[place + 1], letters[place]
            case 1:
                letters[place] = ""
            case 2:
                letters[place] *= 2
            case _:
                letters[place] = words[int(generator.integers(len(words)))][0][-1].lower()
    return "".join(letters)


def _lower(text: str, _: np.random.Generator) -> str:
    return text.lower()


def _upper(text: str, _: np.random.Generator) -> str:
    return text.upper()


def _without_accents(text: str, _: np.random.Generator) -> str:
    """Latin letters without their marks; in other scripts a mark makes another letter."""
    return "".join(
        "".join(part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part))
        if unicodedata.name(letter, "").startswith("LATIN")
        else letter
        for letter in text
    )


def _without_punctuation(text: str, _: np.random.Generator) -> str:
    return "".join(" " if unicodedata.category(letter).startswith("P") else letter for letter in text)
