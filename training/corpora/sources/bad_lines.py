"""What becomes of a line that is not a pair: it stops the run, or is counted. Knows no format."""

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
    """What readers tell of each line that is not a pair.  dropped: lines left out, by reason."""

    action: BadLine = "stop"
    dropped: Counter[str] = field(default_factory=Counter)

    def not_utf8(self, where: str) -> None:
        """A line whose bytes are no text.

        Args:   where: file and line.
        Raises: CorpusError: names them, unless such lines are left out.
        """
        self._add(where, NOT_UTF8, "not UTF-8")

    def not_a_pair(self, where: str, what: str) -> None:
        """A line that is not two texts.

        Args:   where: file and line.  what: is wrong with it; never the text itself.
        Raises: CorpusError: says both, unless such lines are left out.
        """
        self._add(where, what, "not a pair")

    def _add(self, where: str, what: str, reason: str) -> None:
        if self.action == "stop":
            raise CorpusError(f"{where} {what} (corpus.on_bad_line: skip leaves such lines out)")
        if not self.dropped[reason]:
            logger.warning("%s %s; it is left out, as are others like it", where, what)
        self.dropped[reason] += 1


STOP = BadLines()  # counts nothing: it never leaves a line out
