"""Reads two-column parallel text. Knows files and lines; knows nothing about mixing."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TextIO

from training.errors import CorpusError

logger = logging.getLogger(__name__)


def read_tsv_pairs(path: Path, *, on_bad_line: Literal["stop", "skip"] = "stop") -> Iterator[tuple[str, str]]:
    """Pairs of a `english<TAB>other` file, plain or gzip, UTF-8.

    Args:    on_bad_line: a line that is not two non-empty columns stops the run, or is counted and skipped.
    Raises:  CorpusError: names the file and the line.
    """
    skipped = 0
    with open_text(path) as lines:
        for number, line in enumerate(_checked(lines, path), start=1):
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 2 and columns[0].strip() and columns[1].strip():
                yield columns[0].strip(), columns[1].strip()
            elif on_bad_line == "stop":
                raise CorpusError(
                    f"{path} line {number} has {len(columns)} columns; a pair has 2, neither empty "
                    "(corpus.on_bad_line: skip leaves such lines out)"
                )
            else:
                skipped += 1
    if skipped:
        logger.warning("%s: skipped %d lines that are not pairs", path, skipped)


def read_pairs(
    path: Path, language: str, *, on_bad_line: Literal["stop", "skip"] = "stop", dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Pairs of a file of any known format."""
    return read_tsv_pairs(path, on_bad_line=on_bad_line)


def find_pair_file(folder: Path, source: str, language: str) -> Path | None:
    """The file of one source and language: `<folder>/<source>/en-<language>.tsv` or `.tsv.gz`."""
    candidates = (folder / source / f"en-{language}.tsv{suffix}" for suffix in (".gz", ""))
    return next((path for path in candidates if path.is_file()), None)


def open_text(path: Path) -> TextIO:
    """A UTF-8 file, plain or gzip; lines end in \\n alone."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


def _checked(lines: TextIO, path: Path) -> Iterator[str]:
    """The lines, with decoding trouble named by file."""
    try:
        yield from lines
    except (UnicodeDecodeError, zlib.error, EOFError, OSError) as exc:
        raise CorpusError(f"{path} cannot be read to its end: {exc}") from exc
