"""Reads pairs from lines of text: two columns, one column a language, or two files with aligned lines (Moses).

Each reader of this room takes `bad`, which stops at a line that is not a pair, or counts and skips it. They all raise
CorpusError for a damaged file, and for a bad line unless such lines are skipped.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

from training.corpora.archives import member_lines, open_zip, text_members
from training.errors import BadLineError, CorpusError
from training.system.text_files import NOT_UTF8, Line, numbered_lines

Pair = tuple[str, str]  # English, other
BadLine = Literal["stop", "skip"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BadLines:
    """What to do with a line that is not a pair.  dropped: counts skipped lines by reason.

    action: None: stop, where no setting skips such lines.
    """

    action: BadLine | None = "stop"
    dropped: Counter[str] = field(default_factory=Counter)

    def report(self, where: str, what: str = NOT_UTF8) -> None:
        """Stop at a line that is not two texts in UTF-8, or count it.

        Args:   where: file and line.  what: is wrong with it, without the text itself.
        Raises: BadLineError: unless such lines are skipped; the message has both.
        """
        if self.action != "skip":
            way_out = "corpus.on_bad_line: skip skips such lines" if self.action else "correct the line or take it out"
            raise BadLineError(f"{where} {what} ({way_out})")
        reason = "not UTF-8" if what == NOT_UTF8 else "not a pair"
        if not self.dropped[reason]:
            logger.warning("%s %s; skipping this line and others like it", where, what)
        self.dropped[reason] += 1


STOP = BadLines()  # never skips, so it can be shared


def read_tsv_pairs(path: Path, bad: BadLines = STOP) -> Iterator[Pair]:
    """Read an `english<TAB>other` file, plain or gzip, UTF-8; neither side may be empty."""
    for place, columns in _rows(numbered_lines(path, error=CorpusError), f"{path}", bad):
        if len(columns) == 2 and columns[0].strip() and columns[1].strip():
            yield columns[0].strip(), columns[1].strip()
        else:
            bad.report(place, f"has {len(columns)} columns; a pair has 2, none empty")


def read_multiway_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Read a file whose first line names its columns by language (TED2020); rows with an empty cell are skipped.

    A line is bad if its number of columns differs from the first line's.

    Raises: CorpusError: there is no such column.
    """
    lines = numbered_lines(path, error=CorpusError)
    _, first = next(lines, (1, ""))
    if first is None:
        raise CorpusError(f"{path} line 1 {NOT_UTF8}")
    header = first.rstrip("\r").split("\t")
    if "en" not in header or language not in header:
        raise CorpusError(f"{path} has no columns for en and {language}; its columns: {', '.join(header)[:500]}")
    sides = header.index("en"), header.index(language)
    for place, columns in _rows(lines, f"{path}", bad):
        if len(columns) != len(header):
            bad.report(place, f"has {len(columns)} columns, its first line {len(header)}")
            continue
        english, other = (columns[side].strip() for side in sides)
        if english and other:
            yield english, other


def read_zipped_tsv_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Read a zip that holds `<language>.txt`: English, other, and ignored columns (manythings.org).

    Raises: CorpusError: there is no such file.
    """
    with open_zip(path) as archive:
        name = f"{language}.txt"
        if name not in archive.namelist():
            raise CorpusError(f"{path} holds no {name}; it holds {', '.join(archive.namelist())}")
        for place, columns in _rows(member_lines(archive, name), f"{path}: {name}", bad):
            if len(columns) < 2:
                bad.report(place, f"has {len(columns)} columns; a pair has 2")
            else:
                yield columns[0], columns[1]


def read_moses_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Read a zip of `<name>.en` and `<name>.<language>`; sides may be empty.

    If the archive uses another language code, it is read from the end of `<name>` (`Europarl.de-en`). With a line that
    is not UTF-8 its translation is skipped.

    Raises: CorpusError: there are no such files, or one has more lines than the other.
    """
    with open_zip(path) as archive:
        names = _sides(archive, language, path)
        left_lines, right_lines = (member_lines(archive, name) for name in names)
        for number, (left, right) in enumerate(zip_longest(left_lines, right_lines), start=1):
            if left is None or right is None:
                shorter = names[0] if left is None else names[1]
                raise CorpusError(f"{path}: {shorter} ends before line {number}, the other side does not")
            (_, english), (_, other) = left, right
            if english is None or other is None:
                bad.report(f"{path}: {names[0] if english is None else names[1]} line {number}")
            else:
                yield english.strip(), other.strip()


def _sides(archive: ZipFile, language: str, path: Path) -> tuple[str, str]:
    """Return the names of the English member and of the other one."""
    names = {member.filename for member in text_members(archive)}
    for english in sorted(name for name in names if name.endswith(".en")):
        stem = english.removesuffix(".en")
        codes = stem.rpartition(".")[2].split("-")
        for code in (language, *codes):
            if code != "en" and f"{stem}.{code}" in names:
                return english, f"{stem}.{code}"
    raise CorpusError(f"{path} holds no files <name>.en and <name>.{language}; it holds {', '.join(sorted(names))}")


def _rows(lines: Iterable[Line], name: str, bad: BadLines) -> Iterator[tuple[str, list[str]]]:
    """Split lines at tabs and say where each is, for messages. `bad` receives lines that are not UTF-8."""
    for number, line in lines:
        place = f"{name} line {number}"
        if line is None:
            bad.report(place)
        else:
            yield place, line.split("\t")
