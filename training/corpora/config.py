"""Which parallel text is read, and how it is mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One corpus in the mix."""

    weight: float = 1.0  # how often its pairs are drawn, against other sources of the same language
    max_pairs: int | None = None  # per language; None: `CorpusConfig.max_pairs`


@dataclass(frozen=True)
class CorpusConfig:
    """All of the parallel text of a run."""

    sources: dict[str, SourceConfig] = field(default_factory=dict)
    max_pairs: int = 12_000  # per source and language
    language_exponent: float = 0.5  # a language of n pairs is drawn in proportion to n ** exponent
    on_bad_line: Literal["stop", "skip"] = "stop"
