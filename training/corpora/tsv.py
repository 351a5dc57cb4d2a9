"""Reads tab-separated parallel text: two columns, or one column for each of many languages. Knows files and lines."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TextIO

from training.corpora.archives import open_member, open_zip
from training.errors import CorpusError

Pair = tuple[str, str]  # English, other
BadLine = Literal["stop", "skip"]


def read_tsv_pairs(path: Path, *, on_bad_line: BadLine = "stop", dropped: Counter[str] | None = None) -> Iterator[Pair]:
    """Pairs of a `english<TAB>other` file, plain or gzip, UTF-8.

    Args:
        on_bad_line: a line that is not two non-empty columns, or not UTF-8, stops the run, or is skipped and counted.
        dropped: counts them, as `not a pair` and `not UTF-8`.
    Raises: CorpusError: names the file and the line.
    """
    with open_text(path) as lines:
        for number, line in enumerate(to_its_end(lines, path), start=1):
            if on_bad_line == "skip" and not is_utf8(line):
                if dropped is not None:
                    dropped["not UTF-8"] += 1
                continue
            columns = utf8(line, path, number).rstrip("\n").split("\t")
            if len(columns) == 2 and columns[0].strip() and columns[1].strip():
                yield columns[0].strip(), columns[1].strip()
            elif on_bad_line == "stop":
                raise CorpusError(
                    f"{path} line {number} has {len(columns)} columns; a pair has 2, neither empty "
                    "(corpus.on_bad_line: skip leaves such lines out)"
                )
            elif dropped is not None:
                dropped["not a pair"] += 1


def read_multiway_pairs(path: Path, language: str) -> Iterator[Pair]:
    """Pairs of a file whose first line names its columns by language (TED2020); a language may lack some lines.

    Raises: CorpusError: there is no such column, or a line has another number of columns than the first.
    """
    with open_text(path) as file:
        lines = to_its_end(file, path)
        header = utf8(next(lines, ""), path, 1).rstrip("\n").split("\t")
        if "en" not in header or language not in header:
            raise CorpusError(f"{path} has no columns for en and {language}; its columns: {', '.join(header)[:500]}")
        english, other = header.index("en"), header.index(language)
        for number, line in enumerate(lines, start=2):
            columns = utf8(line, path, number).rstrip("\n").split("\t")
            if len(columns) != len(header):
                raise CorpusError(f"{path} line {number} has {len(columns)} columns, its first line {len(header)}")
            if columns[english].strip() and columns[other].strip():
                yield columns[english].strip(), columns[other].strip()


def read_zipped_tsv_pairs(path: Path, language: str) -> Iterator[Pair]:
    """Pairs of a zip that holds `<language>.txt`: English, other, and columns that are not read (manythings.org).

    Raises: CorpusError: there is no such file, or a line has one column.
    """
    with open_zip(path) as archive:
        name = f"{language}.txt"
        if name not in archive.namelist():
            raise CorpusError(f"{path} holds no {name}; it holds {', '.join(archive.namelist())}")
        with open_member(archive, name) as lines:
            for number, line in enumerate(lines, start=1):
                columns = utf8(line, f"{path}: {name}", number).rstrip("\n").split("\t")
                if len(columns) < 2:
                    raise CorpusError(f"{path}: {name} line {number} has {len(columns)} columns; a pair has 2")
                yield columns[0], columns[1]


def open_text(path: Path) -> TextIO:
    """A UTF-8 file, plain or gzip; lines end in \\n alone. What is not UTF-8 is left for `is_utf8` to find, by line."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def to_its_end(lines: TextIO, path: Path) -> Iterator[str]:
    """The lines, with damage named by file."""
    try:
        yield from lines
    except (zlib.error, EOFError, OSError) as exc:
        raise CorpusError(f"{path} cannot be read to its end: {exc}") from exc


def is_utf8(line: str) -> bool:
    """Whether the bytes of a line were UTF-8; others were read as lone surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def utf8(line: str, file: Path | str, number: int) -> str:
    """The line.

    Raises: CorpusError: its bytes were not UTF-8.
    """
    if not is_utf8(line):
        raise CorpusError(f"{file} line {number} is not valid UTF-8 (corpus.on_bad_line: skip leaves such lines out)")
    return line
