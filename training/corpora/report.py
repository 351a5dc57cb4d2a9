"""Counts the pairs that a corpus kept and dropped, by source, language and reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CorpusReport:
    """Counts, filled while a corpus is built."""

    kept: Counter[tuple[str, str]] = field(default_factory=Counter)  # (source, language) -> pairs
    dropped: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)  # (source, language) -> reason -> pairs

    @property
    def pairs(self) -> int:
        """Pairs kept in all."""
        return self.kept.total()

    def reasons(self, language: str | None = None) -> dict[str, int]:
        """Pairs dropped by reason, of one language or in all."""
        total: Counter[str] = Counter()
        for (_, of), counts in self.dropped.items():
            if language in (of, None):
                total.update(counts)
        return dict(+total)

    def summary(self) -> dict[str, Any]:
        """The content of `report.json`."""
        return {
            "pairs": self.pairs,
            "dropped": self.reasons(),
            "kept": {"/".join(name): count for name, count in self.kept.items()},
            "dropped_of_each": {"/".join(name): dict(+counts) for name, counts in self.dropped.items()},
        }
