"""What a run trains, validates and is measured on: read from the data folder, without measured text in training.

A passage is measured text when it, or one of its longer sentences, is in a measured set: windows of one article differ
at their ends.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from training.corpora.cleaning.leakage import EvaluationSentences
from training.corpora.sources.readers import files_of, find_pair_file, read_pairs
from training.errors import ConfigError, CorpusError, EvaluationError
from training.evaluation.encoders import LoadModel, Model, load_model, refuse_artifact
from training.evaluation.vectors import each_text_once
from training.models.cross_encoder import load_base
from training.reranking.code_switching import Lexicon, code_switch, splitter
from training.reranking.collection import Collection, Texts, evenly_spaced
from training.reranking.config import NegativesConfig, RerankConfig, SourceConfig
from training.reranking.negatives import (
    Negatives,
    aligned_pairs,
    hard_negatives,
    joined_negatives,
    near_negatives,
    random_negatives,
)
from training.reranking.pairs import AlignedPair, Parallel, TextPair, paraphrase_pairs, stages_of
from training.reranking.ranking import RankingSet, mixed_test_set
from training.reranking.readers import read_collection
from training.system.files import files_under, fingerprint_files

logger = logging.getLogger(__name__)
SENTENCE_END = re.compile(r"(?<=[.!?؟।])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
MIN_LETTERS = 25  # of a sentence that counts as measured: shorter ones are phrases anyone may write


class MeasuredText:
    """All texts that the run is measured on, as they are and sentence by sentence.

    Args: others: further measured sentences, of an eval/ folder.
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
        """Collect the questions and passages of these collections, and other sentences."""
        return cls((text for collection in collections for text in _texts(collection)), others)

    def has(self, texts: Texts) -> bool:
        """Return whether a text is measured in any language."""
        return any(text in self for text in texts.values())

    def removed_from(self, sentences: Iterable[Texts]) -> list[Texts]:
        """Return the parallel sentences of which no side is measured."""
        return [sentence for sentence in sentences if not self.has(sentence)]


