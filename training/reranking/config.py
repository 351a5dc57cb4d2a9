"""The configuration of a re-ranker's run: frozen pydantic models read from YAML, told apart by `kind: reranker`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from training.config.parsing import ConfigModel, build, read_yaml
from training.config.run import AboveZero, Beta, Count, LoopConfig, Seed, Terms

MIN_LENGTH = 16  # tokens of a pair
Format = Literal["jsonl", "squad", "tsv", "parallel", "insurance"]  # training.reranking.readers
Strategy = Literal["merged", "cascade", "mixed"]  # training.reranking.pairs
MixBy = Literal["pair", "question"]
MonoPositives = Literal["paraphrases", "none"]


class SourceConfig(ConfigModel):
    """A file or folder of questions and passages, relative to --data; of insurance, the folder and the split."""

    path: str
    format: Format = "jsonl"
    parallel: bool = False  # only questions and passages that are in all of the run's languages
    questions: int | None = None  # at most so many, evenly spaced; None: all

    @property
    def label(self) -> str:
        """What tables call it: eval/bipar/test is bipar_test."""
        parts = [part for part in Path(self.path).parts if part not in ("eval", "qa", "/")]
        return "_".join(parts).removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")

    @property
    def corpus(self) -> str:
        """What the catalogue calls it: qa/arcd.jsonl.gz is arcd, parallel/tico19 is tico19, another path itself."""
        folder, _, name = self.path.partition("/")
        return name.removesuffix(".gz").removesuffix(".jsonl") if folder in ("qa", "parallel") else self.path


class BodyConfig(ConfigModel):
    """A smaller body made of the base before training."""

    layers: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]  # of the base, in order
    vocab_size: int  # pieces at most: those that the training text uses most
    bottleneck_size: int | None = None  # width of the word table, by SVD; None: the base's


class TeachStageConfig(LoopConfig):
    """A stage: the paper's optimiser where it prints one, ours where it does not."""

    batch_size: Annotated[int, Field(ge=2)] = 32  # pairs; not printed
    learning_rate: AboveZero = 2e-5
    betas: list[Beta] = Field(default=[0.9, 0.999], min_length=2, max_length=2)
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1  # of the pairs; not printed

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if (self.pairs is None) == (self.epochs is None):
            raise ValueError("there must be either pairs or epochs: how long it trains")
        return self


class RerankStageConfig(TeachStageConfig):
    """A stage of the re-ranker itself."""

    seed: Seed | None = None  # None: the run's
    max_length: int = 512  # tokens a pair while training; at most the run's
    compile: bool = False  # the layers; not those of a base that is no student of ours


class XpiConfig(ConfigModel):
    """Stage 1, cross-lingual paraphrase identification."""

    sources: list[str]  # of parallel/, as the corpus names them
    count: Annotated[int, Field(ge=2)] = 100_000  # pairs made of them
    mono_positives: MonoPositives = "paraphrases"  # not printed; "none": pairs in one language are all negative
    stage: RerankStageConfig = RerankStageConfig(epochs=1.0)


class NegativesConfig(ConfigModel):
    """What a question is trained against."""

    # random: of the whole set; near: passages close by in the file, of the same article; hard: a bi-encoder's nearest
    kind: Literal["random", "near", "hard", "near+hard"] = "random"  # near+hard: half of each
    count: Count = 4  # each question; not printed
    encoder: str | None = None  # hard: the bi-encoder that finds them, a folder or a name
    depth: int = 50  # hard and near: drawn from so many passages

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.depth < self.count:
            raise ValueError(f"depth is {self.depth}; it must be at least count, {self.count}")
        if "hard" in self.kind and self.encoder is None:
            raise ValueError(f"kind is {self.kind}; encoder must name the bi-encoder that finds them")
        return self


class TeachConfig(ConfigModel):
    """A bi-encoder that learns the re-ranker's margins (margin MSE)."""

    encoder: str  # a folder, a package's model or a hub name
    scale: AboveZero = 20.0  # its score is cosine * scale
    stage: TeachStageConfig = TeachStageConfig(epochs=1.0)  # a pair: a query with a positive and a negative


class ValidationConfig(ConfigModel):
    """What acc@1 is measured on while training: `sources`, or questions held out of the training set."""

    sources: list[SourceConfig] = Field(default=[])
    questions: Count = 200
    candidates: Annotated[int, Field(ge=2)] = 50  # each question: its positives and others by chance


class MeasureConfig(ConfigModel):
    """What the finished re-ranker is measured on, and what beside it. None of its text is trained on."""

    sets: list[SourceConfig] = Field(default=[])
    unseen: list[SourceConfig] = Field(default=[])  # kept out of training and not measured by this run
    couples: list[str] = Field(default=[])  # query-passage, such as en-zh; the mixed set is always measured
    languages: list[str] | None = None  # of the mixed set; None: the run's
    queries: int | None = None  # at most so many, evenly spaced; None: all
    bi_encoder: str | None = None  # measured on the same sets, as BM25 is

    @model_validator(mode="after")
    def _check_couples(self) -> Self:
        for couple in self.couples:
            if couple.count("-") != 1:
                raise ValueError(f"couples has {couple!r}; a couple is written en-zh: query, passage")
        return self


class RerankConfig(ConfigModel):
    """A whole run."""

    kind: Literal["reranker"]
    name: str
    languages: list[str]
    train: Annotated[list[SourceConfig], Field(min_length=1)]
    base: str = "intfloat/multilingual-e5-small"  # a folder (our student, too), a package's model or a hub name
    body: BodyConfig | None = None  # None: all of the base
    strategy: Strategy = "mixed"
    # of strategy mixed. pair: a question's negatives come in both languages, as in the paper's Fig. 3; question: in one
    mix_by: MixBy = "pair"
    max_length: Annotated[int, Field(ge=MIN_LENGTH)] = 256  # tokens of query and passage; not printed
    xpi: XpiConfig | None = None  # None: without
    xpr: RerankStageConfig = RerankStageConfig(epochs=1.0)  # cascade: of each language in turn
    negatives: NegativesConfig = NegativesConfig()
    teach: TeachConfig | None = None  # None: no bi-encoder learns from the re-ranker
    validation: ValidationConfig = ValidationConfig()
    measure: MeasureConfig = MeasureConfig()
    terms: Annotated[list[Terms], Field(min_length=1)] | None = None  # licences of text trained on; None: any
    seed: Seed = 1
    checkpoint_minutes: float = 3.0

    @property
    def trained_on(self) -> dict[str, list[str]]:
        """Setting -> the sources it names."""
        xpi = {} if self.xpi is None else {"xpi.sources": self.xpi.sources}
        return {"train": [source.corpus for source in self.train], **xpi}

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if len(set(self.languages)) < 2:
            raise ValueError(f"languages is {self.languages}; it must have at least two")
        return self


def is_reranker(raw: Any) -> bool:
    """Whether a configuration's plain values are a re-ranker's."""
    return isinstance(raw, dict) and raw.get("kind") == "reranker"


def load_rerank_config(path: Path) -> RerankConfig:
    """Read a YAML configuration.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value cannot be used.
    """
    return build(RerankConfig, read_yaml(path), where=path.name)
