"""Which parallel text is read, what of it is kept, and how it is mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class SourceConfig:
    """One corpus in the mix."""

    weight: float = 1.0  # sampling weight among the sources of a language
    max_pairs: int | None = None  # per language; None: `CorpusConfig.max_pairs`
    dataset: str | None = None  # the Hugging Face dataset to fetch it from; None: the catalogue's address


@dataclass(frozen=True)
class CorpusConfig:
    """All of the parallel text of a run."""

    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by name: a folder of `parallel`
    max_pairs: int | None = 12_000  # per source and language; None: no cap
    language_exponent: float = 0.5  # a language of n pairs is drawn in proportion to n ** exponent
    on_bad_line: Literal["stop", "skip"] = "stop"  # what to do with an unreadable line; skip: count it and go on
    max_chars: int | None = 1_000  # of the longer side, above which a pair is dropped; None: no limit
    max_length_ratio: float | None = 3.0  # of longer to shorter side, in characters of English; None: no limit
    keep_repeats: bool | None = None  # keep duplicate pairs and pairs with identical sides; None: drop them
    noise: float | None = None  # share of the pairs that come again with one side badly typed; None: none
    fetch: bool = False  # first download the sources that the data folder lacks
