"""Handles lines that are not pairs: stops the run, or counts and skips them."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from training.errors import CorpusError
from training.system.text_files import NOT_UTF8

BadLine = Literal["stop", "skip"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BadLines:
    """Readers report each line that is not a pair here.  dropped: skipped lines by reason."""

    action: BadLine = "stop"
    dropped: Counter[str] = field(default_factory=Counter)

    def not_utf8(self, where: str) -> None:
        """Report a line that is not UTF-8.

        Args:   where: file and line.
        Raises: CorpusError: unless such lines are skipped; the message has `where`.
        """
        self._add(where, NOT_UTF8, "not UTF-8")

    def not_a_pair(self, where: str, what: str) -> None:
        """Report a line that is not two texts.

        Args:   where: file and line.  what: is wrong with it, without the text itself.
        Raises: CorpusError: unless such lines are skipped; the message has both.
        """
        self._add(where, what, "not a pair")

    def _add(self, where: str, what: str, reason: str) -> None:
        if self.action == "stop":
            raise CorpusError(f"{where} {what} (corpus.on_bad_line: skip skips such lines)")
        if not self.dropped[reason]:
            logger.warning("%s %s; skipping this line and others like it", where, what)
        self.dropped[reason] += 1


STOP = BadLines()  # never skips, so it can be shared
