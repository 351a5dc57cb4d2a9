"""Turns texts into token ids, truncated to what the model reads.

L tokens
"""

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
import tokenizers  # type: ignore[import-untyped]

from service.errors import ArtifactError
from service.process.memory import return_free_memory

if TYPE_CHECKING:
    from service.model.unigram import UnigramTokenizer

T = TypeVar("T")

LONG_TEXT_CHARS = 10_000
MOST_UNUSED_IDS = 1000  # consecutive
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
    """A text without white space at its ends, as every model reads it; white space alone stays."""
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
class PairFrame:
    """The special tokens before, between and behind the two texts of a pair; none where the tokenizer puts none."""

    before: list[int]
    between: list[int]
    after: list[int]


@dataclass(frozen=True)
class TokenisedText:
    """A tokenised text. input_ids: at most `max_length`, special tokens included.  full_length: before truncation."""

    input_ids: list[int]
    full_length: int


class OtherTokenizer:
    """A tokenizer.json of any kind, run by `tokenizers`."""

    def __init__(self, state: bytes) -> None:
        """Raises: Exception: `tokenizers` cannot read it."""
        self._tokenizer = tokenizers.Tokenizer.from_buffer(state)
        # `Tokenizer` truncates instead, which needs the full length but not the overflowing parts.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the pool's workers run in parallel
        self.after = _closing_ids(self._tokenizer.encode("a"))

    @property
    def highest_id(self) -> int:
        """The highest token id, added tokens included. Listing the whole vocabulary would take a tenth of a second.

        Ids may have gaps, so the search starts at the vocabulary's size and ends after MOST_UNUSED_IDS unused ids.
        """
        count: int = self._tokenizer.get_vocab_size(with_added_tokens=False)
        highest: int = max([count - 1, *self._tokenizer.get_added_tokens_decoder()])
        while more := [id_ for id_ in range(highest + 1, highest + 1 + MOST_UNUSED_IDS) if self._has(id_)]:
            highest = more[-1]
        return highest

    def encode(self, text: str) -> list[int]:
        """Return token ids, special tokens included."""
        (ids,) = self.encode_all([text])
        return ids

    def pieces(self, text: str) -> list[int]:
        """Token ids without specials."""
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    @cached_property
    def pair_frame(self) -> PairFrame:
        """What the post-processor puts around a pair."""
        encoding = self._tokenizer.encode("a", "a")
        sides: list[int | None] = encoding.sequence_ids  # None: special
        ids, first, second = encoding.ids, sides.index(0), sides.index(1)
        end = len(sides) - sides[::-1].index(1)
        return PairFrame(ids[:first], ids[first + sides.count(0) : second], ids[end:])

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]  # releases the GIL

    def _has(self, token: int) -> bool:
        return self._tokenizer.id_to_token(token) is not None


class Tokenizer:
    """One tokenizer, shared by every worker.

    Tokenising takes hundreds of bytes of memory per character, so long texts take turns: at any time only one text of
    more than LONG_TEXT_CHARS characters is tokenised.
    """

    def __init__(self, path: Path, *, max_length: int) -> None:
        """Load tokenizer.json.

        Raises: ArtifactError: `tokenizers` cannot read the file.
        """
        try:
            self._tokenizer = _load(path)
        except Exception as exc:  # `tokenizers` raises bare Exception
            raise ArtifactError(f"{path.parent}: {path.name} cannot be loaded ({exc})") from exc
        return_free_memory()  # of the parsed file
        self.max_length = max_length
        self._long_text = threading.Lock()

    @cached_property
    def highest_id(self) -> int:
        """The highest token id, added tokens included."""
        return self._tokenizer.highest_id

    @property
    def is_unigram(self) -> bool:
        """Whether SentencePiece runs the vocabulary, and not `tokenizers`."""
        return not isinstance(self._tokenizer, OtherTokenizer)

    @cached_property
    def strips(self) -> bool:
        """Whether the file itself leaves out white space at the ends of a text, so that `stripped` changes no id."""
        return self._tokenizer.encode(f"{WHITE_SPACE}a{WHITE_SPACE}") == self._tokenizer.encode("a")

    def tokenise(self, text: str) -> TokenisedText:
        """Token ids of one text; a longer one keeps its first tokens and its closing special tokens."""
        return self._in_turn(text, self._tokenised)

    def pieces(self, text: str) -> list[int]:
        """Token ids of one text, whole and without special tokens: a side of a pair."""
        return self._in_turn(text, self._tokenizer.pieces)

    def whole(self, text: str) -> list[int]:
        """Token ids of one text, whole and with its special tokens."""
        return self._in_turn(text, self._tokenizer.encode)

    @property
    def pair_frame(self) -> PairFrame:
        """The special tokens of a pair of texts."""
        return self._tokenizer.pair_frame

    def _in_turn(self, text: str, work: Callable[[str], T]) -> T:
        may_be_long = len(text) * MOST_CHARS > LONG_TEXT_CHARS  # a sentence need not be looked through
        is_long = may_be_long and normalised_length(text) > LONG_TEXT_CHARS
        if not is_long:
            return work(text)
        with self._long_text:
            found = work(text)
            return_free_memory()  # otherwise the C heap keeps it, once for each thread
        return found

    def _tokenised(self, text: str) -> TokenisedText:
        return self.cut(self._tokenizer.encode(text))

    def tokenise_all(self, texts: Sequence[str]) -> list[TokenisedText]:
        """Return the token ids of each text. Short texts share one call, since each call may wait for the GIL."""
        if not texts:
            return []
        if sum(map(normalised_length, texts)) > LONG_TEXT_CHARS:
            return [self.tokenise(text) for text in texts]
        return [self.cut(ids) for ids in self._tokenizer.encode_all(texts)]

    def cut(self, ids: list[int]) -> TokenisedText:
        """Truncate ids to `max_length`, keeping closing special tokens if there are any."""
        full_length = len(ids)
        if full_length <= self.max_length:
            return TokenisedText(ids, full_length)
        closing = self.closing(ids)
        kept = max(0, self.max_length - len(closing))
        return TokenisedText((ids[:kept] + closing)[: self.max_length], full_length)

    def closing(self, ids: list[int]) -> list[int]:
        """The special tokens that end a text, if its ids end with them."""
        closing = self._tokenizer.after
        return closing if ids[len(ids) - len(closing) :] == closing else []


def _load(path: Path) -> "OtherTokenizer | UnigramTokenizer":
    content = path.read_bytes()
    if b'"Unigram"' in content:
        from service.model.unigram import UnigramTokenizer, is_unigram  # here: SentencePiece is loaded only if used

        state = orjson.loads(content)
        if is_unigram(state):
            return UnigramTokenizer(state)
    return OtherTokenizer(content)


def _closing_ids(encoding: tokenizers.Encoding) -> list[int]:
    """Return the special tokens that the tokenizer appends to a text."""
    mask = encoding.special_tokens_mask
    count = next((count for count, flag in enumerate(reversed(mask)) if not flag), len(mask))
    ids: list[int] = encoding.ids
    return ids[len(ids) - count :]
