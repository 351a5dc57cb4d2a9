"""Reads translation memories (TMX 1.1 to 1.4), unit by unit.

Expat resolves nothing outside the file. Declared entities are refused: they can expand without bound.
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
from typing import IO, NoReturn
from xml.parsers import expat

from training.corpora.archives import open_zip, text_members
from training.corpora.text_pairs import STOP, BadLines, Pair
from training.errors import CorpusError
from training.system.text_files import MARK, MARKED_UTF8, is_utf16

CHUNK_BYTES = 1 << 20
ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)""")
CODES = ("bpt", "ept", "it", "ph", "ut")  # formatting of the document, not text
TAGS = {"zh_Hant": ("zh-hant", "zh-tw", "zh-hk"), "nb": ("nb", "no")}  # our code: the language's tags


def read_tmx_pairs(path: Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Yield the pairs of a `.tmx`, `.tmx.gz` or `.tmx.zip`: each unit's first English and first other variant.

    Args:
        language: tags that start with it match, so `pt` reads `pt-BR`.
        bad: receives units that are not UTF-8, in files that claim to be.
    Raises: CorpusError: it is not XML, in an unknown encoding, declares entities, has no unit in both languages, or
        `bad` stops at a unit.
    """
    units = _Units(language)
    has_units = False
    try:
        with _open(path) as file:
            for chunk in _with_marks(iter(partial(file.read, CHUNK_BYTES), b"")):
                units.parser.Parse(chunk)
                has_units = has_units or bool(units.pairs or units.bad_lines)
                for line in units.bad_lines:
                    bad.report(f"{path}: the unit that ends in line {line}")
                yield from units.take()
        units.parser.Parse(b"", True)
    except (expat.ExpatError, zlib.error, EOFError, OSError) as exc:
        raise CorpusError(f"{path} cannot be read to its end: {exc}") from exc
    except (LookupError, UnicodeError) as exc:
        raise CorpusError(f"{path} is not text in the encoding that it names ({exc}); convert it to UTF-8") from exc
    except _EntityError as exc:
        raise CorpusError(f"{path} has the entity {exc}; only XML's predefined ones are read") from exc
    if not has_units:
        tags = ", ".join(sorted(units.tags)) or "none"
        raise CorpusError(f"{path} has no unit in English and {language}; its languages: {tags}")


class _EntityError(Exception):
    """The file declares an entity, or uses one of its DTD."""


class _Units:
    """Expat's handlers: collect pairs, holding one unit at a time."""

    def __init__(self, language: str) -> None:
        self.pairs: list[Pair] = []
        self.bad_lines: list[int] = []  # last lines of units that are not UTF-8
        self.tags: set[str] = set()
        self._wanted = TAGS.get(language, (_plain(language),))
        self._unit: dict[str, str] = {}  # "en" and "other" -> text
        self._side: str | None = None  # of the current variant, if it is wanted
        self._text: list[str] | None = None  # of the current segment
        self._codes = 0  # nesting depth of formatting elements
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse
        self.parser.SkippedEntityHandler = self._refuse

    def take(self) -> list[Pair]:
        taken, self.pairs, self.bad_lines = self.pairs, [], []
        return taken

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            tag = _plain(attributes.get("xml:lang", attributes.get("lang", "")))
            self.tags.add(tag)
            is_wanted = any(f"{tag}-".startswith(f"{code}-") for code in self._wanted)
            self._side = "en" if f"{tag}-".startswith("en-") else "other" if is_wanted else None
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
    """Decode text, with MARK in place of invalid UTF-8, at which expat would stop. UTF-16 is passed to it unchanged.

    Raises: LookupError, UnicodeError: the file names no encoding of text, or is not in it.
    """
    first = next(chunks, b"")
    if is_utf16(first) or b"\0" in first[:4]:
        yield from chain([first], chunks)
        return
    named = ENCODING.match(first)  # after a byte-order mark none is named: it is UTF-8
    encoding = named[1].decode() if named else "utf-8"
    b"<".decode(encoding)  # `hex` is a codec, but not of text
    is_utf8 = encoding.lower() in ("utf-8", "utf8")
    yield from codecs.iterdecode(chain([first], chunks), MARKED_UTF8 if is_utf8 else encoding)


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes] | GzipFile]:
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
