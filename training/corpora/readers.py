"""Finds the files of a source, and reads their pairs, or sentences, by format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from training.corpora.hub import read_dataset_pairs
from training.corpora.text_pairs import BadLine, BadLines, Pair, read_moses_pairs, read_tsv_pairs
from training.corpora.tmx import read_tmx_pairs
from training.errors import CorpusError
from training.system.files import LfsPointer, files_under, refuse_pointers
from training.system.text_files import text_lines

READERS: dict[str, Callable[[Path, str, BadLines], Iterator[Pair]]] = {  # by suffix; the first that exists is read
    ".tsv.gz": lambda path, _, bad: read_tsv_pairs(path, bad),
    ".tsv": lambda path, _, bad: read_tsv_pairs(path, bad),
    ".txt.zip": read_moses_pairs,
    ".tmx.gz": read_tmx_pairs,
    ".tmx": read_tmx_pairs,
    ".tmx.zip": read_tmx_pairs,
}
MONO_SUFFIXES = (".txt.gz", ".txt")  # a sentence a line


def find_pair_file(folder: Path, source: str, language: str) -> Path | None:
    """Return the file `<folder>/<source>/en-<language>` with the first suffix of `READERS` that exists, or the folder.

    Formats that name their sides may be called `<language>-en`.
    """
    forward, backward = (folder / source / name for name in (f"en-{language}", f"{language}-en"))
    for suffix in READERS:
        for pair in [forward] if suffix.startswith(".tsv") else [forward, backward]:
            path = pair.with_name(f"{pair.name}{suffix}")
            if path.is_file():
                return path
    return forward if forward.is_dir() else None


def files_of(path: Path) -> list[Path]:
    """Return the files of what `find_pair_file` found: itself, or those in its folder."""
    return files_under(path) if path.is_dir() else [path]


def read_pair_file(
    path: Path, language: str, *, on_bad_line: BadLine | None = "stop", dropped: Counter[str] | None = None
) -> Iterator[Pair]:
    """Read the pairs of what `find_pair_file` found; sides may be empty, except in a TSV.

    Args:
        on_bad_line: whether a line (row, unit) that is not two texts in UTF-8 stops the run or is skipped;
            None: stops it, and no setting skips such lines.
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
    for suffix, read in READERS.items():
        if path.name.endswith(suffix):
            return read(path, language, bad)
    raise CorpusError(f"{path} has an unknown format; known: {', '.join(READERS)} or a folder")


def mono_texts(data: Path, sources: list[str], languages: list[str]) -> Iterator[str]:
    """Read the sentences of these sources in English and these languages.

    Raises: CorpusError: a source has no file in any of them, or a line is not UTF-8.
    """
    for source in sources:
        names = [f"{language}{suffix}" for language in ("en", *languages) for suffix in MONO_SUFFIXES]
        paths = [path for name in names if (path := data / "mono" / source / name).is_file()]
        if not paths:
            raise CorpusError(f"source {source!r} has no <language>.txt[.gz] under {data / 'mono'}")
        for path in paths:
            yield from (text for _, line in text_lines(path, error=CorpusError) if (text := line.strip()))
