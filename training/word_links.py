"""Which tokens of a pair's two sides stand for each other: words by alignment, then the tokens of those words.

Made once for a run; the word loss of stage 4 reads them. A pair has none in a language that writes no spaces between
words, or where a side is longer than `MAX_SIDE_WORDS`.
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
from training.corpora.translation import WORDS, numbered, stemmer, writes_spaces
from training.errors import ConfigError
from training.files import write_json_atomically

MAX_SIDE_WORDS = 40
CHUNK_PAIRS = 60_000  # aligned together, of one language
CHUNK_CELLS = 10_000_000  # words of one side times words of the other, of these pairs: 90 bytes each
LONGEST = np.iinfo(np.uint16).max  # tokens of a text that links can number
SPAN = 4  # numbers of a link

Word = tuple[str, tuple[int, int]]  # and the characters of the text that it is
Link = tuple[int, int, int, int]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class WordLinks:
    """Links of pair i are `counts[i]` rows of `links` from `starts[i]` on.

    Args: links: (N, 4), first token and the one after the last: of the other side's word, by the student's tokenizer,
        then of the English word, by the teacher's. Special tokens are counted.
    """

    links: NDArray[np.uint16]
    starts: NDArray[np.int64]
    counts: NDArray[np.uint16]

    def of(self, pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The links of some pairs, (n, 4), and to which of the given pairs each belongs, (n,)."""
        counts = self.counts[pairs].astype(np.int64)
        return self.links[ranges(self.starts[pairs], counts)].astype(np.int64), np.repeat(np.arange(len(pairs)), counts)

    @classmethod
    def load(cls, folder: Path) -> WordLinks:
        """Map the links into memory."""
        links, starts, counts = (map_array(folder / f"{name}.npy") for name in ("links", "starts", "counts"))
        return cls(links.reshape(-1, SPAN), starts, counts)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, ... of each range, end to end."""
    before = np.cumsum(counts) - counts
    within: NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return within


def build_word_links(
    corpus: Corpus,
    tokenizer: Tokenizer,
    teacher_tokenizer: Tokenizer,
    folder: Path,
    *,
    sources: list[str] | None = None,
) -> None:
    """Align the words of the pairs and write the links; `report.json` has pairs and links of each language.

    Memory: 10 bytes a pair, and what a chunk takes.

    Args:   tokenizer, teacher_tokenizer: of the other side, and of English; both cut texts as they are cut in training.
            sources: of these alone; None: all.
    Raises: ConfigError: no pair has a link.
    """
    starts_P, counts_P = np.zeros(len(corpus), dtype=np.int64), np.zeros(len(corpus), dtype=np.uint16)
    wanted_P = corpus.is_of(sources)
    report: dict[str, dict[str, int]] = {}
    with ArrayWriter(folder / "links.npy", np.uint16) as writer, tqdm(desc="links", total=len(corpus)) as progress:
        for code, language in enumerate(corpus.languages):
            pairs = np.flatnonzero(wanted_P & (corpus.language_code == code))
            report[language] = {"pairs": len(pairs), "links": 0}
            for chunk in _chunks(corpus, pairs) if writes_spaces(language) else ():
                rows = _links_of(corpus, chunk, language, (tokenizer, teacher_tokenizer))
                counts_P[chunk] = [len(links) for links in rows]
                starts_P[chunk] = len(writer) // SPAN + np.cumsum(counts_P[chunk], dtype=np.int64) - counts_P[chunk]
                report[language]["links"] += int(counts_P[chunk].sum())
                writer.append(
                    np.array([number for links in rows for link in links for number in link], dtype=np.uint16)
                )
            progress.update(len(pairs))
        if not len(writer):
            raise ConfigError(
                "word_weight has no word to teach: no language of the corpus has words that can be aligned"
            )
    np.save(folder / "starts.npy", starts_P)
    np.save(folder / "counts.npy", counts_P)
    write_json_atomically(folder / "report.json", report)


def _chunks(corpus: Corpus, pairs: Indices) -> Iterator[Indices]:
    """Pairs of one language in as few parts as can be aligned, each spread over all of them, and as large."""
    lengths = (
        [len(corpus.texts[int(text)].split()) + 1 for text in side[pairs]] for side in (corpus.english, corpus.other)
    )
    cells = sum(left * right for left, right in zip(*lengths, strict=True))
    parts = max(-(-cells // CHUNK_CELLS), -(-len(pairs) // CHUNK_PAIRS))
    yield from (pairs[part::parts] for part in range(parts))


def _links_of(
    corpus: Corpus, pairs: Indices, language: str, tokenizers: tuple[Tokenizer, Tokenizer]
) -> list[list[Link]]:
    """The links of each pair of a chunk. `tokenizers`: of the other side, and of English."""
    texts = [[corpus.texts[int(text)] for text in side[pairs]] for side in (corpus.other, corpus.english)]
    words = [[WORDS.pre_tokenize_str(text) for text in side] for side in texts]
    fit = [
        row
        for row, both in enumerate(zip(*words, strict=True))
        if all(0 < len(side) <= MAX_SIDE_WORDS for side in both)
    ]
    stems = stemmer(language), stemmer("en")
    other, english = (
        numbered([[stem(word.lower()) for word, _ in side[row]] for row in fit])
        for stem, side in zip(stems, words, strict=True)
    )
    spans = (
        [word_tokens(encoding, side[row]) for encoding, row in zip(encodings, fit, strict=True)]
        for side, encodings in zip(words, _encoded(tokenizers, texts, fit), strict=True)
    )
    found: list[list[Link]] = [[] for _ in pairs]
    for row, links, of_other, of_english in zip(fit, align(other, english), *spans, strict=True):
        both = ((of_other.get(i), of_english.get(j)) for i, j in sorted(links))
        found[row] = [(*left, *right) for left, right in both if left and right]
    return found


def _encoded(
    tokenizers: tuple[Tokenizer, Tokenizer], texts: list[list[str]], rows: list[int]
) -> Iterator[list[Encoding]]:
    """Some rows of both sides, each by its tokenizer."""
    for tokenizer, side in zip(tokenizers, texts, strict=True):
        yield tokenizer.encode_batch([side[row] for row in rows])


def word_tokens(encoding: Encoding, words: list[Word]) -> dict[int, tuple[int, int]]:
    """Of each word with a letter or digit that is whole and not in one token with others: its first token, and the end.

    A token belongs to the word that it ends in. Some normalisers give offsets that go back, hence the maximum.
    """
    place_T = np.flatnonzero(np.logical_not(encoding.special_tokens_mask))
    offsets_T2 = np.array(encoding.offsets).reshape(-1, 2)[place_T]
    ends_T = np.maximum.accumulate(offsets_T2[:, 1])
    bounds_W2 = np.array([bounds for _, bounds in words]).reshape(-1, 2)
    first_W, stop_W = np.searchsorted(ends_T, bounds_W2, side="right").T.tolist()
    spans: dict[int, tuple[int, int]] = {}
    before = 0
    for number, (word, (_, end)) in enumerate(words):
        first, stop = first_W[number], stop_W[number]
        is_cut = stop == len(place_T) and encoding.overflowing and ends_T[-1] < end
        if not any(character.isalnum() for character in word):
            continue
        if stop > first and not is_cut and offsets_T2[first, 0] >= before:
            spans[number] = int(place_T[first]), int(place_T[stop - 1]) + 1
        before = end
    return spans
