"""Finds sentences and words in a text of any language. Knows Unicode; knows no model and no dictionary.

The rules of UAX 29 that need no table (https://unicode.org/reports/tr29/#Sentence_Boundaries), and these: a full stop
behind a number, a letter or a short capitalised word ends nothing. A boundary missed or too many moves where a passage
ends, and nothing else.
"""

import re
from collections.abc import Iterator

Span = tuple[int, int]  # start and stop in a text, in characters

_CLOSING = r"[\"'”’»›)\]}）］｝」』】〉》]*+"  # noqa: RUF001 - quotes and brackets of all scripts
# A line's end; a mark that ends sentences without a space (CJK); one that does before a space; a full stop. A run of
# marks is tried once, from its first: trying it from each takes the square of its length.
_END = re.compile(
    rf"(?:\r\n|[\n\r\x85\u2028\u2029])\s*|[。！？｡．]+{_CLOSING}\s*|(?<![!?…؟۔।॥։።])[!?…؟۔।॥։።]++{_CLOSING}(?:\s+|$)"  # noqa: RUF001
    rf"|(?<!\.)\.++{_CLOSING}(?:\s+|$)"
)
_GOES_ON = re.compile(r"(?:^|[\s(\"'“„«.-])(?:\d{1,3}|[^\W\d_]|[A-ZÀ-ÖØ-Þ][a-z]{1,2})$")  # what no full stop ends
_WORD = re.compile(r"\S+\s*|\s+")
MOST_CHARS_BEFORE = 8  # that are looked at, before a full stop


def sentences(text: str) -> Iterator[Span]:
    """The sentences, one after the other; together they are the text."""
    start = 0
    for mark in _END.finditer(text):
        if mark[0][0] == "." and not _is_end(text, mark):
            continue
        yield start, mark.end()
        start = mark.end()
    if start < len(text):
        yield start, len(text)


def words(text: str, start: int, stop: int) -> Iterator[Span]:
    """The parts between spaces, each with the spaces behind it."""
    return (word.span() for word in _WORD.finditer(text, start, stop))


def _is_end(text: str, mark: re.Match[str]) -> bool:
    """Whether a full stop ends a sentence: not before a small letter, and not behind what is often abbreviated."""
    if text[mark.end() : mark.end() + 1].islower():
        return False
    return _GOES_ON.search(text[max(0, mark.start() - MOST_CHARS_BEFORE) : mark.start()]) is None
