"""Reads tab-separated parallel text: two columns, or one column a language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.corpora.sources.archives import member_lines, open_zip
from training.corpora.sources.bad_lines import STOP, BadLines
from training.errors import CorpusError
from training.system.text_files import NOT_UTF8, numbered_lines

Pair = tuple[str, str]  # English, other


def read_tsv_pairs(path: Path, bad: BadLines = STOP) -> Iterator[Pair]:
    """Pairs of an `english<TAB>other` file, plain or gzip, UTF-8.

    Args:   bad: receives lines that are not two non-empty columns.
    Raises: CorpusError: the file is damaged, or `bad` stops at a line.
    """
    for number, line in numbered_lines(path, error=CorpusError):
        if line is None:
            bad.not_utf8(f"{path} line {number}")
            continue
        columns = line.split("\t")
        if len(columns) == 2 and columns[0].strip() and columns[1].strip():
            yield columns[0].strip(), columns[1].strip()
        else:
            bad.not_a_pair(f"{path} line {number}", f"has {len(columns)} columns; a pair has 2, none empty")


def read_multiway_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Pairs of a file whose first line names its columns by language (TED2020); cells may be empty.

    Args:   bad: receives lines whose number of columns differs from the first line's.
    Raises: CorpusError: there is no such column, or `bad` stops at a line.
    """
    lines = numbered_lines(path, error=CorpusError)
    _, first = next(lines, (1, ""))
    if first is None:
        raise CorpusError(f"{path} line 1 {NOT_UTF8}")
    header = first.rstrip("\r").split("\t")
    if "en" not in header or language not in header:
        raise CorpusError(f"{path} has no columns for en and {language}; its columns: {', '.join(header)[:500]}")
    english, other = header.index("en"), header.index(language)
    for number, line in lines:
        if line is None:
            bad.not_utf8(f"{path} line {number}")
            continue
        columns = line.split("\t")
        if len(columns) != len(header):
            bad.not_a_pair(f"{path} line {number}", f"has {len(columns)} columns, its first line {len(header)}")
        elif columns[english].strip() and columns[other].strip():
            yield columns[english].strip(), columns[other].strip()


def read_zipped_tsv_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Pairs of a zip that holds `<language>.txt`: English, other, and ignored columns (manythings.org).

    Args:   bad: receives lines with a single column.
    Raises: CorpusError: there is no such file, or `bad` stops at a line.
    """
    with open_zip(path) as archive:
        name = f"{language}.txt"
        if name not in archive.namelist():
            raise CorpusError(f"{path} holds no {name}; it holds {', '.join(archive.namelist())}")
        for number, line in member_lines(archive, name):
            if line is None:
                bad.not_utf8(f"{path}: {name} line {number}")
                continue
            columns = line.split("\t")
            if len(columns) < 2:
                bad.not_a_pair(f"{path}: {name} line {number}", f"has {len(columns)} columns; a pair has 2")
            else:
                yield columns[0], columns[1]
