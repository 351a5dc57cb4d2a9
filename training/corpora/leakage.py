"""Detects what must not be trained on: held-out passages and evaluation sentences, even respaced or reordered."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from training.corpora.keys import key_of, matching_words
from training.errors import LeakageError
from training.system.files import files_under
from training.system.text_files import text_lines

HELD_OUT = 10  # of question sets, a passage whose CRC-32 is 0 modulo this is never trained on
LONGEST_PASSAGE = 1_600  # characters, kept
NEAR_WORDS = 6  # an equal bag of at least this many words counts as a reordered sentence
PACKAGE = Path(__file__).parents[1]
SHIPPED = (PACKAGE / "alignment" / "probe.tsv", PACKAGE / "evaluation" / "bundled")  # evaluation sets of ours
UNREAD = {".csv", ".json", ".xml"}  # text formats that are not read line by line


def clean_passage(text: str) -> str:
    """Return a passage of a question set as stage 5 reads it and `is_held_out` takes it."""
    return " ".join(text.replace("[SEP]", " ").split())[:LONGEST_PASSAGE]


def is_held_out(passage: str) -> bool:
    """Return whether a passage is kept out of every training.

    Args: passage: as `clean_passage` returns it.
    """
    return zlib.crc32(passage.encode()) % HELD_OUT == 0


class EvaluationSentences:
    """The sentences of the evaluation sets, normalised."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._exact: set[str] = set()
        self._bags: set[str] = set()
        self._add(sentences)

    def _add(self, sentences: Iterable[str]) -> None:
        for words in map(matching_words, sentences):
            key = key_of(words)
            if any(map(str.isalpha, key)):  # no score, and no number
                self._exact.add(key)
                if len(words) >= NEAR_WORDS:
                    self._bags.add(_bag(words))

    def __len__(self) -> int:
        return len(self._exact)

    def __contains__(self, text: str) -> bool:
        words = matching_words(text)
        return self.has_exact(words) or self.has_near(words)

    def has_exact(self, words: list[str]) -> bool:
        """Return whether a text of these `matching_words` has the key of an evaluation sentence."""
        return key_of(words) in self._exact

    def has_near(self, words: list[str]) -> bool:
        """Return whether an evaluation sentence has the same words, at least `NEAR_WORDS` of them, in any order.

        Scripts without spaces (Chinese, Japanese, Thai) rarely have that many words, so only exact matches are found.
        """
        return len(words) >= NEAR_WORDS and _bag(words) in self._bags

    @classmethod
    def from_folder(cls, folder: Path) -> EvaluationSentences:
        """Read all tab-separated fields or JSON strings of text files under `folder`, plain or .gz, except Markdown.

        The evaluation sets that ship with this project are added.

        Raises: LeakageError: there is no sentence, or a file is not UTF-8 or has an unknown layout.
        """
        evaluation = cls(_fields(folder) if folder.is_dir() else ())
        if not len(evaluation):
            raise LeakageError(f"{folder} holds no evaluation sentence, so leakage cannot be ruled out")
        evaluation._add(_fields(*SHIPPED))
        return evaluation

    @classmethod
    def of_data(cls, data: Path) -> EvaluationSentences:
        """Return those of `data`/eval; without that folder, of the evaluation sets that ship."""
        return cls.from_folder(data / "eval") if (data / "eval").is_dir() else cls.shipped()

    @classmethod
    def shipped(cls) -> EvaluationSentences:
        """Return the sentences of the evaluation sets that ship with this project."""
        return cls(_fields(*SHIPPED))


def check_no_leakage(texts: Iterable[str], evaluation: EvaluationSentences) -> int:
    """Check that no text is an evaluation sentence.

    Returns: the number of texts checked.
    Raises:  LeakageError: one is; the message gives its number.
    """
    checked = 0
    for checked, text in enumerate(texts, start=1):
        if text in evaluation:
            raise LeakageError(f"training text {checked} is an evaluation sentence")
    return checked


def _bag(words: list[str]) -> str:
    return " ".join(sorted(words))


def _fields(*places: Path) -> Iterator[str]:
    files = (file for place in places for file in (files_under(place) if place.is_dir() else [place]))
    for path in (file for file in files if file.suffix != ".md"):
        if Path(path.name.removesuffix(".gz")).suffix.lower() in UNREAD:
            raise LeakageError(f"{path} has an unknown layout (docs/guide/evaluate.md), so leakage cannot be ruled out")
        try:
            for number, line in text_lines(path, error=ValueError):
                yield from _in_json(line, f"{path} line {number}") if ".jsonl" in path.suffixes else line.split("\t")
        except ValueError as exc:
            raise LeakageError(f"{exc}, so leakage cannot be ruled out") from exc


def _in_json(line: str, where: str) -> Iterator[str]:
    try:
        yield from _strings(json.loads(line))
    except json.JSONDecodeError as exc:
        raise ValueError(f"{where} is not JSON ({exc})") from exc


def _strings(value: Any) -> Iterator[str]:
    """Yield every string inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
