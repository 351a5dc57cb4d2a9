"""The configuration of a re-ranker's run: frozen pydantic models read from YAML, told apart by `kind: reranker`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from training.config.parsing import ConfigModel, build, read_yaml
from training.config.run import Beta, StageConfig
from training.errors import ConfigError

KIND = "reranker"
MIN_LENGTH = 16  # tokens of a pair
Format = Literal["jsonl", "squad", "mkqa", "tsv", "parallel", "insurance"]  # training.reranking.readers
Strategy = Literal["merged", "cascade", "mixed"]  # training.reranking.pairs
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


class BodyConfig(ConfigModel):
    """A smaller body made of the base before training."""

    layers: list[int]  # of the base, in order
    vocab_size: int  # pieces at most: those that the training text uses most
    bottleneck_size: int | None = None  # width of the word table, by SVD; None: the base's


class RerankStageConfig(StageConfig):
    """A stage: the paper's optimiser where it prints one, ours where it does not."""

    batch_size: int = 32  # pairs; not printed
    learning_rate: float = 2e-5
    betas: list[Beta] = Field(default=[0.9, 0.999], min_length=2, max_length=2)
    warmup: float = 0.1  # of the pairs; not printed
    max_length: int = 512  # tokens a pair while training; at most the run's


class XpiConfig(ConfigModel):
    """Stage 1, cross-lingual paraphrase identification."""

    sources: list[str]  # of parallel/, as the corpus names them
    count: int = 100_000  # pairs made of them
    mono_positives: MonoPositives = "paraphrases"  # not printed; "none": pairs in one language are all negative
    positive_share: float = 0.5  # of pairs that can be positive; not printed
    stage: RerankStageConfig = RerankStageConfig(epochs=1.0)


class NegativesConfig(ConfigModel):
    """What a question is trained against."""

    # random: of the whole set; near: passages close by in the file, of the same article; hard: a bi-encoder's nearest
    kind: Literal["random", "near", "hard", "near+hard"] = "random"  # near+hard: half of each
    count: int = 4  # each question; not printed
    encoder: str | None = None  # hard: the bi-encoder that finds them, a folder or a name
    depth: int = 50  # hard and near: drawn from so many passages


class CodeSwitchConfig(ConfigModel):
    """Questions with most of their words in another language, by a dictionary made of parallel text."""

    sources: list[str]  # of parallel/, as the corpus names them
    share: float = 0.5  # of the questions
    words: float = 0.8  # of a switched question's words, where the dictionary has them
    foreign: float = 0.4  # of a switched question's negatives: passages in its new language instead


class TeachConfig(ConfigModel):
    """A bi-encoder that learns the re-ranker's margins (margin MSE)."""

    encoder: str  # a folder, a package's model or a hub name
    scale: float = 20.0  # its score is cosine * scale
    stage: RerankStageConfig = RerankStageConfig(epochs=1.0)  # a pair: a query with a positive and a negative


class ValidationConfig(ConfigModel):
    """What acc@1 is measured on while training: `sources`, or questions held out of the training set."""

    sources: list[SourceConfig] = Field(default=[])
    questions: int = 200
    candidates: int = 50  # each question: its positives and others by chance


class MeasureConfig(ConfigModel):
    """What the finished re-ranker is measured on, and what beside it. None of its text is trained on."""

    sets: list[SourceConfig] = Field(default=[])
    unseen: list[SourceConfig] = Field(default=[])  # kept out of training and not measured by this run
    couples: list[str] = Field(default=[])  # query-passage, such as en-zh; the mixed set is always measured
    languages: list[str] | None = None  # of the mixed set; None: the run's
    queries: int | None = None  # at most so many, evenly spaced; None: all
    bi_encoder: str | None = None  # measured on the same sets, as BM25 is


