"""Turns texts into token ids, truncated to what the model reads.

L tokens
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from service.errors import ArtifactError
from service.model.folding import folded, origins
from service.model.tokenizer_file import LibraryTokenizer, PairFrame, Token, load_tokenizer_file, placed
from service.process.memory import return_free_memory

T = TypeVar("T")

LONG_TEXT_CHARS = 10_000
MOST_CHARS = 18  # longest NFKC expansion of one character, U+FDFA
# The ranges of characters that NFKC expands to three or more.
LIGATURES = re.compile(
    "[\xbc-\xbe\u0385\u0f77-\u0f79\u1fc1-\u1fee\u2026-\u2057\u2100-\u2189\u222d-\u2230\u2474-\u24b5\u2a0c-\u2a76"
    "\u3200-\u33ff\ufb00-\ufdff\ufe19\U0001d15f-\U0001d1c0\U0001f110-\U0001f251]"
)

# Unicode's white space, and what is between words and not seen: zero-width space, marks of direction, U+2060, U+FEFF.
WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u200b\u200e\u200f\u2060\ufeff"
)


def stripped(text: str) -> str:
    """Strip white space at the ends of a text, as for every model; white space alone stays."""
    return text.strip(WHITE_SPACE) or text


def normalised_length(text: str) -> int:
    """Estimate the characters after normalisation, which determine the tokenizer's memory: at least half of them."""
    if text.isascii() or not LIGATURES.search(text):
        return len(text)
    growth = _growth()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return len(text) + int(growth[np.minimum(codes, len(growth) - 1)].sum(dtype=np.int64))


@cache
def _growth() -> npt.NDArray[np.uint8]:
    """How many characters NFKC adds to each ligature, by code point; 0 for all from the last one on."""
    codes = [*map(ord, LIGATURES.findall("".join(map(chr, range(0x20000)))))]  # the last is below
    growth = np.zeros(max(codes) + 2, np.uint8)
    growth[codes] = [len(unicodedata.normalize("NFKC", chr(code))) - 1 for code in codes]
    return growth


@dataclass(frozen=True)
class TokenisedText:
    """A tokenised text. input_ids: at most `max_length`, special tokens included.  full_length: before truncation."""

    input_ids: list[int]
    full_length: int


class Tokenizer:
    """One tokenizer, shared by every worker.

    Tokenising takes hundreds of bytes of memory per character, so long texts take turns: at any time only one text of
    more than LONG_TEXT_CHARS characters is tokenised.
    """

    def __init__(self, path: Path, *, max_length: int, folds_text: bool = False) -> None:
        """Load tokenizer.json.

        Args:   folds_text: whether each text is `folded` first.
        Raises: ArtifactError: `tokenizers` cannot read the file.
        """
        try:
            self._tokenizer = load_tokenizer_file(path)
        except Exception as exc:  # `tokenizers` raises bare Exception
            raise ArtifactError(f"{path.parent}: {path.name} cannot be loaded ({exc})") from exc
        return_free_memory()  # of the parsed file
        self.max_length = max_length
        self._read = folded if folds_text else str
        self._long_text = threading.Lock()

    @cached_property
    def highest_id(self) -> int:
        """The highest token id, added tokens included."""
        return self._tokenizer.highest_id

    @property
    def is_unigram(self) -> bool:
        """Whether SentencePiece runs the vocabulary, and not `tokenizers`."""
        return not isinstance(self._tokenizer, LibraryTokenizer)

    @cached_property
    def strips(self) -> bool:
        """Whether the file itself strips white space at the ends of a text, so that `stripped` changes no id."""
        return self._tokenizer.encode(f"{WHITE_SPACE}a{WHITE_SPACE}") == self._tokenizer.encode("a")

    def tokenise(self, text: str) -> TokenisedText:
        """Return the token ids of one text; a longer one keeps its first tokens and its closing special tokens."""
        return self.cut(self.whole(text))

    def pieces(self, text: str) -> list[int]:
        """Return all token ids of one text without special tokens: a side of a pair."""
        return self._in_turn(text, self._tokenizer.pieces)

    def whole(self, text: str) -> list[int]:
        """Return all token ids of one text with its special tokens."""
        return self._in_turn(text, self._tokenizer.encode)

    def tokens(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        """Return all tokens of one text and where they are in it."""
        tokens = self._in_turn(text, partial(self._tokenizer.tokens, add_special_tokens=add_special_tokens))
        return tokens if self._read(text) == text else placed(tokens, origins(text))

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of known token ids."""
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    @property
    def pair_frame(self) -> PairFrame:
        """The special tokens of a pair of texts."""
        return self._tokenizer.pair_frame

    def _in_turn(self, text: str, work: Callable[[str], list[T]]) -> list[T]:
        # A sentence need not be looked through.
        if len(text) * MOST_CHARS <= LONG_TEXT_CHARS or normalised_length(text) <= LONG_TEXT_CHARS:
            return work(self._read(text))
        with self._long_text:
            result = work(self._read(text))
            return_free_memory()  # otherwise the C heap keeps it, once for each thread
        return result

    def tokenise_all(self, texts: Sequence[str]) -> list[TokenisedText]:
        """Return the token ids of each text. Short texts share one call, since each call may wait for the GIL."""
        if not texts:
            return []
        if sum(map(normalised_length, texts)) > LONG_TEXT_CHARS:
            return [self.tokenise(text) for text in texts]
        return [self.cut(ids) for ids in self._tokenizer.encode_all([*map(self._read, texts)])]

    def cut(self, ids: list[int]) -> TokenisedText:
        """Truncate ids to `max_length`, keeping closing special tokens if there are any."""
        full_length = len(ids)
        if full_length <= self.max_length:
            return TokenisedText(ids, full_length)
        closing = self.closing(ids)
        kept = max(0, self.max_length - len(closing))
        return TokenisedText((ids[:kept] + closing)[: self.max_length], full_length)

    def closing(self, ids: list[int]) -> list[int]:
        """Return the special tokens that end a text, if its ids end with them."""
        closing = self._tokenizer.after
        return closing if ids[len(ids) - len(closing) :] == closing else []

    def windows(self, text: str, *, prompt: str) -> list[tuple[int, ...]]:
        """Return the token ids of overlapping parts of a text, each behind the prompt and with the special tokens.

        Parts overlap by half, and the last is full. One part where the text fits, or where the prompt leaves no room.
        """
        ids, prompt_ids = self.whole(prompt + text), self.whole(prompt)
        if len(ids) <= self.max_length:
            return [tuple(ids)]
        # What both begin with: the prompt's last letter may merge with the text's first.
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(ids, prompt_ids, strict=False))
        before = [id_ for id_, _ in pairs]
        after = self.closing(ids)
        room = self.max_length - len(before) - len(after)
        if room < 1:
            return [tuple(self.cut(ids).input_ids)]
        text_ids = ids[len(before) : len(ids) - len(after)]
        return [(*before, *text_ids[start : start + room], *after) for start in window_starts(len(text_ids), room)]


def window_starts(length: int, room: int) -> list[int]:
    """Return where windows of `room` tokens begin in `length` tokens: they overlap by half, and the last is full."""
    last = max(0, length - room)
    return [*range(0, last, max(1, room // 2)), last]
