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
from training.reranking.config import MonoPositives, Strategy

Couple = tuple[str, str]  # languages of query and passage
T = TypeVar("T")
MAX_TRIES = 100  # draws of a negative: sentences that repeat are rare


@dataclass(frozen=True)
class AlignedPair:
    """A query and a passage, each in all its languages. `question`: pairs of one question are mixed alike."""

    question: int
    query: Texts
    passage: Texts
    is_positive: bool

    def common(self, languages: Sequence[str]) -> tuple[str, ...]:
        """Return the languages that both sides are in, in the order given."""
        return tuple(language for language in languages if language in self.query and language in self.passage)


@dataclass(frozen=True)
class TextPair:
    """What the model reads. languages: of query and passage.  question: its number, in all languages; None: of XPI."""

    query: str
    passage: str
    languages: Couple
    label: float
    question: int | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether the sides are in two languages."""
        return self.languages[0] != self.languages[1]


def stages_of(
    strategy: Strategy, pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int
) -> list[list[TextPair]]:
    """Return the pairs of each stage; their total is the same for each strategy.

    merged: one stage, D_l1 and D_l2 together. cascade: D_l1, then D_l2. mixed: one stage, `mixed`.
    """
    if strategy == "mixed":
        return [mixed(pairs, languages, seed=seed)]
    by_language = cascade(pairs, languages, seed=seed)
    return by_language if strategy == "cascade" else [merged(by_language)]


def merged(by_language: Sequence[Sequence[TextPair]]) -> list[TextPair]:
    """Join D_l1, D_l2, ..."""
    return [pair for stage in by_language for pair in stage]


def cascade(pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int) -> list[list[TextPair]]:
    """D_l of each language in turn, query and passage in it.

    A pair whose sides share no language goes with its query's.
    """
    generator = np.random.default_rng((seed, 0))
    stages: dict[str, list[TextPair]] = {language: [] for language in languages}
    for pair in pairs:
        couples = [(language, language) for language in pair.common(languages)]
        for couple in couples or _any_couple(pair, languages, generator):
            stages[couple[0]].append(text_pair(pair, couple))
    return list(stages.values())


def mixed(pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int) -> list[TextPair]:
    """Each query in each language; for half of the questions every second of these gets the passage's translation.

    For the other half it is the others that do. With two languages and M pairs in each: half of the l1 queries get the
    passage in l2 and their l2 counterparts stay l2, the other half stays l1 and its counterparts get l1; M pairs are in
    one language and M in two.
    """
    generator = np.random.default_rng((seed, 1))
    questions = list(dict.fromkeys(pair.question for pair in pairs))
    first_half = {questions[index] for index in generator.permutation(len(questions))[: len(questions) // 2]}
    mixed_pairs = []
    for pair in pairs:
        common = pair.common(languages)
        if not common:
            mixed_pairs += [text_pair(pair, couple) for couple in _any_couple(pair, languages, generator)]
        for number, language in enumerate(common):
            others = [passage_language for passage_language in common if passage_language != language]
            stays = not others or number % 2 == int(pair.question in first_half)
            passage_language = language if stays else others[int(generator.integers(len(others)))]
            mixed_pairs.append(text_pair(pair, (language, passage_language)))
    return mixed_pairs


def text_pair(pair: AlignedPair, couple: Couple) -> TextPair:
    """Return the pair in these languages."""
    return TextPair(pair.query[couple[0]], pair.passage[couple[1]], couple, float(pair.is_positive), pair.question)


def _any_couple(pair: AlignedPair, languages: Sequence[str], generator: np.random.Generator) -> list[Couple]:
    """Draw a couple of languages for sides that share none; nothing where one side has none of them."""
    couples = [
        (query, passage)
        for query in languages
        if query in pair.query
        for passage in languages
        if passage in pair.passage
    ]
    return [couples[int(generator.integers(len(couples)))]] if couples else []


@dataclass(frozen=True)
class Parallel:
    """Parallel sentences, and which of them may be drawn in which languages."""

    sentences: Sequence[Texts]
    rows: dict[str, list[int]]  # language -> sentences that have it
    both: dict[Couple, list[int]]  # two languages -> sentences that have both
    paraphrases: dict[str, list[Couple]]  # language -> two texts that share a translation

    @classmethod
    def of(cls, sentences: Sequence[Texts], languages: Sequence[str]) -> Parallel:
        """Index sentences by language.

        Raises: CorpusError: a language has fewer than two of them, or none has two languages.
        """
        rows = {name: [row for row, one in enumerate(sentences) if name in one] for name in languages}
        thin = next((name for name, found in rows.items() if len(found) < 2), None)
        if thin is not None:
            raise CorpusError(f"XPI needs two sentences at least in {thin}; the parallel text has {len(rows[thin])}")
        both = {
            couple: found
            for couple in permutations(languages, 2)
            if (found := [row for row in rows[couple[0]] if couple[1] in sentences[row]])
        }
        if not both:
            raise CorpusError(f"XPI needs parallel text; none has two of {', '.join(languages)}")
        return cls(sentences, rows, both, paraphrases_in(sentences, languages))


def paraphrases_in(sentences: Sequence[Texts], languages: Sequence[str]) -> dict[str, list[Couple]]:
    """Pairs of different texts of one language that have the same translation in another; each pair once."""
    found: dict[str, dict[Couple, None]] = {language: {} for language in languages}
    for language, pivot in permutations(languages, 2):
        of_translation: dict[str, dict[str, None]] = defaultdict(dict)
        for one in sentences:
            if language in one and pivot in one:
                of_translation[one[pivot]][one[language]] = None
        for texts in of_translation.values():
            ordered = sorted(texts)
            found[language].update(dict.fromkeys(pairwise(ordered)))  # a chain, not all pairs
    return {language: list(pairs) for language, pairs in found.items()}


def language_slots(count: int, languages: Sequence[str], couples: Sequence[Couple], *, seed: int) -> list[Couple]:
    """The languages of each of `count` pairs: half of them the same twice, dealt evenly; half a couple by chance."""
    generator = np.random.default_rng((seed, 3))
    mono = [(languages[index % len(languages)],) * 2 for index in range(count - count // 2)]
    drawn = generator.integers(len(couples), size=count // 2).tolist()
    slots: list[Couple] = [*((one, other) for one, other in mono), *(couples[index] for index in drawn)]
    return [slots[index] for index in generator.permutation(count)]


def paraphrase_pairs(
    parallel: Parallel,
    languages: Sequence[str],
    count: int,
    *,
    seed: int,
    mono_positives: MonoPositives = "paraphrases",
    positive_share: float = 0.5,
) -> list[TextPair]:
    """`count` pairs for XPI.

    A language without paraphrases gives negatives alone, as all do by `mono_positives="none"`.

    Args: positive_share: of the pairs of languages that have positives.
    """
    generator = np.random.default_rng((seed, 4))
    slots = language_slots(count, languages, list(parallel.both), seed=seed)
    wanted = generator.random(count) < positive_share
    pairs = []
    for slot, is_positive in zip(slots, wanted.tolist(), strict=True):
        is_mono = slot[0] == slot[1]
        can_be_positive = not is_mono or (mono_positives == "paraphrases" and bool(parallel.paraphrases[slot[0]]))
        draw = _positive if is_positive and can_be_positive else _negative
        pairs.append(draw(parallel, slot, generator))
    return pairs


def _positive(parallel: Parallel, slot: Couple, generator: np.random.Generator) -> TextPair:
    if slot[0] == slot[1]:
        one, other = _drawn(parallel.paraphrases[slot[0]], generator)
        if generator.random() < 0.5:
            one, other = other, one
        return TextPair(one, other, slot, 1.0)
    sentence = parallel.sentences[_drawn(parallel.both[slot], generator)]
    return TextPair(sentence[slot[0]], sentence[slot[1]], slot, 1.0)


def _negative(parallel: Parallel, slot: Couple, generator: np.random.Generator) -> TextPair:
    """Two sentences that share no text in any language.

    Raises: CorpusError: the drawn ones always do.
    """
    for _ in range(MAX_TRIES):
        one = parallel.sentences[_drawn(parallel.rows[slot[0]], generator)]
        other = parallel.sentences[_drawn(parallel.rows[slot[1]], generator)]
        if not set(one.values()) & set(other.values()):
            return TextPair(one[slot[0]], other[slot[1]], slot, 0.0)
    raise CorpusError(f"the parallel text in {slot[0]} and {slot[1]} repeats itself: XPI finds no negative in it")


def _drawn(items: Sequence[T], generator: np.random.Generator) -> T:
    return items[int(generator.integers(len(items)))]
