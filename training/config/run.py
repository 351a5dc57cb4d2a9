"""The training configuration: frozen dataclasses read from YAML. An unknown key is an error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from training.config.corpus import CorpusConfig
from training.config.parsing import build, read_yaml
from training.config.stage import BLOCK_SIZE, BottleneckConfig, ContrastiveConfig, StageConfig, StudentStageConfig
from training.errors import ConfigError

Stage = Literal["assistant", "bottleneck", "student", "contrastive"]
STSB_DEV = "stsb/dev"
Model = Literal["start", "assistant", "shrunk", "bottleneck", "student", "contrastive"]
STAGES: tuple[Stage, ...] = ("assistant", "bottleneck", "student", "contrastive")


@dataclass(frozen=True)
class TokenizerConfig:
    """The vocabulary of assistant and student."""

    kind: Literal["new", "pruned", "kept"] = "new"  # BPE on the corpus; the base's pieces in use; all of the base's
    vocab_size: int = 32_000  # pieces, the most frequent ones; pruned: at most
    alphabet: int = 5_000  # new: single characters kept, most frequent first; rarer ones become [UNK]
    sentences: int = 1_000_000  # sampled from the corpus by `language_exponent`
    language_exponent: float = 0.3  # a language of n texts is sampled in proportion to n ** exponent
    lowercase: bool = True  # new: lowercase texts
    fill: bool | None = None  # pruned: add the base's first pieces in the corpus's scripts, up to `vocab_size`
    mono: list[str] = field(default_factory=list)  # pruned: folders under `mono/` with more text to count pieces in


@dataclass(frozen=True)
class LexicalConfig:
    """The lexical start: word embeddings of a new vocabulary, fitted to the base's (`training.models.lexical`)."""

    pairs: int = 400_000  # parallel pairs to fit on
    ridge: float = 1.0  # weight of a token's prior embedding, in sentences
    iterations: int = 40  # of conjugate gradients


@dataclass(frozen=True)
class LabelConfig:
    """How the embeddings of one or several teachers become a text's label (`training.models.labels`)."""

    beside: list[str] = field(default_factory=list)  # further teachers: folders or hub names
    centred: bool = False  # subtract each teacher's mean embedding
    dim: int | None = None  # dimensions of a label; None: those of all teachers together


@dataclass(frozen=True)
class StudentConfig:
    """The student's size."""

    bottleneck_size: int | None = 128  # B; None: no bottleneck, a V x H table
    bottleneck_start: Literal["svd", "random"] = "svd"  # weighted SVD of the assistant's table; random, as in the paper
    unit_layers: int = 3  # M, layers of the recurrent unit
    layers: list[int] | None = None  # which M layers of the assistant, counted from 0; None: the first M
    recurrences: int = 2  # K, how many times the unit is applied; 1: no recurrence
    max_length: int = 128  # tokens, special tokens included


@dataclass(frozen=True)
class EvaluationConfig:
    """What is scored, and after which steps."""

    # steps that are scored: start, shrunk (the untrained student) or a stage
    steps: list[Model] = field(default_factory=lambda: ["start", "assistant", "contrastive"])
    languages: list[str] | None = None  # None: the run's
    dev: str | None = None  # dev set of `validate_pairs`: a folder under DIR/eval; None: stsb/dev
    sts_rows: int | None = None  # rows of each STS file, evenly spaced; None: all
    tatoeba_rows: int | None = None  # first lines of each Tatoeba file; None: all


