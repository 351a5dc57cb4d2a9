"""Reads UTF-8 text line by line, plain or gzip, with or without a byte-order mark."""

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

from training.system.files import LfsPointer, refuse_pointers

Line = tuple[int, str | None]  # its number, from 1; its text without the line feed, or None if it is not UTF-8

NOT_UTF8 = "is not valid UTF-8"
MARK = "\ufdd0"  # stands for invalid UTF-8 where a library decodes: a noncharacter that XML allows
MARKED_UTF8 = "crosslet_marked_utf8"  # the codec that inserts MARK; it skips a byte-order mark
_MARKED = "crosslet_marked"  # its error handler


def numbered_lines(path: Path, *, error: type[Exception]) -> Iterator[Line]:
    """Yield the lines of a file. Only a line feed ends one: U+2028 and the like are text.

    Raises: error: the file is UTF-16, missing, a damaged gzip or a pointer of Git LFS.
    """
    try:
        with open_bytes(path) as file:
            yield from decoded_lines(file, str(path), error=error)
    except LfsPointer as exc:
        raise error(str(exc)) from exc
    except (zlib.error, EOFError, OSError) as exc:
        raise error(f"{path} cannot be read to its end: {exc}") from exc


def text_lines(path: Path, *, error: type[Exception]) -> Iterator[tuple[int, str]]:
    """Like `numbered_lines`, for a file in which every line must be UTF-8.

    Raises: error: also for a line that is not UTF-8; the message names it.
    """
    for number, line in numbered_lines(path, error=error):
        if line is None:
            raise error(f"{path} line {number} {NOT_UTF8}")
        yield number, line


def decoded_lines(raw_lines: Iterable[bytes], name: str, *, error: type[Exception]) -> Iterator[Line]:
    """Decode lines, without the byte-order mark of the first.

    Raises: error: the mark is UTF-16's.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            if is_utf16(raw):
                raise error(f"{name} is UTF-16 by its byte-order mark; save it as UTF-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:  # only a mark: the file is empty
                continue
        line: str | None
        try:
            line = raw.decode().removesuffix("\n")
        except UnicodeDecodeError:
            line = None
        yield number, line


def is_utf16(start: bytes) -> bool:
    """Return whether text begins with a byte-order mark of UTF-16 or little-endian UTF-32."""
    return start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file's bytes, decompressed if it is named `.gz`.

    Raises: OSError: it cannot be opened, or is a pointer of Git LFS.
    """
    if path.is_file():  # a pipe is read once
        refuse_pointers([path])
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield io.BufferedReader(file) if isinstance(file, gzip.GzipFile) else file  # GzipFile splits lines slowly


class _MarkingDecoder(utf_8_sig.IncrementalDecoder):
    """Decodes in chunks with our error handler, whatever `errors` a library asks for."""

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
