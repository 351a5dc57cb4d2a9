"""Questions, the passages that answer them, and both in as many languages as there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

Texts = Mapping[str, str]  # language -> the same text in it


@dataclass(frozen=True)
class Question:
    """A question. `candidates`: the passages that are ranked for it, with the positives; None: all."""

    texts: Texts
    positives: tuple[int, ...]
    candidates: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Collection:
    """Questions and passages; a question names passages by their index."""

    questions: tuple[Question, ...]
    passages: tuple[Texts, ...]

    def texts(self) -> Iterator[Texts]:
        """Yield all questions, then all passages."""
        yield from (question.texts for question in self.questions)
        yield from self.passages

    @property
    def languages(self) -> set[str]:
        """Return the languages of all questions and passages."""
        return {language for texts in self.texts() for language in texts}

    def with_questions(self, questions: Iterable[Question]) -> Collection:
        """Return the same passages with other questions."""
        return replace(self, questions=tuple(questions))

    def in_all(self, languages: Iterable[str]) -> Collection:
        """Return what is there in all of these languages."""
        wanted = set(languages)
        return self.restricted(lambda texts: wanted <= texts.keys())

    def restricted(self, fits: Callable[[Texts], bool]) -> Collection:
        """Return the passages and questions that fit, without questions that have no positive left."""
        fitting = self.with_questions(question for question in self.questions if fits(question.texts))
        return fitting.with_passages([index for index, passage in enumerate(self.passages) if fits(passage)])

    def with_passages(self, kept: Sequence[int]) -> Collection:
        """Return these of the passages, and the questions that one of them answers."""
        new_index = {old: new for new, old in enumerate(kept)}

        def renumbered(indices: Iterable[int]) -> tuple[int, ...]:
            return tuple(new_index[index] for index in indices if index in new_index)

        questions = []
        for question in self.questions:
            positives = renumbered(question.positives)
            candidates = None if question.candidates is None else renumbered(question.candidates)
            if positives:
                questions.append(Question(question.texts, positives, candidates))
        return Collection(tuple(questions), tuple(self.passages[index] for index in kept))


@dataclass
class CollectionBuilder:
    """Collects rows of files: rows of one key are one question, and equal texts are one passage.

    A passage comes in several languages by its key; where it has another text in the language already (windows around
    two answers), the new one is a passage of its own.
    """

    passages: list[dict[str, str]] = field(default_factory=list)
    _passage_of_key: dict[Hashable, int] = field(default_factory=dict)
    _passage_of_text: dict[tuple[str, str], int] = field(default_factory=dict)
    _texts: dict[Hashable, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _positives: dict[Hashable, dict[int, None]] = field(default_factory=lambda: defaultdict(dict))
    _candidates: dict[Hashable, dict[int, None]] = field(default_factory=lambda: defaultdict(dict))

    def passage(self, texts: Texts, key: Hashable = None) -> int:
        """Return the index of a passage, new or known by its key or by one of its texts."""
        known = [self._passage_of_key.get(key), *map(self._passage_of_text.get, texts.items())]
        index = next((index for index in known if index is not None and self._agrees(index, texts)), None)
        if index is None:
            index = len(self.passages)
            self.passages.append({})
        self.passages[index].update(texts)
        if key is not None:
            self._passage_of_key.setdefault(key, index)
        for language_and_text in texts.items():
            self._passage_of_text.setdefault(language_and_text, index)
        return index

    def _agrees(self, index: int, texts: Texts) -> bool:
        return all(self.passages[index].get(language, text) == text for language, text in texts.items())

    def question(
        self, key: Hashable, texts: Texts, positives: Iterable[int], candidates: Iterable[int] | None = None
    ) -> None:
        """Add a question, or more languages, positives and candidates of a known one."""
        answers = dict.fromkeys(positives)
        self._texts[key].update(texts)
        self._positives[key].update(answers)
        if candidates is not None:
            self._candidates[key].update(dict.fromkeys([*answers, *candidates]))

    def build(self) -> Collection:
        """Return what was collected, in the order in which it came; questions without a positive are left out."""
        questions = (
            Question(texts, tuple(positives), tuple(self._candidates.get(key, ())) or None)
            for (key, texts), positives in zip(self._texts.items(), self._positives.values(), strict=True)
            if positives
        )
        return Collection(tuple(questions), tuple(self.passages))


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` row numbers, from the first to the last."""
    return [int(row) for row in np.linspace(0, count - 1, min(most, count)).round()]