@dataclass(frozen=True)
class RunConfig:
    """One training run."""

    languages: list[str]  # besides English, the teacher's language
    corpus: CorpusConfig  # the parallel text
    name: str | None = None  # of the model in its card; None: the name of the output folder
    teacher: str = "sentence-transformers/all-MiniLM-L6-v2"  # the English model to distil: folder or hub name
    base: str | None = None  # the encoder to shrink: folder or hub name; None: the teacher
    labels: LabelConfig = LabelConfig()  # what the student predicts
    head: Literal["base", "fitted"] = "base"  # the base's, or random if it has none; fitted by ridge regression
    trust_remote_code: bool = False  # run code from the folder of teacher or base
    stages: list[Stage] = field(default_factory=lambda: list(STAGES))  # the stages to train; others are skipped
    assistant: StageConfig = field(default_factory=StageConfig)  # stage 1
    bottleneck: BottleneckConfig = field(default_factory=BottleneckConfig)  # stage 2
    student_stage: StudentStageConfig = field(default_factory=StudentStageConfig)  # stage 3
    contrastive: ContrastiveConfig = field(default_factory=ContrastiveConfig)  # stage 4
    tokenizer: TokenizerConfig = TokenizerConfig()  # the vocabulary
    lexical: LexicalConfig = LexicalConfig()  # the start of a new vocabulary
    student: StudentConfig = StudentConfig()  # the size of the student
    evaluation: EvaluationConfig = EvaluationConfig()  # scores during the run
    seed: int = 1  # of every random choice
    checkpoint_minutes: float = 3.0  # between checkpoints of a running stage

    @property
    def teachers(self) -> list[str]:
        """All teachers, `teacher` first."""
        return [self.teacher, *self.labels.beside]

    @property
    def has_label_space(self) -> bool:
        """Whether labels differ from the teacher's plain embeddings."""
        return self.labels != LabelConfig()

    @property
    def scored_languages(self) -> list[str]:
        """The languages that models are scored in."""
        return self.evaluation.languages or self.languages

    @property
    def dev_folder(self) -> str:
        """The dev set's folder under DIR/eval."""
        return self.evaluation.dev or STSB_DEV

    @property
    def validates(self) -> bool:
        """Whether a trained stage computes dev scores."""
        return any(self.stage(name).validate_pairs for name in self.stages)

    def stage(self, name: Stage) -> StageConfig:
        """The settings of a stage."""
        stages: dict[Stage, StageConfig] = {
            "assistant": self.assistant,
            "bottleneck": self.bottleneck,
            "student": self.student_stage,
            "contrastive": self.contrastive,
        }
        return stages[name]

    def word_width(self, name: Stage) -> int | None:
        """Width of the word table that a stage trains; None: the base's hidden size."""
        return None if name == "assistant" else self.student.bottleneck_size


def load_config(path: Path) -> RunConfig:
    """Read a YAML configuration.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value has the wrong type.
    """
    config = build(RunConfig, read_yaml(path), where=path.name)
    check(config, where=path.name)
    return config


def check(config: RunConfig, *, where: str) -> None:
    """Refuse values that no run can use.

    Raises: ConfigError: the message names the key, the value and what it must be.
    """
    at_least: dict[str, tuple[float, float]] = {
        "student.unit_layers": (config.student.unit_layers, 1),
        "student.recurrences": (config.student.recurrences, 1),
        "student.max_length": (config.student.max_length, 3),
        "student.bottleneck_size": (1 if config.student.bottleneck_size is None else config.student.bottleneck_size, 1),
        "seed": (config.seed, 0),
        "lexical.pairs": (config.lexical.pairs, 1),
        "corpus.max_pairs": (1 if config.corpus.max_pairs is None else config.corpus.max_pairs, 1),
        "tokenizer.vocab_size": (config.tokenizer.vocab_size, 10),
        "tokenizer.alphabet": (config.tokenizer.alphabet, 1),
        "tokenizer.sentences": (config.tokenizer.sentences, 1),
        "labels.dim": (1 if config.labels.dim is None else config.labels.dim, 1),
        "student.layers (the lowest)": (min(config.student.layers or [0]), 0),
        "contrastive.mcl_weight": (config.contrastive.mcl_weight, 0),
        "evaluation.sts_rows": (2 if config.evaluation.sts_rows is None else config.evaluation.sts_rows, 2),
        "evaluation.tatoeba_rows": (1 if config.evaluation.tatoeba_rows is None else config.evaluation.tatoeba_rows, 1),
        "languages (how many)": (len(config.languages), 1),
        "corpus.sources (how many)": (len(config.corpus.sources), 1),
    }
    for key, (value, least) in at_least.items():
        if value < least:
            raise ConfigError(f"{where}: {key} is {value}; it must be at least {least}")
    layers = config.student.layers
    if layers is not None and (len(layers) != config.student.unit_layers or sorted(set(layers)) != layers):
        raise ConfigError(
            f"{where}: student.layers is {layers}; it must list {config.student.unit_layers} layers "
            "(student.unit_layers) in ascending order"
        )
    repeated = sorted({language for language in config.languages if config.languages.count(language) > 1})
    if repeated:
        raise ConfigError(f"{where}: languages lists {repeated[0]!r} more than once")
    in_order = [name for name in STAGES if name in config.stages]
    if config.stages != in_order:
        raise ConfigError(f"{where}: stages is {config.stages}; each at most once, in order: {', '.join(STAGES)}")
    if config.corpus.noise is not None:
        _check_share(f"{where}: corpus.noise", config.corpus.noise)
    for name, source in config.corpus.sources.items():
        if source.max_pairs is not None and source.max_pairs < 1:
            raise ConfigError(f"{where}: corpus.sources.{name}.max_pairs is {source.max_pairs}; it must be at least 1")
        _check_above_0(f"corpus.sources.{name}.weight", source.weight, where=where)
    if config.bottleneck.source_share is not None:
        raise ConfigError(f"{where}: bottleneck.source_share is set; stage 2 learns from both sides of every pair")
    _check_above_0("contrastive.temperature", config.contrastive.temperature, where=where)
    _check_above_0("lexical.ridge", config.lexical.ridge, where=where)
    if config.student_stage.token_weight is not None:
        _check_above_0("student_stage.token_weight", config.student_stage.token_weight, where=where)
    for name in config.stages:
        _check_stage(name, config, where=f"{where}: {name if name != 'student' else 'student_stage'}")


