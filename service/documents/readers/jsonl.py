"""Reads files line by line: records of JSON lines, or texts by random access, without keeping the texts in memory.

Blank lines are skipped but counted in line numbers.
"""

import codecs
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import orjson

from service.documents.readers.records import Record, open_file
from service.errors import InvalidInput
from service.json_parsing import is_utf8, loads, not_unicode

BYTE_ORDER_MARK = codecs.BOM_UTF8
MAX_LINE_BYTES = 16 * 2**20  # a file of another kind may be one huge line


def check_not_utf16(start: bytes) -> None:
    """Raises: InvalidInput: a file begins with the byte-order mark of UTF-16 or little-endian UTF-32."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidInput("is UTF-16 by its byte-order mark; save it as UTF-8")


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number, from 1; None for a line longer than MAX_LINE_BYTES.

    Raises: InvalidInput: the file is UTF-16.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            check_not_utf16(line)
        if len(line) <= MAX_LINE_BYTES:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)
        yield number, None


def read_jsonl(file: BinaryIO) -> Iterator[Record]:
    """Yield the records of JSON lines; a line that is no object is a record with a fault."""
    read = 0
    for line, raw in numbered_lines(file):
        if raw is None:
            yield Record(line, read, {}, f"has more than {MAX_LINE_BYTES} bytes")
            continue
        read += len(raw)
        text = (raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw).strip()
        if not text:
            continue
        try:
            fields = loads(text)
            fault = None if isinstance(fields, dict) else "is not a JSON object"
        except orjson.JSONDecodeError:
            fault = not_unicode(text) or ("is not valid JSON" if is_utf8(text) else "is not valid UTF-8")
        yield Record(line, read, {}, fault) if fault else Record(line, read, fields)


class Lines:
    """The lines of a file, by row. Keeps 24 bytes a line; texts are read from the file when asked for.

    In a file named `*.jsonl` each line is an object with a `text`; in any other file the line is the text.
    """

    def __init__(self, path: Path) -> None:
        """Index the lines.

        Raises: StartError: the file cannot be read, or is not a regular file.
                InvalidInput: a line is too long, or the file is UTF-16.
        """
        self.path = path
        self._is_json = path.suffix == ".jsonl"
        self._file = open_file(path, twice=True)
        self._numbers, self._starts, self._sizes = array("q"), array("q"), array("q")
        try:
            self._find_lines()
        except InvalidInput as exc:
            self._file.close()
            raise exc.at(str(path)) from exc

    def _find_lines(self) -> None:
        start = 0
        for number, line in numbered_lines(self._file):
            if line is None:
                raise InvalidInput(f"line {number} has more than {MAX_LINE_BYTES} bytes")
            if line.removeprefix(BYTE_ORDER_MARK if number == 1 else b"").strip():
                self._numbers.append(number)
                self._starts.append(start)
                self._sizes.append(len(line))
            start += len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    def number(self, row: int) -> int:
        """Return the number of a row's line in the file, from 1."""
        return self._numbers[row]

    def raw(self, row: int) -> bytes:
        """Return the bytes of a row's line, with its line end if it has one."""
        self._file.seek(self._starts[row])
        return self._file.read(self._sizes[row])

    def text(self, row: int) -> str:
        """Return the text of a row's line.

        Raises: InvalidInput: it is not UTF-8, or not an object with a text; the message names the line.
        """
        number = self.number(row)
        line = self.raw(row).strip(b"\r\n")
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        where = f"{self.path} line {number}"
        try:
            decoded = line.decode()
            text = orjson.loads(decoded)["text"] if self._is_json else decoded
        except UnicodeDecodeError as exc:
            raise InvalidInput(f"{where} is not valid UTF-8") from exc
        except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
            fault = f": {found}" if (found := not_unicode(line)) else " is not a JSON object with a text"
            raise InvalidInput(f"{where}{fault}") from exc
        if not isinstance(text, str) or not text:
            raise InvalidInput(f"{where} is not a JSON object with a text")
        return text
