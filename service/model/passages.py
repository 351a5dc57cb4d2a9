"""Splits a long text of any language into overlapping passages that the model reads whole.

A passage is as many sentences as fit. The next begins with the last sentences of the one before. A sentence that does
not fit is taken apart at spaces, a word that does not at commas (CJK) and zero-width spaces, and the rest is halved.

Sentences end by the rules of UAX 29 that need no table (https://unicode.org/reports/tr29/#Sentence_Boundaries), and
these: a full stop behind a number, a letter or a short capitalised word ends nothing. A boundary missed or too many
moves where a passage ends, and nothing else.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from service.model.tokenizer import WHITE_SPACE, Tokenizer

PASSAGE_TOKENS = 128  # a longer one says less of each of its sentences
OVERLAP = 0.25  # of a passage, at most
LONG_CHARS = 512  # of a longer part this much is tokenised first: mostly enough to see that it does not fit

Span = tuple[int, int]  # start and stop in a text, in characters
Divide = Callable[[str, int, int], Iterable[Span]]  # a part of a text

_CLOSING = r"[\"'”’»›)\]}）］｝」』】〉》]*+"  # noqa: RUF001 - quotes and brackets of all scripts
# A line's end; a mark that ends sentences without a space (CJK); one that does before a space; a full stop. A run of
# marks is tried once, from its first: trying it from each takes the square of its length.
_END = re.compile(
    rf"(?:\r\n|[\n\r\x85\u2028\u2029])\s*|[。！？｡．]+{_CLOSING}\s*|(?<![!?…؟۔।॥։።])[!?…؟۔।॥։።]++{_CLOSING}(?:\s+|$)"  # noqa: RUF001
    rf"|(?<!\.)\.++{_CLOSING}(?:\s+|$)"
)
_GOES_ON = re.compile(r"(?:^|[\s(\"'“„«.-])(?:\d{1,3}|[^\W\d_]|[A-ZÀ-ÖØ-Þ][a-z]{1,2})$")  # what no full stop ends
_WORD = re.compile(r"\S+\s*|\s+")
_PAUSE = "[、，､；：،؛\u200b]"  # noqa: RUF001 - between words without a space
_CLAUSE = re.compile(rf".*?{_PAUSE}+{_CLOSING}\s*|.+", re.DOTALL)
# What continues a character without being a mark: Thai and Lao am, vowels and finals of Hangul, joiners and what they
# join, voiced sound marks, skin tones, tags.
_CONTINUES = re.compile(
    "(?<=\u200d)|[\u0e33\u0eb3\u1160-\u11ff\u200c\u200d\ud7b0-\ud7ff\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
MOST_CHARS_BEFORE = 8  # that are looked at, before a full stop


@dataclass(frozen=True)
class Unit:
    """A part that stays whole: a sentence, a word or a piece of a word. tokens: how many it has."""

    start: int
    stop: int
    tokens: int


class Splitter:
    """Splits texts by the tokens of one model. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, *, prompt: str) -> None:
        """prompt: stands before each passage."""
        self._tokenizer = tokenizer
        self._room = max(1, min(tokenizer.max_length, PASSAGE_TOKENS) - len(tokenizer.whole(prompt)))

    def split(self, text: str) -> tuple[Span, ...]:
        """Return the start and stop of each passage, in characters; none where the text fits whole.

        Raises: whatever the tokenizer does.
        """
        return tuple(self.passages(text))

    def passages(self, text: str) -> Iterator[Span]:
        """Yield what `split` returns; the text is read only as far as passages are taken."""
        if len(text) <= self._room and text.isascii():  # a token has a character at least
            return
        if self._tokens(text, *_stripped(text, 0, len(text))) <= self._room:
            return
        spans = (_stripped(text, start, stop) for start, stop in self._groups(self._units(text)))
        kept = (span for span in spans if span[0] < span[1])
        first_two = [*islice(kept, 2)]
        if len(first_two) == 2:
            yield from first_two
            yield from kept

    def _groups(self, source: Iterable[Unit]) -> Iterator[Span]:
        """Group units into passages, taking them from `source` as needed. The last passage is filled from the end."""
        units: list[Unit] = []
        first, tokens = 0, 0
        for last, unit in enumerate(source):
            units.append(unit)
            tokens += unit.tokens
            if first < last and tokens > self._room:
                yield units[first].start, units[last - 1].stop
                with_overlap = int(self._room * OVERLAP) + unit.tokens
                first = _first_of(units, min(self._room, with_overlap))
                tokens = sum(unit.tokens for unit in units[first:])
        yield units[_first_of(units, self._room)].start, units[-1].stop

    def _units(self, text: str) -> Iterator[Unit]:
        """Yield sentences that fit, words of those that do not, clauses of those, and halves of what still does not."""
        yield from self._fitting(text, sentences(text), words, clauses, halves)

    def _fitting(self, text: str, spans: Iterable[Span], *finer: Divide) -> Iterator[Unit]:
        for unit in self._counted(text, spans):
            if unit.tokens <= self._room or unit.stop - unit.start < 2:
                yield unit
            else:
                yield from self._fitting(text, finer[0](text, unit.start, unit.stop), *(finer[1:] or finer))

    def _counted(self, text: str, spans: Iterable[Span]) -> Iterator[Unit]:
        return (Unit(start, stop, self._tokens(text, start, stop)) for start, stop in spans)

    def _tokens(self, text: str, start: int, stop: int) -> int:
        """Count the tokens of a part; of one far too long for a passage, only those of its beginning."""
        chars = LONG_CHARS
        while stop - start > chars:
            tokens = len(self._tokenizer.pieces(text[start : start + chars]))
            if tokens > 2 * self._room:  # what follows may change the last few tokens, not half of them
                return tokens
            chars *= 4
        return len(self._tokenizer.pieces(text[start:stop]))


