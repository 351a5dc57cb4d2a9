"""Which tokens of a pair's two sides stand for each other: words by alignment, then the tokens of those words.

Made once for a run; the word loss of stage 4 reads them. A pair has none in a language that writes no spaces between
words, or where a side is longer than `MAX_WORDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer  # type: ignore[import-untyped]
from tqdm import tqdm

from training.arrays import ArrayWriter, map_array
from training.corpora.alignment import align
from training.corpora.corpus import Corpus
from training.corpora.translation import MAX_CELLS, MAX_PAIRS, WORDS, numbered, stemmer, writes_spaces

MAX_WORDS = 40  # of a side
SPAN = 4  # numbers of a link

Word = tuple[str, tuple[int, int]]  # and the characters of the text that it is


@dataclass(frozen=True)
class WordLinks:
    """Links of pair i are rows `starts[i]` to `starts[i + 1]` of `links`.

    Args: links: (N, 4), first token and the one after the last: of the other side's word, by the student's tokenizer,
        then of the English word, by the teacher's. Special tokens are counted.
    """

    links: NDArray[np.uint16]
    starts: NDArray[np.int64]

    def of(self, pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The links of some pairs, (n, 4), and to which of the given pairs each belongs, (n,)."""
        counts = self.starts[pairs + 1] - self.starts[pairs]
        return self.links[ranges(self.starts[pairs], counts)].astype(np.int64), np.repeat(np.arange(len(pairs)), counts)

    @classmethod
    def load(cls, folder: Path) -> WordLinks:
        """Map the links into memory."""
        return cls(map_array(folder / "links.npy").reshape(-1, SPAN), map_array(folder / "starts.npy"))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, ... of each range, end to end."""
    before = np.cumsum(counts) - counts
    within: NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return within


def build_word_links(corpus: Corpus, tokenizer: Tokenizer, teacher_tokenizer: Tokenizer, folder: Path) -> None:
    """Align the words of every pair and write the links, some ten thousand pairs in memory at a time.

    Args: tokenizer, teacher_tokenizer: of the other side, and of English; both cut texts as they are cut in training.
    """
    with ArrayWriter(folder / "links.npy", np.uint16) as links, ArrayWriter(folder / "starts.npy", np.int64) as starts:
        starts.append(np.zeros(1))
        for pairs in tqdm(_chunks(corpus), desc="links", unit="chunk"):
            found = _links_of(corpus, pairs, tokenizer, teacher_tokenizer)
            starts.append(len(links) // SPAN + np.cumsum([len(rows) for rows in found]))
            links.append(np.array([number for rows in found for row in rows for number in row], dtype=np.uint16))


def _chunks(corpus: Corpus) -> Iterator[range]:
    """Neighbouring pairs of one language, few enough to be aligned together."""
    start = cells = 0
    for pair in range(len(corpus)):
        lengths = (len(corpus.texts[int(side[pair])].split()) for side in (corpus.english, corpus.other))
        new = int(np.prod([length + 1 for length in lengths]))
        is_full = cells + new > MAX_CELLS or pair - start == MAX_PAIRS
        if pair > start and (is_full or corpus.language_code[pair] != corpus.language_code[start]):
            yield range(start, pair)
            start, cells = pair, 0
        cells += new
    if len(corpus):
        yield range(start, len(corpus))


def _links_of(
    corpus: Corpus, pairs: range, tokenizer: Tokenizer, teacher_tokenizer: Tokenizer
) -> list[list[tuple[int, ...]]]:
    """The links of each pair of a chunk."""
    found: list[list[tuple[int, ...]]] = [[] for _ in pairs]
    language = corpus.languages[int(corpus.language_code[pairs.start])]
    if not writes_spaces(language):
        return found
    english, other = ([corpus.texts[int(side[pair])] for pair in pairs] for side in (corpus.english, corpus.other))
    sides = [tuple(map(WORDS.pre_tokenize_str, texts)) for texts in zip(english, other, strict=True)]
    fit = [row for row, pair in enumerate(sides) if all(0 < len(words) <= MAX_WORDS for words in pair)]
    stem_english, stem_other = stemmer("en"), stemmer(language)
    aligned = align(
        numbered([[stem_english(word.lower()) for word, _ in sides[row][0]] for row in fit]),
        numbered([[stem_other(word.lower()) for word, _ in sides[row][1]] for row in fit]),
    )
    tokens_english = teacher_tokenizer.encode_batch([english[row] for row in fit])
    tokens_other = tokenizer.encode_batch([other[row] for row in fit])
    for row, links, *tokens in zip(fit, aligned, tokens_english, tokens_other, strict=True):
        spans_english, spans_other = (word_tokens(*side) for side in zip(tokens, sides[row], strict=True))
        both = ((spans_other.get(j), spans_english.get(i)) for i, j in sorted(links))
        found[row] = [(*right, *left) for right, left in both if right and left]
    return found


def word_tokens(encoding: Encoding, words: list[Word]) -> dict[int, tuple[int, int]]:
    """Of each word with a letter or digit that tokens are left of: the first of them, and the one after the last."""
    is_special = np.array(encoding.special_tokens_mask, dtype=np.bool_)
    ends = np.array([end for _, end in encoding.offsets])
    place = np.flatnonzero(~is_special)
    ends = np.maximum.accumulate(ends[place]) if len(place) else ends[:0]
    spans: dict[int, tuple[int, int]] = {}
    for number, (word, (start, end)) in enumerate(words):
        first, stop = np.searchsorted(ends, [start, end], side="right").tolist()
        if stop > first and any(character.isalnum() for character in word):
            spans[number] = int(place[first]), int(place[stop - 1]) + 1
    return spans
