"""Finds where a text has the terms of a query, in the text as it was written."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from functools import cache

from service.documents.keywords.terms import MAX_CODE_WORDS, fold, places

MOST_WORDS = 100  # of a text
SHORT = 16  # characters of a part that is not cut
CUTS = 8  # places where a longer one may be cut
Word = tuple[int, int, str]  # start and stop in a text, in characters, and the term
_PIECE = r"[^\s。、，．！？；：「」『』（）]{1,500}"  # noqa: RUF001 - of a part, which is folded by itself; 10 000 is one
_PART = re.compile(rf"{_PIECE}(?:(?<=\d)\s(?=\d{{3}}(?!\d)){_PIECE}){{0,{MAX_CODE_WORDS - 1}}}")


def words_in(text: str, terms: Collection[str]) -> list[Word]:
    """Return the first MOST_WORDS places of terms, in order."""
    of_part = cache(lambda part: _words_of_part(part, terms))
    words: list[Word] = []
    for part in _PART.finditer(text) if terms else ():
        words += [(part.start() + start, part.start() + stop, term) for start, stop, term in of_part(part[0])]
        if len(words) >= MOST_WORDS:
            break
    return words[:MOST_WORDS]


def _words_of_part(part: str, terms: Collection[str]) -> list[Word]:
    """Return the first MOST_WORDS places of terms in a part of a text.

    Beginnings of it fold to what is before a term, and to its end. What folds to nothing, such as a mark, belongs to
    what is before it.
    """
    folded = fold(part)
    found = places(folded, terms)[:MOST_WORDS]
    lengths = _lengths(part, folded, last=max(stop for _, stop, _ in found)) if found else []
    return [
        (
            bisect_right(lengths, start) - 1,
            max(bisect_left(lengths, stop), bisect_right(lengths, stop) - 1),
            term,
        )
        for start, stop, term in found
    ]


def _lengths(part: str, folded: str, *, last: int) -> list[int]:
    """Return how long what each beginning of a part folds to is, from the empty one to one that is longer than `last`.

    A part is cut into halves where these fold to what it folds to: folding each of its beginnings takes hundreds of
    times as long as folding it.
    """
    middle = len(part) // 2
    for cut in range(middle, middle + CUTS) if len(part) > SHORT else ():
        before, after = fold(part[:cut]), fold(part[cut:])
        if before + after == folded:
            lengths = _lengths(part[:cut], before, last=last)
            if len(before) > last:
                return lengths
            others = _lengths(part[cut:], after, last=last - len(before))
            return lengths[:-1] + [len(before) + length for length in others]
    return [len(fold(part[:end])) for end in range(len(part) + 1)]
