"""Which language each side of a pair is in: Chen et al. 2020, section III. Pure: one seed, one result.

All functions take any two or more languages; with two they are the paper's. A pair that is there in one language only
comes out in it, under each strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from training.reranking.collection import Collection, Question, Texts
from training.reranking.ranking import RankingSet

Strategy = Literal["merged", "cascade", "mixed"]


@dataclass(frozen=True)
class AlignedPair:
    """A query and a passage, each in all its languages. `question`: pairs of one question are mixed alike."""

    question: int
    query: Texts
    passage: Texts
    is_positive: bool

    def common(self, languages: Sequence[str]) -> tuple[str, ...]:
        """The languages that both sides are in, in the order given."""
        return tuple(language for language in languages if language in self.query and language in self.passage)


@dataclass(frozen=True)
class TextPair:
    """What the model reads. languages: of query and passage.  question: its number, in all languages; None: of XPI."""

    query: str
    passage: str
    languages: tuple[str, str]
    label: float
    question: int | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether the sides are in two languages."""
        return self.languages[0] != self.languages[1]


def stages_of(
    strategy: Strategy, pairs: Sequence[AlignedPair], languages: Sequence[str], *, seed: int
) -> list[list[TextPair]]:
    """What is trained on, stage after stage; the total of pairs is the same for each strategy.

    merged: one stage, D_l1 and D_l2 together. cascade: D_l1, then D_l2. mixed: one stage, `mixed`.
    """
    if strategy == "mixed":
        return [mixed(pairs, languages, seed=seed)]
    by_language = cascade(pairs, languages, seed=seed)
    return by_language if strategy == "cascade" else [merged(by_language)]


def merged(by_language: Sequence[Sequence[TextPair]]) -> list[TextPair]:
    """The union of D_l1, D_l2, ..."""
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
    found = []
    for pair in pairs:
        common = pair.common(languages)
        if not common:
            found += [text_pair(pair, couple) for couple in _any_couple(pair, languages, generator)]
        for number, language in enumerate(common):
            others = [other for other in common if other != language]
            stays = not others or number % 2 == int(pair.question in first_half)
            other = language if stays else others[int(generator.integers(len(others)))]
            found.append(text_pair(pair, (language, other)))
    return found


def mixed_test_set(collection: Collection, languages: Sequence[str], *, seed: int) -> RankingSet:
    """The paper's test set: each query's language by a coin toss, each language the same share of the passages.

    A text that is not there in the language it was given comes in one that it has; without any it is left out.
    """
    generator = np.random.default_rng((seed, 2))
    query_languages = [_tossed(question, languages, generator) for question in collection.questions]
    dealt = generator.permutation(len(collection.passages)) % len(languages)
    passage_languages = [
        _available(passage, languages[deal], languages)
        for passage, deal in zip(collection.passages, dealt.tolist(), strict=True)
    ]
    return RankingSet.of(collection, query_languages, passage_languages)


def set_in_languages(collection: Collection, query_language: str, passage_language: str) -> RankingSet:
    """All queries in one language and all passages in one; what is not there in it is left out."""
    return RankingSet.of(
        collection,
        [query_language if query_language in question.texts else None for question in collection.questions],
        [passage_language if passage_language in passage else None for passage in collection.passages],
    )


def text_pair(pair: AlignedPair, couple: tuple[str, str]) -> TextPair:
    """The pair in these languages."""
    return TextPair(pair.query[couple[0]], pair.passage[couple[1]], couple, float(pair.is_positive), pair.question)


def _any_couple(pair: AlignedPair, languages: Sequence[str], generator: np.random.Generator) -> list[tuple[str, str]]:
    """One couple of languages for sides that share none; nothing where one side has none of them."""
    couples = [(one, other) for one in languages if one in pair.query for other in languages if other in pair.passage]
    return [couples[int(generator.integers(len(couples)))]] if couples else []


def _tossed(question: Question, languages: Sequence[str], generator: np.random.Generator) -> str | None:
    return _available(question.texts, languages[int(generator.integers(len(languages)))], languages)


def _available(texts: Texts, wanted: str, languages: Sequence[str]) -> str | None:
    return next((language for language in (wanted, *languages) if language in texts), None)
