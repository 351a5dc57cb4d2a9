"""Splits a long text into overlapping passages that the model reads whole. Knows a tokenizer; knows no model.

A passage is as many sentences as fit. The next begins with the last sentences of the one before. A sentence that does
not fit is taken apart at spaces, and a word that does not is halved.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from service.model.sentences import Span, sentences, words
from service.model.tokenizer import WHITE_SPACE, Tokenizer

PASSAGE_TOKENS = 128  # a longer one says less of each of its sentences
OVERLAP = 0.25  # of a passage, at most
LONG_CHARS = 512  # of a longer part this much is tokenised first: it mostly shows that the part fits no passage


@dataclass(frozen=True)
class Unit:
    """What is not taken apart: a sentence, a word or a piece of one. tokens: how many it has."""

    start: int
    stop: int
    tokens: int


class Splitter:
    """Splits texts by the tokens of one model. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, *, prompt: str) -> None:
        """prompt: what will be before each passage."""
        self._tokenizer = tokenizer
        self._room = max(1, min(tokenizer.max_length, PASSAGE_TOKENS) - len(tokenizer.whole(prompt)))

    def split(self, text: str) -> tuple[Span, ...]:
        """The start and stop of each passage, in characters; none where the text fits whole.

        Raises: whatever the tokenizer does.
        """
        return tuple(self.passages(text))

    def passages(self, text: str) -> Iterator[Span]:
        """As `split`, passage by passage: the text is read no further than the passages that are taken."""
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
        """The units of each passage, taken from `source` as they are needed. The last passage is filled from behind."""
        units: list[Unit] = []
        first, tokens = 0, 0
        for last, unit in enumerate(source):
            units.append(unit)
            tokens += unit.tokens
            if first < last and tokens > self._room:
                yield units[first].start, units[last - 1].stop
                with_overlap = int(self._room * OVERLAP) + unit.tokens
                first = _first_of(units, min(self._room, with_overlap))
                tokens = sum(one.tokens for one in units[first:])
        yield units[_first_of(units, self._room)].start, units[-1].stop

    def _units(self, text: str) -> Iterator[Unit]:
        """Sentences that fit, words of those that do not, pieces of words that do not."""
        for sentence in self._counted(text, sentences(text)):
            if sentence.tokens <= self._room:
                yield sentence
                continue
            for word in self._counted(text, words(text, sentence.start, sentence.stop)):
                yield from self._halved(text, word)

    def _halved(self, text: str, unit: Unit) -> Iterator[Unit]:
        if unit.tokens <= self._room or unit.stop - unit.start < 2:
            yield unit
            return
        middle = (unit.start + unit.stop) // 2
        for half in self._counted(text, [(unit.start, middle), (middle, unit.stop)]):
            yield from self._halved(text, half)

    def _counted(self, text: str, spans: Iterable[Span]) -> Iterator[Unit]:
        return (Unit(start, stop, self._tokens(text, start, stop)) for start, stop in spans)

    def _tokens(self, text: str, start: int, stop: int) -> int:
        """How many tokens a part has. Of one that is far too long for a passage only the beginning is counted."""
        chars = LONG_CHARS
        while stop - start > chars:
            tokens = len(self._tokenizer.pieces(text[start : start + chars]))
            if tokens > 2 * self._room:  # what follows may change the last few tokens, not half of them
                return tokens
            chars *= 4
        return len(self._tokenizer.pieces(text[start:stop]))


def _first_of(units: list[Unit], room: int) -> int:
    """The first unit that fits with all behind it; the last one always does."""
    first = len(units) - 1
    tokens = units[first].tokens
    while first > 0 and tokens + units[first - 1].tokens <= room:
        first -= 1
        tokens += units[first].tokens
    return first


def _stripped(text: str, start: int, stop: int) -> Span:
    """Without the white space at either end."""
    part = text[start:stop]
    return start + len(part) - len(part.lstrip(WHITE_SPACE)), start + len(part.rstrip(WHITE_SPACE))
