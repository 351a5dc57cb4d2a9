"""Keeps evaluation sentences out of training text. Exact match after normalisation, on either side of a pair."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from training.errors import LeakageError
from training.files import files_under


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
        return self.has_key(normalize_for_matching(text))

    def has_key(self, key: str) -> bool:
        """Whether a text that is already normalised is among them."""
        return key in self._keys

    @classmethod
    def from_folder(cls, folder: Path) -> EvaluationSentences:
        """All tab-separated fields of all text files under `folder` but its READMEs.

        Raises: LeakageError: there is nothing to compare with, or a file is not UTF-8 text.
        """
        found = cls(_fields(path for path in files_under(folder) if path.suffix != ".md"))
        if not len(found):
            raise LeakageError(f"{folder} holds no evaluation sentence, so leakage cannot be ruled out")
        return found


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
        try:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    yield from line.rstrip("\n").split("\t")
        except UnicodeDecodeError as exc:
            raise LeakageError(f"{path} is not UTF-8 text, so leakage cannot be ruled out: {exc}") from exc
