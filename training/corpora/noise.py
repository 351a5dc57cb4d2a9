"""Writes texts as people type them: with a slip of the finger, in capitals or none, without accents or marks.

A noisy copy has its text's translation as partner, so the student learns that such texts mean the same. Not in the
papers. Pure and seeded: the same text and seed give the same copy.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np

from training.corpora.sources.tsv import Pair

LETTERS_A_SLIP = 24  # of a text; at least one slip
WORD = re.compile(r"[^\W\d_]{4,}")
TYPED_BY_LETTER = re.compile("[A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff\u0590-\u06ff\u1e00-\u1eff]+")
ENGLISH_SHARE = 4  # one noisy English side for so many noisy other sides


def noisy_pairs(pairs: Iterable[Pair], share: float, *, seed: int) -> Iterator[Pair]:
    """For a `share` of the pairs the same English with a noisy other side, or for a few of them with noisy English.

    Copies that noise leaves as they are do not come.
    """
    for english, other in pairs:
        digest = hashlib.blake2b(f"{seed}\t{english}\t{other}".encode(), digest_size=8).digest()
        draw = int.from_bytes(digest, "little")
        if draw >= share * 2**64:
            continue
        generator = np.random.default_rng(draw)
        text = english if generator.integers(ENGLISH_SHARE + 1) == 0 else other
        copy = noisy(text, generator)
        if copy and copy != text:
            yield english, copy


def noisy(text: str, generator: np.random.Generator) -> str:
    """One or two of: slips in long words, lower case, capitals, no accents on Latin letters, no punctuation."""
    kinds = (_slip, _slip, _lower, _upper, _without_accents, _without_marks)
    weights = (0.3, 0.2, 0.2, 0.05, 0.15, 0.1)
    count = 1 + int(generator.random() < 0.5)
    for number in generator.choice(len(kinds), size=count, replace=False, p=weights).tolist():
        text = kinds[number](text, generator)
    return " ".join(text.split())


def _slip(text: str, generator: np.random.Generator) -> str:
    """Letters swapped, left out, doubled or replaced, inside words of scripts that are typed letter by letter."""
    words = [found for found in WORD.finditer(text) if TYPED_BY_LETTER.fullmatch(found[0])]
    if not words:
        return text
    count = min(len(words), max(1, sum(len(found[0]) for found in words) // LETTERS_A_SLIP))
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


def _without_marks(text: str, _: np.random.Generator) -> str:
    return "".join(" " if unicodedata.category(letter).startswith("P") else letter for letter in text)
