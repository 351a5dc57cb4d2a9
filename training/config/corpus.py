"""Which parallel text is read, what of it is kept, and how it is mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One corpus in the mix."""

    weight: float = 1.0  # how often its pairs are drawn, against other sources of the same language
    max_pairs: int | None = None  # per language; None: `CorpusConfig.max_pairs`
    dataset: str | None = None  # where it is fetched from, if not from the catalogue: a hub name of `datasets`


@dataclass(frozen=True)
class CorpusConfig:
    """All of the parallel text of a run."""

    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by name: a folder of `parallel`
    max_pairs: int | None = 12_000  # per source and language; None: all
    language_exponent: float = 0.5  # a language of n pairs is drawn in proportion to n ** exponent
    on_bad_line: Literal["stop", "skip"] = "stop"  # skip: count the lines that cannot be read, and go on
    max_chars: int | None = 1_000  # of either side; a longer one is cut by every encoder here
    max_length_ratio: float | None = 3.0  # of the longer side to the shorter; `length_ratio` says how it is counted
    keep_repeats: bool | None = None  # pairs that occur again, and those of two equal sides; None: they are dropped
    check_language: bool = False  # drop a pair of which one side is surely in another language; 0.1 ms a text
    fetch: bool = False  # download what the data folder lacks of the catalogue's sources before reading it
