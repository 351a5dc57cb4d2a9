"""Reads parallel text as OPUS packs it: a zip of two files whose lines answer each other (the Moses format)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from zipfile import ZipFile

from training.corpora.archives import open_member, open_zip, text_members
from training.corpora.tsv import BadLine, Pair, is_utf8, utf8
from training.errors import CorpusError


def read_moses_pairs(
    path: Path, language: str, *, on_bad_line: BadLine = "stop", dropped: Counter[str] | None = None
) -> Iterator[Pair]:
    """Pairs of a zip of `<name>.en` and `<name>.<language>`; where the language has another code there, the one that
    `<name>` ends in (`Europarl.de-en`) is taken. A side may be an empty line.

    Args:   on_bad_line: a line that is not UTF-8 stops the run, or its pair is skipped and counted in `dropped`.
    Raises: CorpusError: there is no such pair of files, one has more lines than the other, or a line is not UTF-8.
    """
    with open_zip(path) as archive:
        english_name, other_name = _sides(archive, language, path)
        with open_member(archive, english_name) as english, open_member(archive, other_name) as other:
            for number, (left, right) in enumerate(zip_longest(english, other), start=1):
                if left is None or right is None:
                    shorter = english_name if left is None else other_name
                    raise CorpusError(f"{path}: {shorter} ends before line {number}, the other side goes on")
                if on_bad_line == "skip" and not (is_utf8(left) and is_utf8(right)):
                    if dropped is not None:
                        dropped["not UTF-8"] += 1
                    continue
                utf8(left, f"{path}: {english_name}", number)
                utf8(right, f"{path}: {other_name}", number)
                yield left.strip(), right.strip()


def _sides(archive: ZipFile, language: str, path: Path) -> tuple[str, str]:
    """The names of the English member and of the other one."""
    names = {member.filename for member in text_members(archive)}
    for english in sorted(name for name in names if name.endswith(".en")):
        stem = english.removesuffix(".en")
        codes = stem.rpartition(".")[2].split("-")
        for code in (language, *codes):
            if code != "en" and f"{stem}.{code}" in names:
                return english, f"{stem}.{code}"
    raise CorpusError(f"{path} holds no two files <name>.en and <name>.{language}; it holds {', '.join(sorted(names))}")
