"""Questions with most of their words in another language, by a dictionary, where nobody has translated them.

After Litschko et al. 2023, "Boosting Zero-shot Cross-lingual Retrieval by Training on Artificially Code-Switched Data".
One seed, one result. Differs: only the question is switched, into one language, and some of its negatives are replaced
by passages in that language. Otherwise the passages of a question are all in one language, and nothing says that the
right one may be in another.

The dictionary comes from parallel text by IBM Model 1 in both directions (Brown et al. 1993). Languages are joined by a
pivot, the one that most sentences have: Thai to Greek is Thai to English to Greek.

Shapes: S sentence pairs, C word pairs that stand in one sentence pair, counted once a place, U distinct word pairs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from training.reranking.collection import Texts, evenly_spaced
from training.reranking.pairs import TextPair

MIN_KNOWN = 0.5  # of a question's words; with fewer it stays as it is
Split = Callable[[str], list[str]]  # letters without spaces between their words -> the words
# Thai to Khmer, kana, Han, Hangul: no spaces between words, or words that take endings
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
# \w lacks combining marks
_LETTERS = rf"(?:[^\W\d_{_UNSPACED}]|[\u0300-\u036f\u064b-\u0652\u0900-\u0963\u0970-\u0dff])+"
WORD = re.compile(rf"{_LETTERS}(?:['\u2019\u200c-]{_LETTERS})*|[{_UNSPACED}]+")
UNSPACED = re.compile(f"[{_UNSPACED}]")
ROUNDS = 5  # of expectation and maximisation
MAX_SENTENCES = 60_000  # of a language, evenly spaced
MAX_WORDS = 40  # of a sentence; longer ones are left out
MIN_COUNT = 2  # places in which both words of an entry stand together
MIN_SHARE = 0.1  # geometric mean of p(a|b) and p(b|a); less is left out


@dataclass(frozen=True)
class Lexicon:
    """Words by language; all are lower case.

    of_pivot: language -> word of the pivot -> its translation; to_pivot: the other way.
    """

    pivot: str
    of_pivot: Mapping[str, Mapping[str, str]]
    to_pivot: Mapping[str, Mapping[str, str]]
    split: Split

    def translation(self, word: str, source: str, target: str) -> str | None:
        """Return the word in another language; None: not known."""
        middle = word.lower() if source == self.pivot else self.to_pivot.get(source, {}).get(word.lower())
        if middle is None or target == self.pivot:
            return middle
        return self.of_pivot.get(target, {}).get(middle)

    @classmethod
    def of(cls, sentences: Sequence[Texts], languages: Sequence[str], split: Split) -> Lexicon:
        """Learn a dictionary from parallel sentences."""
        counts = Counter(language for sentence in sentences for language in sentence if language in languages)
        pivot = counts.most_common(1)[0][0] if counts else languages[0]
        of_pivot, to_pivot = {}, {}
        for language in languages:
            pairs = [
                (sentence[pivot], sentence[language])
                for sentence in sentences
                if pivot in sentence and language in sentence
            ]
            if language == pivot or not pairs:
                continue
            rows = evenly_spaced(len(pairs), MAX_SENTENCES)
            sides = [[words_in(text, split) for text in pairs[row]] for row in rows]
            of_pivot[language], to_pivot[language] = word_pairs(sides)
        return cls(pivot, of_pivot, to_pivot, split)


def splitter(tokenizer: PreTrainedTokenizerBase) -> Split:
    """Return a function that cuts where a fast tokenizer does; the parts together are the text."""

    @lru_cache(2**18)
    def split(run: str) -> list[str]:
        offsets = tokenizer(run, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        starts = sorted({0, *(start for start, end in offsets if end > start)})
        return [run[start:end] for start, end in zip(starts, [*starts[1:], len(run)], strict=True)]

    return split


def words_in(text: str, split: Split) -> list[str]:
    """Return the lower-case words of a text."""
    return [word for run in WORD.findall(text.lower()) for word in pieces_of(run, split)]


def pieces_of(run: str, split: Split) -> list[str]:
    """Return the words of a match of WORD."""
    return split(run) if UNSPACED.match(run) else [run]


def word_pairs(sentences: Iterable[Sequence[Sequence[str]]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return each word's best translation, from the first side to the second and back.

    Best is the highest p(a|b) p(b|a): a word that is everywhere explains all others badly.
    """
    kept = [pair for pair in sentences if all(0 < len(side) <= MAX_WORDS for side in pair)]
    if not kept:
        return {}, {}
    first, second = (_numbered([pair[side] for pair in kept]) for side in (0, 1))
    rows_C, columns_C, first_C, second_C = _together(first.ids, second.ids)
    width = len(second.words)
    pairs_U, index_C, count_U = np.unique(first_C * width + second_C, return_inverse=True, return_counts=True)
    first_U, second_U = np.divmod(pairs_U, width)
    there = _model_1(index_C, columns_C, first_U)
    back = _model_1(index_C, rows_C, second_U)
    score_U = np.where(count_U >= MIN_COUNT, there * back, 0.0)
    entries = np.flatnonzero(score_U >= MIN_SHARE**2)
    ordered = entries[np.argsort(score_U[entries], kind="stable")]  # the best entry is written last
    names = [
        (first.words[one], second.words[other]) for one, other in zip(first_U[ordered], second_U[ordered], strict=True)
    ]
    return dict(names), {other: one for one, other in names}


