"""Splits a long text into overlapping passages that the model reads whole. Knows a tokenizer; knows no model.

A passage is as many sentences as fit. The next begins with the last sentences of the one before. A sentence that does
not fit is taken apart at spaces, and a word that does not is halved.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.model.sentences import Span, sentences, words
from service.model.tokenizer import Tokenizer

PASSAGE_TOKENS = 128  # a longer one says less of each of its sentences
OVERLAP = 0.25  # of a passage, at most


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
        if len(text) <= self._room and text.isascii():  # a token has a character at least
            return ()
        if len(self._tokenizer.pieces(text)) <= self._room:
            return ()
        units = list(self._units(text))
        spans = [_stripped(text, units[first].start, units[last].stop) for first, last in self._groups(units)]
        kept = tuple(span for span in spans if span[0] < span[1])
        return kept if len(kept) > 1 else ()

    def _groups(self, units: list[Unit]) -> Iterator[tuple[int, int]]:
        """The first and the last unit of each passage. The last passage is filled from behind."""
        first = 0
        while True:
            last = _farthest(units, first, self._room, step=1)
            if last == len(units) - 1:
                yield _farthest(units, last, self._room, step=-1), last
                return
            yield first, last
            with_overlap = int(self._room * OVERLAP) + units[last + 1].tokens
            first = _farthest(units, last + 1, min(self._room, with_overlap), step=-1)

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

    def _counted(self, text: str, spans: Iterable[Span]) -> list[Unit]:
        return [Unit(start, stop, len(self._tokenizer.pieces(text[start:stop]))) for start, stop in spans]


def _farthest(units: list[Unit], start: int, room: int, *, step: int) -> int:
    """The last unit, from `start` on in steps of 1 or -1, that fits with all before it; `start` always does."""
    place, tokens = start, units[start].tokens
    while 0 <= place + step < len(units) and tokens + units[place + step].tokens <= room:
        place += step
        tokens += units[place].tokens
    return place


def _stripped(text: str, start: int, stop: int) -> Span:
    """Without the spaces at either end."""
    part = text[start:stop]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())