class RerankConfig(ConfigModel):
    """A whole run."""

    kind: Literal["reranker"]
    name: str
    languages: list[str]
    train: list[SourceConfig]
    base: str = "intfloat/multilingual-e5-small"  # a folder (our student, too), a package's model or a hub name
    body: BodyConfig | None = None  # None: all of the base
    strategy: Strategy = "mixed"
    max_length: int = 256  # tokens of query and passage; not printed
    xpi: XpiConfig | None = None  # None: without
    xpr: RerankStageConfig = RerankStageConfig(epochs=1.0)  # cascade: of each language in turn
    negatives: NegativesConfig = NegativesConfig()
    code_switch: CodeSwitchConfig | None = None  # None: all questions as they are
    teach: TeachConfig | None = None  # None: no bi-encoder learns from the re-ranker
    validation: ValidationConfig = ValidationConfig()
    measure: MeasureConfig = MeasureConfig()
    seed: int = 1
    checkpoint_minutes: float = 3.0


def is_reranker(raw: Any) -> bool:
    """Whether a configuration's plain values are a re-ranker's."""
    return isinstance(raw, dict) and raw.get("kind") == KIND


def load_rerank_config(path: Path) -> RerankConfig:
    """Read a YAML configuration.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value cannot be used.
    """
    return rerank_config(read_yaml(path), where=path.name)


def rerank_config(raw: Any, *, where: str) -> RerankConfig:
    """A configuration from plain values.

    Raises: ConfigError: names the key, the value and what it must be.
    """
    config = build(RerankConfig, raw, where=where)
    check_config(config, where=where)
    return config


def check_config(config: RerankConfig, *, where: str) -> None:
    """Whether the values can be used together.

    Raises: ConfigError: names the key, the value and what it must be.
    """
    at_least: dict[str, tuple[float, float]] = {
        "languages (how many)": (len(set(config.languages)), 2),
        "train (how many)": (len(config.train), 1),
        "max_length": (config.max_length, MIN_LENGTH),
        "negatives.count": (config.negatives.count, 1),
        "negatives.depth": (config.negatives.depth, config.negatives.count),
        "validation.questions": (config.validation.questions, 1),
        "validation.candidates": (config.validation.candidates, 2),
        "body.layers (how many)": (len(config.body.layers) if config.body else 1, 1),
        "body.layers": (min(config.body.layers, default=0) if config.body else 0, 0),
        "xpi.count": (config.xpi.count if config.xpi else 2, 2),
        "seed": (config.seed, 0),
    }
    for key, (value, least) in at_least.items():
        if value < least:
            raise ConfigError(f"{where}: {key} is {value}; it must be at least {least}")
    if "hard" in config.negatives.kind and config.negatives.encoder is None:
        kind = config.negatives.kind
        raise ConfigError(
            f"{where}: negatives.kind is {kind}; negatives.encoder must name the bi-encoder that finds them"
        )
    if config.xpi is not None and not 0 < config.xpi.positive_share < 1:
        raise ConfigError(f"{where}: xpi.positive_share is {config.xpi.positive_share}; it must be between 0 and 1")
    switch = config.code_switch
    if switch is not None and config.strategy == "cascade":
        raise ConfigError(
            f"{where}: code_switch is set; a cascade trains in one language at a time: use mixed or merged"
        )
    for key in ("share", "words", "foreign") if switch else ():
        if not 0 <= getattr(switch, key) <= 1:
            raise ConfigError(f"{where}: code_switch.{key} is {getattr(switch, key)}; it must be between 0 and 1")
    for couple in config.measure.couples:
        if couple.count("-") != 1:
            raise ConfigError(f"{where}: measure.couples has {couple!r}; a couple is written en-zh: query, passage")
    if config.teach is not None and not 0 < config.teach.scale < math.inf:
        raise ConfigError(f"{where}: teach.scale is {config.teach.scale}; it must be above 0")
    stages = {"xpr": config.xpr, **({"xpi.stage": config.xpi.stage} if config.xpi else {})}
    stages |= {"teach.stage": config.teach.stage} if config.teach else {}
    for key, stage in stages.items():
        _check_stage(stage, where=f"{where}: {key}")


def _check_stage(stage: RerankStageConfig, *, where: str) -> None:
    if (stage.pairs is None) == (stage.epochs is None):
        raise ConfigError(f"{where} must have either pairs or epochs: how long it trains")
    length = stage.pairs if stage.epochs is None else stage.epochs
    for key, value in (("pairs or epochs", length), ("learning_rate", stage.learning_rate)):
        if value is None or not 0 < value < math.inf:
            raise ConfigError(f"{where} has {key} {value}; it must be above 0")
