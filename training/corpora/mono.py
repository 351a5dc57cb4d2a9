"""Reads monolingual text: `mono/<source>/<language>.txt[.gz]`, a sentence a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.errors import CorpusError
from training.system.text_files import text_lines

SUFFIXES = (".txt.gz", ".txt")


def mono_texts(data: Path, sources: list[str], languages: list[str]) -> Iterator[str]:
    """The sentences of these sources in English and these languages.

    Raises: CorpusError: a source has no file in any of them, or a line is not UTF-8.
    """
    for source in sources:
        candidates = [data / "mono" / source / f"{name}{suffix}" for name in ("en", *languages) for suffix in SUFFIXES]
        found = [path for path in candidates if path.is_file()]
        if not found:
            raise CorpusError(f"source {source!r} has no <language>.txt[.gz] under {data / 'mono'}")
        for path in found:
            yield from (text for _, line in text_lines(path, error=CorpusError) if (text := line.strip()))
