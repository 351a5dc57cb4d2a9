"""The training configuration: frozen dataclasses read from YAML. An unknown key is an error, never a silent default."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from training.errors import ConfigError

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class SourceConfig:
    """One corpus in the mix."""

    weight: float = 1.0  # how often its pairs are drawn, against other sources of the same language
    max_pairs: int | None = None  # per language; None: `CorpusConfig.max_pairs`


@dataclass(frozen=True)
class CorpusConfig:
    """Which parallel text is read, and how it is mixed."""

    sources: dict[str, SourceConfig] = field(default_factory=dict)
    max_pairs: int = 12_000  # per source and language
    language_exponent: float = 0.5  # a language of n pairs is drawn in proportion to n ** exponent
    on_bad_line: Literal["stop", "skip"] = "stop"


@dataclass(frozen=True)
class TokenizerConfig:
    """A new BPE vocabulary."""

    vocab_size: int = 32_000
    alphabet: int = 5_000  # single characters kept, most frequent first; rarer ones become [UNK]
    sentences: int = 1_000_000  # sampled for training, spread over languages by `language_exponent`
    language_exponent: float = 0.3
    lowercase: bool = True


@dataclass(frozen=True)
class LexicalConfig:
    """The lexical start: ridge regression of bags of new tokens on bags of the teacher's."""

    pairs: int = 400_000  # drawn from the mix
    ridge: float = 1.0  # in sentences: how many the prior embedding of a token weighs
    iterations: int = 40  # of conjugate gradients


@dataclass(frozen=True)
class StudentConfig:
    """What is compressed, and how far."""

    bottleneck_size: int | None = 128  # B
    unit_layers: int = 3  # M
    recurrences: int = 2  # K
    max_length: int = 128  # tokens, specials included


@dataclass(frozen=True)
class StageConfig:
    """One training stage."""

    pairs: int  # drawn from the mix, repeats counted
    batch_size: int = 64  # pairs
    learning_rate: float = 1e-4
    embedding_learning_rate: float = 3e-4
    warmup: float = 0.1  # of the steps; then linear decay to zero
    weight_decay: float = 0.0
    max_length: int = 64  # tokens while training
    language_exponent: float | None = None  # None: `CorpusConfig.language_exponent`; below 0 favours thin languages


@dataclass(frozen=True)
class ContrastiveConfig(StageConfig):
    """Stage 4."""

    objective: Literal["soft", "none"] = "soft"  # soft: Eqs. (5)-(7); none: Eq. (7) alone
    mcl_weight: float = 1.0  # the paper's sum has 1


@dataclass(frozen=True)
class EvaluationConfig:
    """What is measured after which steps."""

    steps: list[Literal["lexical", "assistant", "bottleneck", "student", "contrastive"]] = field(
        default_factory=lambda: ["lexical", "assistant", "contrastive"]
    )


@dataclass(frozen=True)
class RunConfig:
    """A whole run."""

    name: str
    languages: list[str]  # besides English, the teacher's language
    corpus: CorpusConfig
    assistant: StageConfig
    bottleneck: StageConfig
    student_stage: StageConfig
    contrastive: ContrastiveConfig
    teacher: str = "sentence-transformers/all-MiniLM-L6-v2"
    tokenizer: TokenizerConfig = TokenizerConfig()
    lexical: LexicalConfig = LexicalConfig()
    student: StudentConfig = StudentConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: int = 1
    checkpoint_minutes: float = 3.0


def load_config(path: Path) -> RunConfig:
    """Read a YAML configuration.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value has the wrong type.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise ConfigError(f"there is no configuration file {path}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path} is not YAML: {exc}") from exc
    config = build(RunConfig, raw, where=path.name)
    check(config, where=path.name)
    return config


def check(config: RunConfig, *, where: str) -> None:
    """Values that no run can use.

    Raises: ConfigError: names the key, the value and what it must be.
    """
    stages = {name: getattr(config, name) for name in ("assistant", "bottleneck", "student_stage", "contrastive")}
    at_least = {
        "student.unit_layers": (config.student.unit_layers, 1),
        "student.recurrences": (config.student.recurrences, 1),
        "student.max_length": (config.student.max_length, 3),
        "student.bottleneck_size": (config.student.bottleneck_size or 1, 1),
        **{f"{name}.pairs": (stage.pairs, 2) for name, stage in stages.items()},
        **{f"{name}.batch_size": (stage.batch_size, 2) for name, stage in stages.items()},
        **{f"{name}.max_length": (stage.max_length, 3) for name, stage in stages.items()},
        "lexical.pairs": (config.lexical.pairs, 1),
        "languages (how many)": (len(config.languages), 1),
        "corpus.sources (how many)": (len(config.corpus.sources), 1),
    }
    for key, (value, least) in at_least.items():
        if value < least:
            raise ConfigError(f"{where}: {key} is {value}; it must be at least {least}")
    repeated = sorted({language for language in config.languages if config.languages.count(language) > 1})
    if repeated:
        raise ConfigError(f"{where}: languages lists {repeated[0]!r} more than once")
    for name, source in config.corpus.sources.items():
        if source.weight <= 0:
            raise ConfigError(f"{where}: corpus.sources.{name}.weight is {source.weight}; it must be above 0")


def build(cls: type[ConfigT], raw: Any, *, where: str) -> ConfigT:
    """A dataclass from plain YAML values, checked key by key and type by type."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} must be a mapping of settings, not {type(raw).__name__}")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(raw) - set(hints))
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(hints))}")
    values = {key: _value(hints[key], value, where=f"{where}: {key}") for key, value in raw.items()}
    missing = [
        item.name
        for item in dataclasses.fields(cls)  # type: ignore[arg-type]
        if item.name not in values
        and item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: missing key {missing[0]!r}")
    return cls(**values)


def _value(hint: Any, value: Any, *, where: str) -> Any:
    """One value checked against its type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value if value is not None else {}, where=where)
    if origin is types.UnionType:
        return None if value is None else _value(arguments[0], value, where=where)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{where} is {value!r}; it must be one of {', '.join(map(str, arguments))}")
        return value
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item, where=where) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: _value(arguments[1], item, where=f"{where}.{key}") for key, item in value.items()}
    expected = origin or hint
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        hint_text = " (YAML reads 1e-4 as text: write 1.0e-4)" if expected is float else ""
        raise ConfigError(
            f"{where} is {value!r}; it must be of type {getattr(expected, '__name__', expected)}{hint_text}"
        )
    return value