@dataclass(frozen=True)
class RerankData:
    """The texts of a run; each part is read once, when it is first asked for.

    load_model: of the bi-encoders that the configuration names.
    """

    config: RerankConfig
    folder: Path
    load_model: LoadModel = load_model

    def __post_init__(self) -> None:
        """Raises: EvaluationError: hours before it is needed: a bi-encoder is an artifact that `load_model` refuses."""
        if self.load_model is load_model:
            for name in (self.config.negatives.encoder, self.config.measure.bi_encoder):
                if name is not None:
                    refuse_artifact(name)

    @cached_property
    def measured(self) -> MeasuredText:
        """What must not be trained on: the measured sets of the configuration and all of eval/."""
        sources = [*self.config.measure.sets, *self.config.measure.unseen, *self.config.validation.sources]
        evaluation = self.folder / "eval"
        others = EvaluationSentences.from_folder(evaluation) if evaluation.is_dir() else EvaluationSentences.shipped()
        return MeasuredText.of((self.read(source) for source in sources), others)

    def read(self, source: SourceConfig) -> Collection:
        """Read a source; where it is limited, that many of its questions, evenly spaced.

        Raises: EvaluationError: it is missing or malformed.
        """
        collection = read_collection(self.folder / source.path, source.format)
        if source.parallel:
            collection = collection.in_all(self.config.languages)
            if not collection.questions:
                raise EvaluationError(f"{source.path} has no question in all of {', '.join(self.config.languages)}")
        count = len(collection.questions)
        if source.questions is None or source.questions >= count:
            return collection
        return collection.with_questions(collection.questions[row] for row in evenly_spaced(count, source.questions))

    @cached_property
    def training(self) -> list[Collection]:
        """The screened training sources without what is held out.

        Raises: CorpusError: nothing is left of one.
        """
        return [kept for kept, _ in self._split]

    @cached_property
    def validation(self) -> RankingSet:
        """The mixed set that acc@1 is measured on, with a few candidates each."""
        settings = self.config.validation
        held_out = [held for _, held in self._split]
        collections = [self.read(source) for source in settings.sources] or held_out
        sets = [mixed_test_set(collection, self.config.languages, seed=self.config.seed) for collection in collections]
        share = -(-settings.questions // max(1, len(sets)))
        few = [full.spread(share).with_candidates(settings.candidates, seed=self.config.seed) for full in sets]
        ranking_set = joined(few)
        if not len(ranking_set):
            raise EvaluationError(f"no validation question is in one of {', '.join(self.config.languages)}")
        return ranking_set

    def xpr_stages(self) -> list[list[TextPair]]:
        """The pairs of stage 2, stage after stage, by the run's strategy."""
        pairs: list[AlignedPair] = []
        settings, seed = self.config.negatives, self.config.seed
        encoder = self.load_model(settings.encoder) if "hard" in settings.kind and settings.encoder else None
        for collection in self.training:
            aligned = aligned_pairs(collection, find_negatives(collection, settings, encoder=encoder, seed=seed))
            first = 1 + max((pair.question for pair in pairs), default=-1)
            pairs += [replace(pair, question=first + pair.question) for pair in aligned]
        stages = stages_of(self.config.strategy, pairs, self.config.languages, seed=self.config.seed)
        empty = [number for number, stage in enumerate(stages) if len(stage) < 2]
        if empty:
            raise CorpusError(f"stage {empty[0] + 1} of {self.config.strategy} has no pair to train on")
        switch = self.config.code_switch
        if switch is None:
            return stages
        shares = {"share": switch.share, "words": switch.words, "foreign": switch.foreign}
        return [code_switch(stage, self.config.languages, self.lexicon, seed=seed, **shares) for stage in stages]

    @cached_property
    def lexicon(self) -> Lexicon:
        """The dictionary of `code_switch`; text without spaces is cut into words as the base's tokenizer does it.

        Raises: CorpusError: a source is missing. ConfigError: the base cannot be loaded.
        """
        sources = self.config.code_switch.sources if self.config.code_switch else []
        sentences = self.measured.removed_from(self.parallel(sources))
        _, tokenizer = load_base(self.config.base, attention="eager")
        return Lexicon.of(sentences, self.config.languages, splitter(tokenizer))

    def xpi_pairs(self) -> list[TextPair]:
        """The pairs of stage 1.

        Raises: CorpusError: a source is missing, or the parallel text cannot give them.
        """
        settings = self.config.xpi
        if settings is None:
            raise ConfigError("the run has no xpi")
        sentences = self.measured.removed_from(self.parallel(settings.sources))
        return paraphrase_pairs(
            Parallel.of(sentences, self.config.languages),
            self.config.languages,
            settings.count,
            seed=self.config.seed,
            mono_positives=settings.mono_positives,
            positive_share=settings.positive_share,
        )

    def parallel(self, sources: Iterable[str]) -> list[Texts]:
        """Read parallel sentences: the same English in two files is one sentence in three languages."""
        found: dict[tuple[str, int], dict[str, str]] = {}
        for source in sources:
            paths = {name: find_pair_file(self.folder / "parallel", source, name) for name in self.config.languages}
            if not any(paths.values()):
                raise CorpusError(f"{self.folder / 'parallel' / source} has no text in {', '.join(paths)}")
            for language, path in paths.items():
                for english, other in read_pairs(path, language) if path else ():
                    number = 0  # a second translation of the same English is a sentence of its own
                    while language in found.get((english, number), {}):
                        number += 1
                    found.setdefault((english, number), {"en": english})[language] = other
        wanted = set(self.config.languages)
        kept = ({name: text for name, text in one.items() if name in wanted} for one in found.values())
        return [one for one in kept if len(one) > 1]

    def texts(self) -> list[str]:
        """Return the texts that a smaller vocabulary is made for: questions, their answers, sentences of XPI."""
        parts: list[Texts] = []
        for collection in self.training:
            answers = dict.fromkeys(index for question in collection.questions for index in question.positives)
            parts += [question.texts for question in collection.questions]
            parts += [collection.passages[index] for index in answers]
        if self.config.xpi is not None:
            parts += self.measured.removed_from(self.parallel(self.config.xpi.sources))
        wanted = set(self.config.languages)
        return list(dict.fromkeys(text for texts in parts for name, text in texts.items() if name in wanted))

    def fingerprint(self) -> str:
        """Identity of all files that the run reads."""
        settings = self.config
        measure = settings.measure
        files = set(files_under(self.folder / "eval")) | set(self._parallel_files())
        for source in (*settings.train, *settings.validation.sources, *measure.sets, *measure.unseen):
            path = self.folder / source.path
            path = path.parent if source.format == "insurance" else path
            files |= set(files_of(path)) if path.exists() else set(path.parent.glob(f"{path.name}.gz"))
        return fingerprint_files(sorted(files), relative_to=self.folder)

    @cached_property
    def _split(self) -> list[tuple[Collection, Collection]]:
        """Each training source, without measured text: what is trained on, and what is held out."""
        held_out = 0 if self.config.validation.sources else self.config.validation.questions
        share = -(-held_out // len(self.config.train))
        split = []
        for number, source in enumerate(self.config.train):
            everything = self.read(source)
            kept = everything.restricted(lambda texts: not self.measured.has(texts))
            dropped = len(everything.questions) - len(kept.questions), len(everything.passages) - len(kept.passages)
            counts = (len(kept.questions), len(kept.passages), *dropped)
            logger.info(
                "%s: %d questions, %d passages; measured elsewhere and dropped: %d and %d", source.path, *counts
            )
            if len(kept.questions) <= share:
                raise CorpusError(
                    f"{source.path} has {len(kept.questions)} questions that are measured nowhere; "
                    f"validation holds {share} out of it (validation.questions)"
                )
            order = np.random.default_rng((self.config.seed, 7, number)).permutation(len(kept.questions))
            held = set(order[:share].tolist())
            rows = list(enumerate(kept.questions))
            split.append(
                (
                    kept.with_questions(question for row, question in rows if row not in held),
                    kept.with_questions(question for row, question in rows if row in held),
                )
            )
        return split

    def _parallel_files(self) -> Iterator[Path]:
        settings = (self.config.xpi, self.config.code_switch)
        for source in dict.fromkeys(source for one in settings if one is not None for source in one.sources):
            for language in self.config.languages:
                path = find_pair_file(self.folder / "parallel", source, language)
                yield from files_of(path) if path else ()


def find_negatives(collection: Collection, settings: NegativesConfig, *, encoder: Model | None, seed: int) -> Negatives:
    """The negatives of each question, by chance, by place or by the bi-encoder that the settings name."""
    near = partial(near_negatives, collection, settings.count, depth=settings.depth, seed=seed)
    if settings.kind == "near":
        return near()
    if settings.kind == "random" or encoder is None:
        return random_negatives(collection, settings.count, seed=seed)
    hard = hard_negatives(
        collection,
        settings.count,
        encode_query=each_text_once(encoder.encode_query),
        encode_passage=each_text_once(encoder.encode_document),
        depth=settings.depth,
        seed=seed,
    )
    return hard if settings.kind == "hard" else joined_negatives(near(), hard, settings.count)


def joined(sets: Iterable[RankingSet]) -> RankingSet:
    """Join several sets into one; each query keeps its own candidates."""
    together = RankingSet([], [], [], [])
    for ranking_set in sets:
        first = len(together.passages)
        together.queries.extend(ranking_set.queries)
        together.passages.extend(ranking_set.passages)
        together.candidates.extend(row + first for row in ranking_set.candidates)
        together.positives.extend(frozenset(index + first for index in row) for row in ranking_set.positives)
    return together


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
