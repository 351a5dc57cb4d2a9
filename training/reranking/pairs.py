"""The pairs that a re-ranker is trained on (Chen et al. 2020, section III). One seed, one result.

Stage 1, XPI (eq. 2): sentences that mean the same or do not. Half of the pairs are in one language, an equal share of
each; the other half in two, drawn by chance: with two languages N/4, N/4, and N/2 in which a coin toss says which side
is the translation.

The paper shows no positive in one language; a sentence is its own translation back. Here such a positive is two
sentences that share a translation ("paraphrases"), or there is none ("none"): pairs in one language are then all
negative. Mixed pairs keep their positives, so that two languages alone never say "the same".

Stage 2, XPR: a question and a passage, in languages that a strategy chooses. All functions take any two or more
languages; with two they are the paper's. A pair that is there in one language only comes out in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TypeVar

import numpy as np

from training.errors import CorpusError
from training.reranking.collection import Texts
from training.reranking.config import MixBy, Strategy, XpiConfig

Couple = tuple[str, str]  # languages of query and passage
T = TypeVar("T")
POSITIVE_SHARE = 0.5  # of pairs that can be positive; not printed
MAX_TRIES = 100  # draws of a negative: sentences that repeat are rare


@dataclass(frozen=True)
class AlignedPair:
    """A query and a passage, each in all its languages. `question`: its number."""

    question: int
    query: Texts
    passage: Texts
    is_positive: bool

    def common(self, languages: Sequence[str]) -> list[str]:
        """Return the languages that both sides are in, in the order given."""
        return [language for language in languages if language in self.query and language in self.passage]

    def in_languages(self, couple: Couple) -> TextPair:
        """Return the pair in these languages."""
        return TextPair(self.query[couple[0]], self.passage[couple[1]], couple, float(self.is_positive))


@dataclass(frozen=True)
class TextPair:
    """What the model reads. languages: of query and passage."""

    query: str
    passage: str
    languages: Couple
    label: float


def stages_of(
    strategy: Strategy, pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int, mix_by: MixBy = "pair"
) -> list[list[TextPair]]:
    """Return the pairs of each stage; their total is the same for each strategy.

    merged: one stage, D_l1 and D_l2 together. cascade: D_l1, then D_l2. mixed: one stage, `mixed`.
    """
    if strategy == "mixed":
        return [mixed(pairs, languages, seed=seed, mix_by=mix_by)]
    by_language = cascade(pairs, languages, seed=seed)
    return by_language if strategy == "cascade" else [[pair for stage in by_language for pair in stage]]


def cascade(pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int) -> list[list[TextPair]]:
    """D_l of each language in turn, query and passage in it.

    A pair whose sides share no language goes with its query's.
    """
    generator = np.random.default_rng((seed, 0))
    stages: dict[str, list[TextPair]] = {language: [] for language in languages}
    for pair in pairs:
        couples = [(language, language) for language in pair.common(languages)]
        for couple in couples or _any_couple(pair, languages, generator):
            stages[couple[0]].append(pair.in_languages(couple))
    return list(stages.values())


def mixed(
    pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int, mix_by: MixBy = "pair"
) -> list[TextPair]:
    """Each pair in each language of its query; half of the pairs get the passage's translation in every second one.

    For the other half it is the others that do. With two languages and M pairs in each: half of the l1 pairs get the
    passage in l2 and their l2 counterparts stay l2, the other half stays l1 and its counterparts get l1; M pairs are in
    one language and M in two (Fig. 3).

    Args: mix_by: what the halves are made of; with "question" all pairs of a question are mixed alike.
    """
    generator = np.random.default_rng((seed, 1))
    unit_of_pair = [pair.question for pair in pairs] if mix_by == "question" else list(range(len(pairs)))
    units = list(dict.fromkeys(unit_of_pair))
    first_half = {units[index] for index in generator.permutation(len(units))[: len(units) // 2]}
    mixed_pairs = []
    for unit, pair in zip(unit_of_pair, pairs, strict=True):
        common = pair.common(languages)
        if not common:
            mixed_pairs += [pair.in_languages(couple) for couple in _any_couple(pair, languages, generator)]
        for number, language in enumerate(common):
            others = [translation for translation in common if translation != language]
            stays = not others or number % 2 == int(unit in first_half)
            mixed_pairs.append(pair.in_languages((language, language if stays else _drawn(others, generator))))
    return mixed_pairs


def _any_couple(pair: AlignedPair, languages: Sequence[str], generator: np.random.Generator) -> list[Couple]:
    """Draw a couple of languages for sides that share none; nothing where one side has none of them."""
    queries, passages = ([name for name in languages if name in side] for side in (pair.query, pair.passage))
    couples = [(query, passage) for query in queries for passage in passages]
    return [_drawn(couples, generator)] if couples else []


@dataclass(frozen=True)
class _Parallel:
    """Parallel sentences, and which of them may be drawn in which languages."""

    sentences: Sequence[Texts]
    rows: dict[str, list[int]]  # language -> sentences that have it
    both: dict[Couple, list[int]]  # two languages -> sentences that have both
    paraphrases: dict[str, list[Couple]]  # language -> two texts that share a translation

    @classmethod
    def of(cls, sentences: Sequence[Texts], languages: Sequence[str]) -> _Parallel:
        rows = {name: [row for row, texts in enumerate(sentences) if name in texts] for name in languages}
        for language in languages:
            if (count := len(rows[language])) < 2:
                raise CorpusError(f"XPI needs two sentences at least in {language}; the parallel text has {count}")
        both = {
            (left, right): [row for row in rows[left] if right in sentences[row]]
            for left, right in permutations(languages, 2)
        }
        both = {couple: in_both for couple, in_both in both.items() if in_both}
        if not both:
            raise CorpusError(f"XPI needs parallel text; none has two of {', '.join(languages)}")
        return cls(sentences, rows, both, paraphrases_in(sentences, languages))


def paraphrases_in(sentences: Sequence[Texts], languages: Sequence[str]) -> dict[str, list[Couple]]:
    """Pairs of different texts of one language that have the same translation in another; each pair once."""
    paraphrases: dict[str, dict[Couple, None]] = {language: {} for language in languages}
    for language, pivot in permutations(languages, 2):
        of_translation: dict[str, set[str]] = defaultdict(set)
        for texts in sentences:
            if language in texts and pivot in texts:
                of_translation[texts[pivot]].add(texts[language])
        for same in of_translation.values():
            paraphrases[language].update(dict.fromkeys(pairwise(sorted(same))))  # a chain, not all pairs
    return {language: list(pairs) for language, pairs in paraphrases.items()}


def language_slots(count: int, languages: Sequence[str], couples: Sequence[Couple], *, seed: int) -> list[Couple]:
    """The languages of each of `count` pairs: half of them the same twice, dealt evenly; half a couple by chance."""
    generator = np.random.default_rng((seed, 3))
    dealt = [languages[index % len(languages)] for index in range(count - count // 2)]
    drawn = generator.integers(len(couples), size=count // 2).tolist()
    slots = [*zip(dealt, dealt, strict=True), *(couples[index] for index in drawn)]
    return [slots[index] for index in generator.permutation(count)]


def paraphrase_pairs(
    sentences: Sequence[Texts], languages: Sequence[str], settings: XpiConfig, *, seed: int
) -> list[TextPair]:
    """Pairs for XPI. A language without paraphrases gives negatives alone, as all do by `mono_positives="none"`.

    Raises: CorpusError: a language has fewer than two sentences, none has two languages, or all mean the same.
    """
    parallel = _Parallel.of(sentences, languages)
    generator = np.random.default_rng((seed, 4))
    slots = language_slots(settings.count, languages, list(parallel.both), seed=seed)
    wanted = generator.random(settings.count) < POSITIVE_SHARE
    pairs = []
    for slot, is_positive in zip(slots, wanted.tolist(), strict=True):
        if slot[0] == slot[1]:
            is_positive &= settings.mono_positives == "paraphrases" and bool(parallel.paraphrases[slot[0]])
        pairs.append((_positive if is_positive else _negative)(parallel, slot, generator))
    return pairs


def _positive(parallel: _Parallel, slot: Couple, generator: np.random.Generator) -> TextPair:
    if slot[0] == slot[1]:
        query, passage = _drawn(parallel.paraphrases[slot[0]], generator)
        if generator.random() < 0.5:
            query, passage = passage, query
        return TextPair(query, passage, slot, 1.0)
    sentence = parallel.sentences[_drawn(parallel.both[slot], generator)]
    return TextPair(sentence[slot[0]], sentence[slot[1]], slot, 1.0)


def _negative(parallel: _Parallel, slot: Couple, generator: np.random.Generator) -> TextPair:
    """Two sentences that share no text in any language.

    Raises: CorpusError: the drawn ones always do.
    """
    for _ in range(MAX_TRIES):
        first, second = (parallel.sentences[_drawn(parallel.rows[language], generator)] for language in slot)
        if not set(first.values()) & set(second.values()):
            return TextPair(first[slot[0]], second[slot[1]], slot, 0.0)
    raise CorpusError(f"the parallel text in {slot[0]} and {slot[1]} repeats itself: XPI finds no negative in it")


def _drawn(items: Sequence[T], generator: np.random.Generator) -> T:
    return items[int(generator.integers(len(items)))]
