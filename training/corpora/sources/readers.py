"""Finds the file of a source and language, and reads pairs from it by its format. Knows nothing about mixing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from training.corpora.sources.bad_lines import BadLine, BadLines
from training.corpora.sources.hub import read_dataset_pairs
from training.corpora.sources.moses import read_moses_pairs
from training.corpora.sources.tmx import read_tmx_pairs
from training.corpora.sources.tsv import Pair, read_tsv_pairs
from training.errors import CorpusError
from training.system.files import files_under

SUFFIXES = (".tsv.gz", ".tsv", ".txt.zip", ".tmx.gz", ".tmx", ".tmx.zip", "")  # "": a folder of `datasets`
EITHER_ORDER = (".txt.zip", ".tmx.gz", ".tmx", ".tmx.zip")  # sides have names: de-en says the same as en-de


def find_pair_file(folder: Path, source: str, language: str) -> Path | None:
    """Where a source has a language: `<folder>/<source>/en-<language>` with one of `SUFFIXES`, the first that is there.

    Where the format names its sides, `<language>-en` will do.
    """
    for suffix in SUFFIXES:
        for pair in (f"en-{language}", f"{language}-en")[: 2 if suffix in EITHER_ORDER else 1]:
            path = folder / source / f"{pair}{suffix}"
            if path.is_file() if suffix else path.is_dir():
                return path
    return None


def files_of(path: Path) -> list[Path]:
    """The files that `find_pair_file` stands for: itself, or what a folder holds."""
    return files_under(path) if path.is_dir() else [path]


def read_pairs(
    path: Path, language: str, *, on_bad_line: BadLine = "stop", dropped: Counter[str] | None = None
) -> Iterator[Pair]:
    """Pairs of what `find_pair_file` found; sides may be empty but in a TSV.

    Args:
        on_bad_line: a line (a row, a unit) that is not two texts, or not UTF-8, stops the run, or is left out.
        dropped: counts those left out, by reason.
    Raises: CorpusError: names the file, the line and what is wrong.
    """
    bad = BadLines(on_bad_line, Counter() if dropped is None else dropped)
    if path.is_dir():
        return read_dataset_pairs(path, language, bad)
    if ".tsv" in path.suffixes:
        return read_tsv_pairs(path, bad)
    if ".tmx" in path.suffixes:
        return read_tmx_pairs(path, language, bad)
    if path.suffix == ".zip":
        return read_moses_pairs(path, language, bad)
    raise CorpusError(f"{path} is of no format that is read: {', '.join(SUFFIXES[:-1])} or a folder")
