"""Keeps measured questions and passages out of what a re-ranker trains on. Knows texts; knows no model.

A passage is measured text when it, or one of its longer sentences, is in a measured set: windows of one article differ
at their ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from training.corpora.cleaning.leakage import EvaluationSentences
from training.reranking.collection import Collection, Question, Texts

SENTENCE_END = re.compile(r"(?<=[.!?؟।])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
MIN_LETTERS = 25  # of a sentence that counts: shorter ones are phrases anyone may write


class MeasuredText:
    """Every text of the measured sets, whole and sentence by sentence.

    Args: others: sentences that are measured, too: those of an eval/ folder.
    """

    def __init__(self, texts: Iterable[str], others: EvaluationSentences | None = None) -> None:
        self._sentences = EvaluationSentences(part for text in texts for part in _parts(text))
        self._others = others

    def __contains__(self, text: str) -> bool:
        return any(
            part in self._sentences or (self._others is not None and part in self._others) for part in _parts(text)
        )

    @classmethod
    def of(cls, collections: Iterable[Collection], others: EvaluationSentences | None = None) -> MeasuredText:
        """All questions and passages of these collections, and other sentences."""
        return cls((text for one in collections for text in _texts(one)), others)

    def has(self, texts: Texts) -> bool:
        """Whether a text is measured in any language."""
        return any(text in self for text in texts.values())


def screen(collection: Collection, measured: MeasuredText) -> tuple[Collection, dict[str, int]]:
    """A collection without measured passages, and without questions that are measured or have no passage left.

    Returns: the collection, and how many questions and passages were dropped.
    """
    kept = [index for index, passage in enumerate(collection.passages) if not measured.has(passage)]
    new_index = {old: new for new, old in enumerate(kept)}
    questions = []
    for question in collection.questions:
        positives = tuple(new_index[index] for index in question.positives if index in new_index)
        if positives and not measured.has(question.texts):
            candidates = question.candidates
            if candidates is not None:
                candidates = tuple(new_index[index] for index in candidates if index in new_index)
            questions.append(Question(question.texts, positives, candidates))
    dropped = {
        "questions": len(collection.questions) - len(questions),
        "passages": len(collection.passages) - len(kept),
    }
    return Collection(tuple(questions), tuple(collection.passages[index] for index in kept)), dropped


def screen_sentences(sentences: Iterable[Texts], measured: MeasuredText) -> list[Texts]:
    """Parallel sentences of which no side is measured."""
    return [one for one in sentences if not measured.has(one)]


def _texts(collection: Collection) -> Iterator[str]:
    for question in collection.questions:
        yield from question.texts.values()
    for passage in collection.passages:
        yield from passage.values()


def _parts(text: str) -> Iterator[str]:
    yield text
    for sentence in SENTENCE_END.split(text):
        if sentence != text and sum(map(str.isalnum, sentence)) >= MIN_LETTERS:
            yield sentence
