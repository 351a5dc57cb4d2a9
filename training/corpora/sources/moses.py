"""Reads OPUS's Moses format: a zip of two files with aligned lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from zipfile import ZipFile

from training.corpora.sources.archives import member_lines, open_zip, text_members
from training.corpora.sources.bad_lines import STOP, BadLines
from training.corpora.sources.tsv import Pair
from training.errors import CorpusError


def read_moses_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Pairs of a zip of `<name>.en` and `<name>.<language>`; sides may be empty.

    If the archive uses another language code, it is read from the end of `<name>` (`Europarl.de-en`).

    Args:   bad: receives lines that are not UTF-8; their translations are skipped with them.
    Raises: CorpusError: there are no such files, one has more lines than the other, or `bad` stops at a line.
    """
    with open_zip(path) as archive:
        english_name, other_name = _sides(archive, language, path)
        sides = zip_longest(member_lines(archive, english_name), member_lines(archive, other_name))
        for number, (left, right) in enumerate(sides, start=1):
            if left is None or right is None:
                shorter = english_name if left is None else other_name
                raise CorpusError(f"{path}: {shorter} ends before line {number}, the other side does not")
            (_, english), (_, other) = left, right
            if english is None or other is None:
                bad.not_utf8(f"{path}: {english_name if english is None else other_name} line {number}")
            else:
                yield english.strip(), other.strip()


def _sides(archive: ZipFile, language: str, path: Path) -> tuple[str, str]:
    """The names of the English member and of the other one."""
    names = {member.filename for member in text_members(archive)}
    for english in sorted(name for name in names if name.endswith(".en")):
        stem = english.removesuffix(".en")
        codes = stem.rpartition(".")[2].split("-")
        for code in (language, *codes):
            if code != "en" and f"{stem}.{code}" in names:
                return english, f"{stem}.{code}"
    raise CorpusError(f"{path} holds no files <name>.en and <name>.{language}; it holds {', '.join(sorted(names))}")