def _first_of(units: list[Unit], room: int) -> int:
    """Return the first unit that fits with all after it; the last unit always fits."""
    first = len(units) - 1
    tokens = units[first].tokens
    while first > 0 and tokens + units[first - 1].tokens <= room:
        first -= 1
        tokens += units[first].tokens
    return first


def _stripped(text: str, start: int, stop: int) -> Span:
    """Leave out the white space at either end."""
    part = text[start:stop]
    return start + len(part) - len(part.lstrip(WHITE_SPACE)), start + len(part.rstrip(WHITE_SPACE))


def sentences(text: str) -> Iterator[Span]:
    """Yield the sentences in order; together they are the text."""
    start = 0
    for mark in _END.finditer(text):
        if mark[0][0] == "." and not _is_end(text, mark):
            continue
        yield start, mark.end()
        start = mark.end()
    if start < len(text):
        yield start, len(text)


def words(text: str, start: int, stop: int) -> Iterator[Span]:
    """Return the words, each with the spaces after it."""
    return (word.span() for word in _WORD.finditer(text, start, stop))


def clauses(text: str, start: int, stop: int) -> Iterator[Span]:
    """Return what ends with a comma, a colon or a zero-width space, and the rest."""
    return (clause.span() for clause in _CLAUSE.finditer(text, start, stop))


def halves(text: str, start: int, stop: int) -> tuple[Span, Span]:
    """Return two parts that meet in the middle, or behind the character that is there, of several code points."""
    middle = (start + stop) // 2
    middle = next((at for at in range(middle, stop) if not _is_within_character(text, at)), middle)
    return (start, middle), (middle, stop)


def _is_within_character(text: str, at: int) -> bool:
    return unicodedata.category(text[at])[0] == "M" or _CONTINUES.match(text, at) is not None


def _is_end(text: str, mark: re.Match[str]) -> bool:
    """Tell whether a full stop ends a sentence: not before a small letter, nor after what is often abbreviated."""
    if text[mark.end() : mark.end() + 1].islower():
        return False
    return _GOES_ON.search(text[max(0, mark.start() - MOST_CHARS_BEFORE) : mark.start()]) is None
