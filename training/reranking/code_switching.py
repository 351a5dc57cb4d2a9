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
from training.reranking.config import CodeSwitchConfig
from training.reranking.pairs import TextPair

MIN_KNOWN = 0.5  # of a question's words; with fewer it stays as it is
Split = Callable[[str], list[str]]  # letters without spaces between their words -> the words
Indices = NDArray[np.int64]
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
            both = [sentence for sentence in sentences if pivot in sentence and language in sentence]
            if language != pivot and both:
                rows = [both[row] for row in evenly_spaced(len(both), MAX_SENTENCES)]
                sides = [[words_in(sentence[name], split) for name in (pivot, language)] for sentence in rows]
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
    return [word for run in WORD.findall(text.lower()) for word in (split(run) if UNSPACED.match(run) else [run])]


def word_pairs(sentences: Iterable[Sequence[Sequence[str]]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return each word's best translation, from the first side to the second and back.

    Best is the highest p(a|b) p(b|a): a word that is everywhere explains all others badly.
    """
    kept = [pair for pair in sentences if all(0 < len(side) <= MAX_WORDS for side in pair)]
    if not kept:
        return {}, {}
    (words, ids), (other_words, other_ids) = (_numbered([pair[side] for pair in kept]) for side in (0, 1))
    place_C, other_place_C = _together(ids, other_ids)
    width = len(other_words)
    numbers_C = np.concatenate(ids)[place_C] * width + np.concatenate(other_ids)[other_place_C]
    pairs_U, pair_C, count_U = np.unique(numbers_C, return_inverse=True, return_counts=True)
    word_U, other_U = np.divmod(pairs_U, width)
    score_U = _model_1(pair_C, other_place_C, word_U) * _model_1(pair_C, place_C, other_U)
    score_U = np.where(count_U >= MIN_COUNT, score_U, 0.0)
    entries = np.flatnonzero(score_U >= MIN_SHARE**2)
    entries = entries[np.argsort(score_U[entries], kind="stable")]  # the best entry is written last
    names = [(words[word_U[entry]], other_words[other_U[entry]]) for entry in entries]
    return dict(names), {other: word for word, other in names}


def _numbered(sentences: Sequence[Sequence[str]]) -> tuple[list[str], list[Indices]]:
    """All words, and each sentence's indices into them."""
    number: dict[str, int] = {}
    ids = [np.array([number.setdefault(word, len(number)) for word in words], dtype=np.int64) for words in sentences]
    return list(number), ids


def _together(first: Sequence[Indices], second: Sequence[Indices]) -> tuple[Indices, Indices]:
    """All pairs of words of a sentence pair: the place of each in all of its side's text, (C,) and (C,)."""
    rows, columns = [], []
    row = column = 0
    for left, right in zip(first, second, strict=True):
        rows.append(np.repeat(np.arange(row, row + len(left)), len(right)))
        columns.append(np.tile(np.arange(column, column + len(right)), len(left)))
        row, column = row + len(left), column + len(right)
    return np.concatenate(rows), np.concatenate(columns)


def _model_1(pair_C: Indices, place_C: Indices, given_U: Indices) -> NDArray[np.float64]:
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
        for word in lexicon.split(run[0]) if needs_spaces else [run[0]]:
            translation = lexicon.translation(word, source, target)
            total += 1
            known += translation is not None
            if translation is None or generator.random() >= words:
                parts.append(word)
            else:
                changed += 1
                parts.append(f" {translation} " if needs_spaces else translation)
    if not changed or known < MIN_KNOWN * total:
        return text
    return " ".join("".join([*parts, text[end:]]).split())


def code_switch(
    pairs: Sequence[TextPair], languages: Sequence[str], lexicon: Lexicon, settings: CodeSwitchConfig, *, seed: int
) -> list[TextPair]:
    """As many pairs; some of the questions are in another language, drawn by chance, before all their passages."""
    generator = np.random.default_rng((seed, 9))
    passages: dict[str, list[str]] = defaultdict(list)
    answers: dict[int | None, set[str]] = defaultdict(set)  # of a question, in all languages
    for pair in pairs:
        passages[pair.languages[1]].append(pair.passage)
        if pair.label:
            answers[pair.question].add(pair.passage)
    switched_pairs: list[TextPair] = []
    new: dict[tuple[str, str], tuple[str, str]] = {}  # question and its language -> the same, switched or not
    for pair in pairs:
        key = (pair.query, pair.languages[0])
        if key not in new:
            new[key] = _drawn(*key, languages, lexicon, settings, generator)
        if new[key] != key:
            query, language = new[key]
            pair = replace(pair, query=query, languages=(language, pair.languages[1]))
            others = passages[language]
            if not pair.label and others and generator.random() < settings.foreign:
                passage = others[int(generator.integers(len(others)))]
                if passage not in answers[pair.question]:
                    pair = replace(pair, passage=passage, languages=(language, language))
        switched_pairs.append(pair)
    return switched_pairs


def _drawn(
    query: str,
    source: str,
    languages: Sequence[str],
    lexicon: Lexicon,
    settings: CodeSwitchConfig,
    generator: np.random.Generator,
) -> tuple[str, str]:
    """The question in another language, and which; or as it is."""
    others = [language for language in languages if language != source]
    if generator.random() >= settings.share or not others:
        return query, source
    target = others[int(generator.integers(len(others)))]
    text = switched(query, source, target, lexicon, words=settings.words, generator=generator)
    return (query, source) if text == query else (text, target)
