"""Keeps evaluation sentences out of training text. Exact match after normalisation, on either side of a pair."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.errors import LeakageError


def normalize_for_matching(text: str) -> str:
    """NFKC, case-folded, letters and digits only: what is left of a sentence when punctuation and spacing vary."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


class EvaluationSentences:
    """Every sentence of the evaluation sets, normalised."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._keys = {key for key in map(normalize_for_matching, sentences) if key and not key.isdigit()}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, text: str) -> bool:
        return normalize_for_matching(text) in self._keys

    @classmethod
    def from_folder(cls, folder: Path) -> EvaluationSentences:
        """All tab-separated fields of all text files under `folder` but its READMEs."""
        if not folder.is_dir():
            raise LeakageError(f"there is no evaluation folder {folder}, so leakage cannot be ruled out")
        return cls(_fields(path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".md"))


def check_no_leakage(pairs: Iterable[tuple[str, str]], evaluation: EvaluationSentences) -> int:
    """Prove that no side of any pair is an evaluation sentence.

    Returns: the number of pairs checked.
    Raises:  LeakageError: names the first offending pair by number.
    """
    checked = 0
    for checked, (english, other) in enumerate(pairs, start=1):
        if english in evaluation or other in evaluation:
            raise LeakageError(f"training pair {checked} holds an evaluation sentence")
    return checked


def _fields(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield from line.rstrip("\n").split("\t")