def _check_above_0(key: str, value: float, *, where: str) -> None:
    if not 0 < value < math.inf:  # YAML has .nan and .inf
        raise ConfigError(f"{where}: {key} is {value}; it must be above 0")


def _check_share(key: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ConfigError(f"{key} is {value}; it must be above 0 and at most 1")


def _check_stage(name: Stage, config: RunConfig, *, where: str) -> None:
    stage, word_width = config.stage(name), config.word_width(name)
    if (stage.pairs is None) == (stage.epochs is None):
        raise ConfigError(f"{where} must have either pairs or epochs, its length")
    at_least: dict[str, tuple[float, float]] = {
        "pairs": (stage.pairs if stage.pairs is not None else 2, 2),
        "batch_size": (stage.batch_size, 2),
        "accumulation": (stage.accumulation, 1),
        "learning_rate": (stage.learning_rate, 0),
        "embedding_learning_rate": (stage.embedding_learning_rate or 0, 0),
        "weight_decay": (stage.weight_decay, 0),
        "betas (the lower)": (min(stage.betas or [0.0]), 0),
        "seed": (stage.seed or 0, 0),
        "cycles": (1 if stage.cycles is None else stage.cycles, 1),
        "average_cycles": (1 if stage.average_cycles is None else stage.average_cycles, 1),
        "validate_pairs": (1 if stage.validate_pairs is None else stage.validate_pairs, 1),
        "patience": (1 if stage.patience is None else stage.patience, 1),
        "max_length": (stage.max_length, 3),
    }
    for key, (value, least) in at_least.items():
        if value < least:
            raise ConfigError(f"{where}.{key} is {value}; it must be at least {least}")
    if not 0 <= stage.warmup < 1:
        raise ConfigError(f"{where}.warmup is {stage.warmup}; it is a share of the pairs, at least 0 and below 1")
    if stage.betas is not None and (len(stage.betas) != 2 or max(stage.betas) >= 1):
        raise ConfigError(f"{where}.betas is {stage.betas}; it must be two numbers, at least 0 and below 1")
    if stage.sources == []:
        raise ConfigError(f"{where}.sources is empty; leave it out for all of the corpus")
    longest = config.student.max_length
    if stage.max_length > longest:
        raise ConfigError(f"{where}.max_length is {stage.max_length}; student.max_length allows {longest}")
    if stage.patience is not None and stage.validate_pairs is None:
        raise ConfigError(f"{where}.patience is {stage.patience}; it needs validate_pairs")
    if stage.average_cycles is not None and stage.average_cycles > (stage.cycles or 1) + 1:
        raise ConfigError(
            f"{where}.average_cycles is {stage.average_cycles}; there are {stage.cycles or 1} cycle ends and the start"
        )
    if stage.average_cycles is not None and stage.patience is not None:
        raise ConfigError(f"{where} has average_cycles and patience; only one can choose the weights")
    if stage.epochs is not None and stage.epochs <= 0:
        raise ConfigError(f"{where}.epochs is {stage.epochs}; it must be above 0")
    if stage.source_share is not None:
        _check_share(f"{where}.source_share", stage.source_share)
    if stage.round_words and word_width is not None and word_width % BLOCK_SIZE:
        raise ConfigError(
            f"{where}.round_words needs a student.bottleneck_size that is a multiple of {BLOCK_SIZE}, not {word_width}"
        )
    unknown = [source for source in stage.sources or [] if source not in config.corpus.sources]
    if unknown:
        raise ConfigError(f"{where}.sources has {unknown[0]!r}, which corpus.sources lacks")
