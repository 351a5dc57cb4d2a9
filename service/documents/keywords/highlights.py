"""Finds where a text has the terms of a query, in the text as it was written."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from functools import cache

from service.documents.keywords.terms import fold, places

MOST_WORDS = 100  # of a text
Word = tuple[int, int, str]  # start and stop in a text, in characters, and the term
_PART = re.compile(r"[^\s。、，．！？；：「」『』（）]{1,500}")  # noqa: RUF001 - each is folded by itself


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
    """Return the places of terms in a part of a text: beginnings of it fold to what is before a term, and to its end.

    What folds to nothing, such as a mark, belongs to what is before it.
    """
    ends = range(len(part) + 1)

    def length(end: int) -> int:
        return len(fold(part[:end]))

    return [
        (
            bisect_right(ends, start, key=length) - 1,
            max(bisect_left(ends, stop, key=length), bisect_right(ends, stop, key=length) - 1),
            term,
        )
        for start, stop, term in places(fold(part), terms)
    ]
