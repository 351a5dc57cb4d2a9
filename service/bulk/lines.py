"""The lines of a file, one text each, without holding the texts. Knows bytes and UTF-8; knows no model.

A blank line has no text and is passed over; numbers count it.
"""

import codecs
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import orjson

from service.errors import InvalidInput, StartError

BYTE_ORDER_MARK = codecs.BOM_UTF8
MAX_LINE_BYTES = 16 * 2**20  # of a file that is not what it is taken for, the whole may be one line


def check_not_utf16(start: bytes) -> None:
    """Raises: InvalidInput: a file begins with the byte-order mark of UTF-16, or of UTF-32 in Intel's order."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidInput("is UTF-16 by its byte-order mark; save it as UTF-8")


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are text."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Each line with its number, from 1; None: it is longer than MAX_LINE_BYTES.

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


class Lines:
    """A file read twice: once in order to be embedded, then line by line as answers name them. 24 bytes a line.

    A file named `*.jsonl` has one object a line, whose `text` is the text; of any other file the line is.
    """

    def __init__(self, path: Path) -> None:
        """Find where the lines are.

        Raises: StartError: the file cannot be read, or is not a plain file.  InvalidInput: a line is too long, or the
            file is UTF-16.
        """
        self.path = path
        self._is_json = path.suffix == ".jsonl"
        try:
            if path.exists() and not path.is_file():
                raise StartError(f"{path} is not a plain file; it is read twice")
            self._file = path.open("rb")
        except OSError as exc:
            raise StartError(f"{path} cannot be read ({exc.strerror})") from exc
        self._numbers, self._starts, self._sizes = array("q"), array("q"), array("q")
        try:
            self._find_lines()
        except InvalidInput as exc:
            self._file.close()
            raise InvalidInput(f"{path} {exc}") from exc

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
        """The number of a line in the file, from 1."""
        return self._numbers[row]

    def raw(self, row: int) -> bytes:
        """A line as it is in the file, with its line end if it has one."""
        self._file.seek(self._starts[row])
        return self._file.read(self._sizes[row])

    def text(self, row: int) -> str:
        """The text of a line.

        Raises: InvalidInput: it is not UTF-8, or not an object with a text; the sentence names the line.
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
            raise InvalidInput(f"{where} is not a JSON object with a text") from exc
        if not isinstance(text, str) or not text:
            raise InvalidInput(f"{where} is not a JSON object with a text")
        return text
