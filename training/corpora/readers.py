"""Finds the files of a source, and reads their pairs, or sentences, by format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from training.corpora.hub import read_dataset_pairs
from training.corpora.text_pairs import BadLine, BadLines, Pair, read_moses_pairs, read_tsv_pairs
from training.corpora.tmx import read_tmx_pairs
from training.errors import CorpusError
from training.system.files import LfsPointer, files_under, refuse_pointers
from training.system.text_files import text_lines

SUFFIXES = (".tsv.gz", ".tsv", ".txt.zip", ".tmx.gz", ".tmx", ".tmx.zip", "")  # "": a folder of `datasets`
MONO_SUFFIXES = (".txt.gz", ".txt")  # a sentence a line
EITHER_ORDER = (".txt.zip", ".tmx.gz", ".tmx", ".tmx.zip")  # sides are named, so de-en means en-de


def find_pair_file(folder: Path, source: str, language: str) -> Path | None:
    """Return the file or folder `<folder>/<source>/en-<language>` with the first of `SUFFIXES` that exists.

    Formats that name their sides may be called `<language>-en`.
    """
    for suffix in SUFFIXES:
        for pair in (f"en-{language}", f"{language}-en")[: 2 if suffix in EITHER_ORDER else 1]:
            path = folder / source / f"{pair}{suffix}"
            if path.is_file() if suffix else path.is_dir():
                return path
    return None


def files_of(path: Path) -> list[Path]:
    """Return the files of what `find_pair_file` found: itself, or those in its folder."""
    return files_under(path) if path.is_dir() else [path]


def read_pair_file(
    path: Path, language: str, *, on_bad_line: BadLine = "stop", dropped: Counter[str] | None = None
) -> Iterator[Pair]:
    """Read the pairs of what `find_pair_file` found; sides may be empty, except in a TSV.

    Args:
        on_bad_line: whether a line (row, unit) that is not two texts in UTF-8 stops the run or is skipped.
        dropped: counts skipped lines by reason.
    Raises: CorpusError: the message names the file, the line and what is wrong.
    """
    try:
        refuse_pointers(files_of(path))
    except LfsPointer as exc:
        raise CorpusError(str(exc)) from exc
    bad = BadLines(on_bad_line, Counter() if dropped is None else dropped)
    if path.is_dir():
        return read_dataset_pairs(path, language, bad)
    if ".tsv" in path.suffixes:
        return read_tsv_pairs(path, bad)
    if ".tmx" in path.suffixes:
        return read_tmx_pairs(path, language, bad)
    if path.suffix == ".zip":
        return read_moses_pairs(path, language, bad)
    raise CorpusError(f"{path} has an unknown format; known: {', '.join(SUFFIXES[:-1])} or a folder")


def mono_texts(data: Path, sources: list[str], languages: list[str]) -> Iterator[str]:
    """Read the sentences of these sources in English and these languages.

    Raises: CorpusError: a source has no file in any of them, or a line is not UTF-8.
    """
    for source in sources:
        candidates = [
            data / "mono" / source / f"{name}{suffix}" for name in ("en", *languages) for suffix in MONO_SUFFIXES
        ]
        found = [path for path in candidates if path.is_file()]
        if not found:
            raise CorpusError(f"source {source!r} has no <language>.txt[.gz] under {data / 'mono'}")
        for path in found:
            yield from (text for _, line in text_lines(path, error=CorpusError) if (text := line.strip()))
