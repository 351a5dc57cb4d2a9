"""Questions, the passages that answer them, and both in as many languages as there are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
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

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of all questions and passages, sorted."""
        texts = (*(question.texts for question in self.questions), *self.passages)
        return tuple(sorted({language for one in texts for language in one}))

    def with_questions(self, questions: Iterable[Question]) -> Collection:
        """Return the same passages with other questions."""
        return replace(self, questions=tuple(questions))

    def in_all(self, languages: Iterable[str]) -> Collection:
        """Return what is there in all of these languages."""
        wanted = set(languages)

        def is_complete(texts: Texts) -> bool:
            return wanted <= texts.keys()

        return self.restricted(is_complete)

    def restricted(self, fits: Callable[[Texts], bool]) -> Collection:
        """Return the passages and questions that fit, without questions that have no positive left."""
        kept = [index for index, passage in enumerate(self.passages) if fits(passage)]
        new_index = {old: new for new, old in enumerate(kept)}

        def renumbered(indices: Iterable[int]) -> tuple[int, ...]:
            return tuple(new_index[index] for index in indices if index in new_index)

        questions = []
        for question in self.questions:
            positives = renumbered(question.positives)
            candidates = None if question.candidates is None else renumbered(question.candidates)
            if positives and fits(question.texts):
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
    _texts: dict[Hashable, dict[str, str]] = field(default_factory=dict)
    _positives: dict[Hashable, dict[int, None]] = field(default_factory=dict)
    _candidates: dict[Hashable, dict[int, None]] = field(default_factory=dict)

    def passage(self, texts: Texts, key: Hashable = None) -> int:
        """Return the index of a passage, new or known by its key or by one of its texts."""
        known = [self._passage_of_text.get(item) for item in texts.items()]
        by_key = self._passage_of_key.get(key) if key is not None else None
        index = next((index for index in (by_key, *known) if index is not None and self._agrees(index, texts)), None)
        if index is None:
            index = len(self.passages)
            self.passages.append({})
        self.passages[index].update(texts)
        if key is not None:
            self._passage_of_key.setdefault(key, index)
        for item in texts.items():
            self._passage_of_text.setdefault(item, index)
        return index

    def question(
        self, key: Hashable, texts: Texts, positives: Iterable[int], candidates: Iterable[int] | None = None
    ) -> None:
        """Add a question, or more languages, positives and candidates of a known one."""
        positives = list(positives)
        self._texts.setdefault(key, {}).update(texts)
        self._positives.setdefault(key, {}).update(dict.fromkeys(positives))
        if candidates is not None:
            self._candidates.setdefault(key, {}).update(dict.fromkeys([*positives, *candidates]))

    def build(self) -> Collection:
        """Return what was collected, in the order in which it came."""
        questions = (
            Question(texts, tuple(self._positives[key]), tuple(self._candidates[key]) or None)
            if key in self._candidates
            else Question(texts, tuple(self._positives[key]))
            for key, texts in self._texts.items()
            if self._positives[key]
        )
        return Collection(tuple(questions), tuple(self.passages))

    def _agrees(self, index: int, texts: Texts) -> bool:
        return all(self.passages[index].get(language, text) == text for language, text in texts.items())


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` row numbers, from the first to the last."""
    return [int(row) for row in np.linspace(0, count - 1, min(most, count)).round()]
