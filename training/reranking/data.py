"""What a run trains on, validates with and is measured on; no measured text is trained on.

A passage is measured text when it, or one of its longer sentences, is in a measured set: windows of one article differ
at their ends.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from training.corpora.catalog import check_terms
from training.corpora.leakage import EvaluationSentences, clean_passage, is_held_out
from training.corpora.readers import files_of, find_pair_file, read_pair_file
from training.errors import ConfigError, CorpusError, EvaluationError
from training.evaluation.encoders import MANIFEST_FILE, LoadModel, load_model, refuse_artifact
from training.reranking.collection import Collection, Texts, evenly_spaced
from training.reranking.config import RerankConfig, SourceConfig
from training.reranking.negatives import aligned_pairs, find_negatives
from training.reranking.pairs import AlignedPair, TextPair, paraphrase_pairs, stages_of
from training.reranking.ranking import RankingSet, mixed_test_set
from training.reranking.readers import read_collection
from training.system.files import files_under, fingerprint_files

logger = logging.getLogger(__name__)
SENTENCE_END = re.compile(r"(?<=[.!?؟।])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
MIN_LETTERS = 25  # of a sentence that counts as measured: shorter ones are phrases anyone may write


class MeasuredText:
    """All texts of collections, as they are and sentence by sentence, and further sentences, of an eval/ folder."""

    def __init__(self, collections: Iterable[Collection], further: EvaluationSentences) -> None:
        texts = (text for collection in collections for texts in collection.texts() for text in texts.values())
        self._sets = (EvaluationSentences(part for text in texts for part in _parts(text)), further)

    def has(self, texts: Texts) -> bool:
        """Return whether a text is measured in any language."""
        parts = (part for text in texts.values() for part in _parts(text))
        return any(part in sentences for part in parts for sentences in self._sets)


def _parts(text: str) -> Iterator[str]:
    yield text
    for sentence in SENTENCE_END.split(text):
        if sentence != text and sum(map(str.isalnum, sentence)) >= MIN_LETTERS:
            yield sentence


@dataclass(frozen=True)
class RerankData:
    """The texts of a run; each part is read once, when it is first asked for.

    load_model: of the bi-encoders that the configuration names.
    """

    config: RerankConfig
    folder: Path
    load_model: LoadModel = load_model

    def __post_init__(self) -> None:
        """Fail hours before it is needed.

        Raises: ConfigError: text has other `terms`, or an artifact is to be taught. EvaluationError: `load_model`
            refuses a bi-encoder: an artifact.
        """
        check_terms(self.config.terms, self.config.trained_on)
        if (teach := self.config.teach) and (Path(teach.encoder) / MANIFEST_FILE).is_file():
            raise ConfigError(f"teach.encoder {teach.encoder} is an artifact; name a sentence-transformers model")
        if self.load_model is load_model:
            for name in (self.config.negatives.encoder, self.config.measure.bi_encoder):
                if name is not None:
                    refuse_artifact(name)

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
    def measured(self) -> MeasuredText:
        """What must not be trained on: the measured sets of the configuration and all of eval/."""
        sources = [*self.config.measure.sets, *self.config.measure.unseen, *self.config.validation.sources]
        return MeasuredText(map(self.read, sources), EvaluationSentences.of_data(self.folder))

    @cached_property
    def _split(self) -> list[tuple[Collection, Collection]]:
        """Each training source, without measured text: what is trained on, and what it is validated with.

        Questions about held-out passages come first in validation, others by chance after them.
        """
        wanted = 0 if self.config.validation.sources else self.config.validation.questions
        share = -(-wanted // len(self.config.train))
        split = []
        for number, source in enumerate(self.config.train):
            everything = self.read(source)
            kept = everything.restricted(lambda texts: not self.measured.has(texts))
            count = len(kept.questions)
            dropped = len(everything.questions) - count, len(everything.passages) - len(kept.passages)
            message = "%s: %d questions, %d passages; measured elsewhere and dropped: %d and %d"
            logger.info(message, source.path, count, len(kept.passages), *dropped)
            held_out = self._held_out(source, kept)
            asks_held_out = [not held_out.isdisjoint(question.positives) for question in kept.questions]
            if count <= (untrained := max(share, sum(asks_held_out))):
                raise CorpusError(
                    f"{source.path} has {count} questions that are measured nowhere, and all are held out; "
                    "give more, or lower validation.questions"
                )
            order = np.random.default_rng((self.config.seed, 7, number)).permutation(count).tolist()
            order.sort(key=lambda row: not asks_held_out[row])  # stable
            trained = kept.with_questions(kept.questions[row] for row in sorted(order[untrained:]))
            validated = kept.with_questions(kept.questions[row] for row in sorted(order[:share]))
            others = [index for index in range(len(kept.passages)) if index not in held_out]
            split.append((trained.with_passages(others), validated))
        return split

    def _held_out(self, source: SourceConfig, collection: Collection) -> set[int]:
        """The passages kept out of every training: held out in one of the run's languages; none of parallel text."""
        if source.format == "parallel":
            return set()
        return {
            index
            for index, texts in enumerate(collection.passages)
            if any(is_held_out(clean_passage(texts[name])) for name in self.config.languages if name in texts)
        }

    @cached_property
    def training(self) -> list[Collection]:
        """The screened training sources without what is held out.

        Raises: CorpusError: nothing is left of one.
        """
        return [trained for trained, _ in self._split]

    @cached_property
    def validation(self) -> RankingSet:
        """The mixed set that acc@1 is measured on, with a few candidates each."""
        settings, seed = self.config.validation, self.config.seed
        held_out = [validated for _, validated in self._split]
        collections = [self.read(source) for source in settings.sources] or held_out
        share = -(-settings.questions // len(collections))
        ranking_set = RankingSet([], [], [], [])
        for collection in collections:
            mixed = mixed_test_set(collection, self.config.languages, seed=seed)
            ranking_set.extend(mixed.spread(share).with_candidates(settings.candidates, seed=seed))
        if not len(ranking_set):
            raise EvaluationError(f"no validation question is in one of {', '.join(self.config.languages)}")
        return ranking_set

    def xpr_stages(self) -> list[list[TextPair]]:
        """The pairs of stage 2, stage after stage, by the run's strategy."""
        config, settings = self.config, self.config.negatives
        encoder = self.load_model(settings.encoder) if "hard" in settings.kind and settings.encoder else None
        pairs: list[AlignedPair] = []
        questions = 0
        for collection in self.training:
            negatives = find_negatives(collection, settings, encoder=encoder, seed=config.seed)
            pairs += aligned_pairs(collection, negatives, first=questions)
            questions += len(collection.questions)
        stages = stages_of(config.strategy, pairs, config.languages, seed=config.seed, mix_by=config.mix_by)
        empty = [number for number, stage in enumerate(stages, start=1) if len(stage) < 2]
        if empty:
            raise CorpusError(f"stage {empty[0]} of {config.strategy} has no pair to train on")
        return stages

    def xpi_pairs(self) -> list[TextPair]:
        """The pairs of stage 1.

        Raises: CorpusError: a source is missing, or the parallel text cannot give them.
        """
        settings = self.config.xpi
        if settings is None:
            raise ConfigError("the run has no xpi")
        sentences = self.unmeasured(settings.sources)
        return paraphrase_pairs(sentences, self.config.languages, settings, seed=self.config.seed)

    def parallel(self, sources: Iterable[str]) -> list[Texts]:
        """Read parallel sentences: the same English in two files is one sentence in three languages."""
        sentences: dict[tuple[str, int], dict[str, str]] = {}
        times: Counter[tuple[str, str]] = Counter()  # how often an English sentence has come with a language
        languages = self.config.languages
        for source in sources:
            paths = {name: find_pair_file(self.folder / "parallel", source, name) for name in languages}
            if not any(paths.values()):
                raise CorpusError(f"{self.folder / 'parallel' / source} has no text in {', '.join(paths)}")
            for language, path in paths.items():
                for english, other in read_pair_file(path, language, on_bad_line=None) if path else ():
                    if english.strip() and other.strip():
                        number = times[english, language]  # a second translation is a sentence of its own
                        times[english, language] += 1
                        sentences.setdefault((english, number), {"en": english})[language] = other
        kept = ({name: text for name, text in texts.items() if name in languages} for texts in sentences.values())
        return [texts for texts in kept if len(texts) > 1]

    def unmeasured(self, sources: Iterable[str]) -> list[Texts]:
        """Read the parallel sentences of which no side is measured."""
        return [texts for texts in self.parallel(sources) if not self.measured.has(texts)]

    def texts(self) -> list[str]:
        """Return the texts that a smaller vocabulary is made for: questions, their answers, sentences of XPI."""
        parts: list[Texts] = []
        for collection in self.training:
            answers = dict.fromkeys(index for question in collection.questions for index in question.positives)
            parts += [question.texts for question in collection.questions]
            parts += [collection.passages[index] for index in answers]
        if self.config.xpi is not None:
            parts += self.unmeasured(self.config.xpi.sources)
        languages = self.config.languages
        return list(dict.fromkeys(text for texts in parts for name, text in texts.items() if name in languages))

    def fingerprint(self) -> str:
        """Identity of all files that the run reads."""
        config = self.config
        files = set(files_under(self.folder / "eval"))
        for source, language in product(config.xpi.sources if config.xpi else [], config.languages):
            pair_file = find_pair_file(self.folder / "parallel", source, language)
            files |= set(files_of(pair_file) if pair_file else ())
        for part in (config.train, config.validation.sources, config.measure.sets, config.measure.unseen):
            for collection in part:
                path = self.folder / collection.path
                path = path.parent if collection.format == "insurance" else path
                files |= set(files_of(path) if path.exists() else path.parent.glob(f"{path.name}.gz"))
        return fingerprint_files(sorted(files), relative_to=self.folder)