@dataclass(frozen=True)
class _Numbered:
    words: list[str]
    ids: list[NDArray[np.int64]]


def _numbered(sentences: Sequence[Sequence[str]]) -> _Numbered:
    number: dict[str, int] = {}
    ids = [
        np.array([number.setdefault(word, len(number)) for word in sentence], dtype=np.int64) for sentence in sentences
    ]
    return _Numbered(list(number), ids)


def _together(first: Sequence[NDArray[np.int64]], second: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
    """All pairs of words of a sentence pair: numbers of the place on each side, ids of the word on each side."""
    sizes_S = np.array([[len(one), len(other)] for one, other in zip(first, second, strict=True)])
    starts_S = np.cumsum(sizes_S, axis=0) - sizes_S
    rows, columns = [], []
    for (rows_count, columns_count), (row, column) in zip(sizes_S.tolist(), starts_S.tolist(), strict=True):
        rows.append(np.repeat(np.arange(row, row + rows_count), columns_count))
        columns.append(np.tile(np.arange(column, column + columns_count), rows_count))
    rows_C, columns_C = np.concatenate(rows), np.concatenate(columns)
    return rows_C, columns_C, np.concatenate(first)[rows_C], np.concatenate(second)[columns_C]


def _model_1(pair_C: NDArray[np.int64], place_C: NDArray[np.int64], given_U: NDArray[np.int64]) -> NDArray[np.float64]:
    """p(word | given word) of each pair of words.

    Args: place_C: where the word stands that is explained; the words of the other side share its one count.
    """
    share_U = np.ones(len(given_U))
    for _ in range(ROUNDS):
        weight_C = share_U[pair_C]
        weight_C = weight_C / np.bincount(place_C, weight_C)[place_C]
        count_U = np.bincount(pair_C, weight_C, minlength=len(given_U))
        share_U = count_U / np.bincount(given_U, count_U)[given_U]
    return share_U


def switched(
    text: str, source: str, target: str, lexicon: Lexicon, *, words: float, generator: np.random.Generator
) -> str:
    """The text with a share `words` of its words in the target language, each by chance; other words stay.

    A text of which less than half is known comes back as it is.
    """
    known = total = changed = 0
    parts: list[str] = []
    end = 0
    for run in WORD.finditer(text):
        parts.append(text[end : run.start()])
        end = run.end()
        needs_spaces = UNSPACED.match(run[0])
        for piece in pieces_of(run[0], lexicon.split):
            translation = lexicon.translation(piece, source, target)
            total += 1
            known += translation is not None
            if translation is None or generator.random() >= words:
                parts.append(piece)
            else:
                changed += 1
                parts.append(f" {translation} " if needs_spaces else translation)
    if not changed or known < MIN_KNOWN * total:
        return text
    return " ".join("".join([*parts, text[end:]]).split())


def code_switch(
    pairs: Sequence[TextPair],
    languages: Sequence[str],
    lexicon: Lexicon,
    *,
    share: float,
    words: float,
    foreign: float,
    seed: int,
) -> list[TextPair]:
    """As many pairs; a `share` of the questions is in another language, drawn by chance, before all its passages.

    Args:
        words: of a switched question, the share that is translated where it can be.
        foreign: of its negatives, the share that becomes passages in the question's new language.
    """
    generator = np.random.default_rng((seed, 9))
    passages: dict[str, list[str]] = defaultdict(list)
    answers: dict[int | None, set[str]] = defaultdict(set)  # of a question, in all languages
    for pair in pairs:
        passages[pair.languages[1]].append(pair.passage)
        if pair.label:
            answers[pair.question].add(pair.passage)
    switched_pairs: list[TextPair] = []
    new: dict[tuple[str, str], tuple[str, str] | None] = {}
    for pair in pairs:
        key = (pair.query, pair.languages[0])
        if key not in new:
            new[key] = _drawn(pair, languages, lexicon, share, words, generator)
        changed = new[key]
        if changed is not None:
            query, language = changed
            pair = replace(pair, query=query, languages=(language, pair.languages[1]))
            others = passages[language]
            if not pair.label and others and generator.random() < foreign:
                passage = others[int(generator.integers(len(others)))]
                if passage not in answers[pair.question]:
                    pair = replace(pair, passage=passage, languages=(language, language))
        switched_pairs.append(pair)
    return switched_pairs


def _drawn(
    pair: TextPair,
    languages: Sequence[str],
    lexicon: Lexicon,
    share: float,
    words: float,
    generator: np.random.Generator,
) -> tuple[str, str] | None:
    """The question in another language, and which; None: it stays."""
    source = pair.languages[0]
    others = [language for language in languages if language != source]
    if generator.random() >= share or not others:
        return None
    target = others[int(generator.integers(len(others)))]
    query = switched(pair.query, source, target, lexicon, words=words, generator=generator)
    return None if query == pair.query else (query, target)
