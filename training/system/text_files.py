"""Reads text line by line: UTF-8 with or without a byte-order mark, plain or gzip. Knows lines; knows no column."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from encodings import utf_8_sig
from pathlib import Path
from typing import IO

Line = tuple[int, str | None]  # its number, from 1; its text without the line feed, None: it is not UTF-8

NOT_UTF8 = "is not valid UTF-8"
MARK = "\ufdd0"  # for bytes that are not UTF-8, where a library decodes: no character, and allowed in XML
MARKED_UTF8 = "crosslet_marked_utf8"  # the encoding that puts it there; knows a byte-order mark
_MARKED = "crosslet_marked"  # its `errors`


def numbered_lines(path: Path, *, error: type[Exception]) -> Iterator[Line]:
    """The lines of a file. Only a line feed ends one: U+2028 and the like are text.

    Raises: error: the file is UTF-16, missing, or a damaged gzip.
    """
    try:
        with open_bytes(path) as file:
            yield from decoded_lines(file, str(path), error=error)
    except (zlib.error, EOFError, OSError) as exc:
        raise error(f"{path} cannot be read to its end: {exc}") from exc


def text_lines(path: Path, *, error: type[Exception]) -> Iterator[tuple[int, str]]:
    """The same of a file in which every line must be text.

    Raises: error: also for a line that is not UTF-8; the sentence names it.
    """
    for number, line in numbered_lines(path, error=error):
        if line is None:
            raise error(f"{path} line {number} {NOT_UTF8}")
        yield number, line


def decoded_lines(raw_lines: Iterable[bytes], name: str, *, error: type[Exception]) -> Iterator[Line]:
    """Lines of bytes as text; the first one's byte-order mark is no part of it.

    Raises: error: the mark is that of UTF-16.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            if is_utf16(raw):
                raise error(f"{name} is UTF-16 by its byte-order mark; save it as UTF-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:  # nothing but a mark: an empty file
                continue
        yield number, _decoded(raw)


def is_utf16(start: bytes) -> bool:
    """Whether text begins with a byte-order mark of UTF-16, or of UTF-32 in Intel's order."""
    return start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked if it is named `.gz`."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield io.BufferedReader(file) if isinstance(file, gzip.GzipFile) else file  # gzip's own lines are slow


class _MarkingDecoder(utf_8_sig.IncrementalDecoder):
    """Decodes by chunks, whatever `errors` a library asks for."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(_MARKED)


def _marked_utf8(name: str) -> codecs.CodecInfo | None:
    if name != MARKED_UTF8:
        return None
    return codecs.CodecInfo(
        utf_8_sig.encode,
        lambda raw, _errors="strict": utf_8_sig.decode(raw, _MARKED),
        incrementaldecoder=_MarkingDecoder,
        name=MARKED_UTF8,
    )


codecs.register_error(_MARKED, lambda exc: (MARK, getattr(exc, "end", 0)))
codecs.register(_marked_utf8)


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return None
