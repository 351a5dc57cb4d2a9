"""Reads translation memories (TMX 1.1 to 1.4), unit by unit. Expat resolves nothing outside the file; entities that a
file declares itself, which can grow without bound, are refused.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from gzip import GzipFile
from itertools import chain
from pathlib import Path
from typing import NoReturn, Protocol
from xml.parsers import expat

from training.corpora.sources.archives import open_zip, text_members
from training.corpora.sources.bad_lines import STOP, BadLines
from training.corpora.sources.tsv import Pair
from training.errors import CorpusError
from training.system.text_files import MARK, MARKED_UTF8, is_utf16

CHUNK_BYTES = 1 << 20
ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)""")
CODES = ("bpt", "ept", "it", "ph", "ut")  # hold the formatting of a document, not its text
TAGS = {"zh_Hant": ("zh-hant", "zh-tw", "zh-hk"), "nb": ("nb", "no")}  # our code: others of the same language


def read_tmx_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Pairs of a `.tmx`, `.tmx.gz` or `.tmx.zip`: of each unit the first English and the first other variant.

    Args:
        language: any tag that begins with it counts: `pt` takes `pt-BR`.
        bad: is told of a unit that is not UTF-8, in files that are said to be.
    Raises: CorpusError: it is not XML, declares entities, has no unit in both languages, or `bad` stops at a unit.
    """
    units = _Units(language)
    found = False
    try:
        with _open(path) as file:
            for chunk in _with_marks(iter(partial(file.read, CHUNK_BYTES), b"")):
                units.parser.Parse(chunk)
                found = found or bool(units.pairs or units.bad_lines)
                for line in units.bad_lines:
                    bad.not_utf8(f"{path}: the unit that ends in line {line}")
                yield from units.take()
        units.parser.Parse(b"", True)
    except (expat.ExpatError, zlib.error, EOFError, OSError) as exc:
        raise CorpusError(f"{path} cannot be read to its end: {exc}") from exc
    except _EntityError as exc:
        raise CorpusError(f"{path} has the entity {exc}; only those of XML itself are read") from exc
    if not found:
        tags = ", ".join(sorted(units.tags)) or "none"
        raise CorpusError(f"{path} has no unit in English and {language}; its languages: {tags}")


class SupportsRead(Protocol):
    """What is read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes."""


class _EntityError(Exception):
    """The file declares an entity, or uses one that its DTD does."""


class _Units:
    """What expat calls while it reads: collects pairs, holds one unit."""

    def __init__(self, language: str) -> None:
        self.pairs: list[Pair] = []
        self.bad_lines: list[int] = []  # in which units end that are not UTF-8
        self.tags: set[str] = set()
        self._wanted = TAGS.get(language, (_plain(language),))
        self._unit: dict[str, str] = {}  # "en" and "other" -> text
        self._side: str | None = None  # of the variant we are in, where it is wanted
        self._text: list[str] | None = None  # of the segment we are in
        self._codes = 0  # depth in elements of formatting
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse
        self.parser.SkippedEntityHandler = self._refuse

    def take(self) -> list[Pair]:
        """The pairs since the last call."""
        taken, self.pairs, self.bad_lines = self.pairs, [], []
        return taken

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            tag = _plain(attributes.get("xml:lang", attributes.get("lang", "")))
            self.tags.add(tag)
            self._side = "en" if _matches(tag, ("en",)) else "other" if _matches(tag, self._wanted) else None
        elif name == "seg":
            self._text = []
        elif name in CODES:
            self._codes += 1

    def _end(self, name: str) -> None:
        if name == "seg" and self._text is not None:
            if self._side:
                self._unit.setdefault(self._side, "".join(self._text).strip())
            self._text = None
        elif name == "tu" and len(self._unit) == 2:
            english, other = self._unit["en"], self._unit["other"]
            if MARK in english or MARK in other:
                self.bad_lines.append(self.parser.CurrentLineNumber)
            else:
                self.pairs.append((english, other))
        elif name in CODES:
            self._codes -= 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _refuse(self, name: str, *_: object) -> NoReturn:
        raise _EntityError(name)


def _with_marks(chunks: Iterator[bytes]) -> Iterator[bytes | str]:
    """A file in UTF-8 with a mark in place of bytes that are not, which else would end the reading.

    What names another encoding is left to expat, as it is.
    """
    first = next(chunks, b"")
    named = ENCODING.match(first.removeprefix(codecs.BOM_UTF8))
    if is_utf16(first) or b"\0" in first[:4] or (named and named[1].lower() not in (b"utf-8", b"utf8")):
        yield from chain([first], chunks)
        return
    yield from codecs.iterdecode(chain([first], chunks), MARKED_UTF8)


@contextmanager
def _open(path: Path) -> Iterator[SupportsRead]:
    if path.suffix != ".zip":
        with GzipFile(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
        return
    with open_zip(path) as archive:
        members = [member for member in text_members(archive) if member.filename.endswith(".tmx")]
        if len(members) != 1:
            raise CorpusError(f"{path} holds {len(members)} .tmx files; it must hold one")
        with archive.open(members[0]) as file:
            yield file


def _plain(tag: str) -> str:
    return tag.lower().replace("_", "-")


def _matches(tag: str, wanted: tuple[str, ...]) -> bool:
    return any(tag == code or tag.startswith(f"{code}-") for code in wanted)
