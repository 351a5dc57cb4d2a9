"""Opens untrusted zip archives: bounds their size and keeps their files inside one folder."""

from __future__ import annotations

import io
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from training.errors import CorpusError
from training.system.text_files import Line, decoded_lines

MAX_UNPACKED_BYTES = 64 << 30  # of all members; the largest bitext of OPUS is near 10 GiB


@contextmanager
def open_zip(path: Path, *, max_bytes: int = MAX_UNPACKED_BYTES) -> Iterator[ZipFile]:
    """Open a zip archive; no member yields more bytes than it declares.

    Raises: CorpusError: it is damaged, encrypted, not packed by deflate, or unpacks to more than `max_bytes`.
    """
    try:
        with ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > max_bytes:
                raise CorpusError(f"{path} unpacks to {size} bytes; the limit is {max_bytes}")
            for member in archive.infolist():
                if member.flag_bits & 1 or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                    raise CorpusError(f"{path} is encrypted, or packed other than by deflate")
            yield archive
    except (BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as exc:
        raise CorpusError(f"{path} is damaged: {exc}") from exc


def member_lines(archive: ZipFile, name: str) -> Iterator[Line]:
    """Yield the lines of a member, numbered as by `numbered_lines`.

    Raises: CorpusError: it is UTF-16.
    """
    with archive.open(name) as packed:
        member = io.BufferedReader(cast("io.RawIOBase", packed))  # ZipExtFile splits lines slowly
        yield from decoded_lines(member, f"{archive.filename}: {name}", error=CorpusError)


def text_members(archive: ZipFile) -> list[ZipInfo]:
    """Return the archive's files, without hidden ones and those that macOS adds."""
    members = (member for member in archive.infolist() if not member.is_dir())
    return [member for member in members if not any(_is_hidden(part) for part in PurePosixPath(member.filename).parts)]


def unpack(path: Path, folder: Path) -> None:
    """Put an archive's files into `folder`, atomically; until all are unpacked they lie beside `path`.

    Folders inside the archive are flattened, so file names must be unique.

    Raises: CorpusError: as `open_zip`; a member is a link, or two have one name.
    """
    temporary = path.with_name(f".{path.name}.unpacked")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        with open_zip(path) as archive:
            for member in text_members(archive):
                target = temporary / PurePosixPath(member.filename).name
                if target.exists() or stat.S_ISLNK(member.external_attr >> 16):
                    raise CorpusError(f"{path} holds a link or two files with one name: {member.filename}")
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_hidden(part: str) -> bool:
    return part == "__MACOSX" or (part.startswith(".") and part not in (".", ".."))
