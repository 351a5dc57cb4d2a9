"""Reads documents from JSONL, CSV and Parquet one at a time, from files of any size.

jsonl    {"id": .., "text": .., "metadata": {..}} a line, as PUT /documents takes and `index export` writes them
csv      a header with columns id and text; the others become metadata, unless empty: strings, or as `--types` says
parquet  the same columns; the others keep their type (service/bulk/parquet.py), nulls are left out

Of csv and parquet, a column `metadata` of objects gives their fields, and `vector` and `passages` are left out.
"""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from service.bulk.column_types import ColumnTypes, typed
from service.bulk.lines import BYTE_ORDER_MARK, MAX_LINE_BYTES, check_not_utf16, is_utf8, numbered_lines
from service.bulk.parquet import read_parquet
from service.bulk.records import EXPORTED, REQUIRED, Record, merged, record_of_columns
from service.errors import InvalidInput, StartError
from service.json_parsing import loads, not_unicode

FORMATS = ("jsonl", "csv", "parquet")
SEPARATORS = ";\t|"  # of tables that are often called CSV
LINE_END = re.compile(r"[\r\n]")
SHOWN_COLUMNS, SHOWN_CHARS = 20, 100  # of a header, in a message
OPEN_QUOTE = (
    "unexpected end of data",
    "field larger than field limit",
)  # the csv module's errors for an unclosed quote


@dataclass(frozen=True)
class Source:
    """An open file of documents. size: of the whole, in the unit of `Record.read`; None: unknown."""

    name: str
    records: Iterator[Record]
    size: int | None
    unit: str


def format_of(path: Path, given: str | None) -> str:
    """Return the given format, or the one of the file's extension; for standard input, jsonl.

    Raises: InvalidInput: the extension is unknown.
    """
    if given is not None:
        return given
    if str(path) == "-":
        return "jsonl"
    if path.suffix.removeprefix(".").lower() in FORMATS:
        return path.suffix.removeprefix(".").lower()
    raise InvalidInput(f"{path} ends in none of {', '.join('.' + name for name in FORMATS)}: set --format")


@contextmanager
def open_source(path: Path, format_: str, types: ColumnTypes | None = None) -> Iterator[Source]:
    """Open a file, or standard input for `-`. types: of the columns of a CSV file.

    Raises: StartError: it cannot be read.  InvalidInput: it lacks the columns of documents, or its own have types.
    """
    if types is not None and format_ != "csv":
        raise InvalidInput(f"--types is for csv; {format_} has types of its own")
    if str(path) == "-":
        if format_ == "parquet":
            raise InvalidInput("parquet cannot be read from standard input: its index is at the end of the file")
        yield Source("standard input", _records(sys.stdin.buffer, format_, types), None, "B")
        return
    try:
        file = path.open("rb")
    except OSError as exc:
        raise StartError(f"{path} cannot be read ({exc.strerror})") from exc
    with file:
        if format_ == "parquet":
            records, rows = read_parquet(path, file, _check_columns)
            yield Source(str(path), records, rows, "documents")
        else:
            size_bytes = path.stat().st_size if path.is_file() else None  # a pipe has no size
            yield Source(str(path), _records(file, format_, types), size_bytes, "B")


def _jsonl(file: BinaryIO) -> Iterator[Record]:
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
        except orjson.JSONDecodeError:
            fault = "is not valid JSON" if is_utf8(text) else "is not valid UTF-8"
            yield Record(line, read, {}, not_unicode(text) or fault)
            continue
        if isinstance(fields, dict):
            yield Record(line, read, fields)
        else:
            yield Record(line, read, {}, "is not a JSON object")


def _records(file: BinaryIO, format_: str, types: ColumnTypes | None) -> Iterator[Record]:
    if format_ == "csv":
        records = _csv(file, types)
        return map(merged, records if types is None else typed(records, types))
    return READERS[format_](file)


def _csv(file: BinaryIO, types: ColumnTypes | None = None) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)
    counted = _Counted(file)
    # surrogateescape: a line that is not UTF-8 must not stop the reading.
    buffered = io.BufferedReader(counted)
    start = buffered.peek().removeprefix(BYTE_ORDER_MARK).decode(errors="surrogateescape")
    text = io.TextIOWrapper(buffered, "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)  # otherwise an unclosed quote silently swallows the rest
    header = next(_rows(reader), [])
    check_not_utf16("".join(header[:1]).encode(errors="surrogateescape"))
    if not set(REQUIRED) <= set(header):
        _check_separator(LINE_END.split(start, 1)[0], 1 if isinstance(header, str) else len(header))
    if isinstance(header, str):
        raise InvalidInput(f"line 1 {header}")
    if not all(map(_is_readable, header)):
        raise InvalidInput("line 1 is not valid UTF-8")
    _check_columns(header)
    if types is not None:
        types.check(header)
    for cells in _rows(reader):
        if isinstance(cells, str):
            yield Record(reader.line_num, counted.read_bytes, {}, cells)
        elif len(cells) != len(header):
            fault = f"has {len(cells)} columns; the header has {len(header)}"
            yield Record(reader.line_num, counted.read_bytes, {}, fault)
        elif any(not _is_readable(cell) for cell in cells):
            yield Record(reader.line_num, counted.read_bytes, {}, "is not valid UTF-8")
        else:
            filled = {name: cell or None for name, cell in zip(header, cells, strict=True) if name not in EXPORTED}
            filled |= {name: filled[name] or "" for name in REQUIRED}
            yield record_of_columns(reader.line_num, counted.read_bytes, filled)


def _rows(reader: Any) -> Iterator[list[str] | str]:
    """Yield the cells of each non-empty row, or the fault of a malformed one.

    Raises: InvalidInput: a quote is not closed and swallows the rest of the file.
    """
    while True:
        first_line = reader.line_num + 1
        try:
            cells: list[str] = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            if str(exc).startswith(OPEN_QUOTE):
                raise InvalidInput(
                    f"the row that begins in line {first_line} has a quote that is not closed by line "
                    f"{reader.line_num}, or a cell of more than {MAX_LINE_BYTES} characters"
                ) from exc
            yield f"is not CSV ({exc})"
            continue
        if cells:
            yield cells


def _check_columns(names: Sequence[str]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        there = f"it has {_listed(names)}" if names else "it is empty"
        raise InvalidInput(
            f"the header has no column {' and none '.join(missing)}; documents need id and text; {there}"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"the header has the column {twice!r} {names.count(twice)} times")


def _check_separator(line: str, columns: int) -> None:
    """Raises: InvalidInput: another separator than the comma gives the header more columns."""
    for separator in SEPARATORS:
        names = next(csv.reader([line], delimiter=separator), [])
        if len(names) > columns:
            raise InvalidInput(f"the columns {_listed(names)} are separated by {separator!r}; save them with commas")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    return ", ".join(repr(name[:SHOWN_CHARS]) for name in names[:SHOWN_COLUMNS]) + more


def _is_readable(cell: str) -> bool:
    return cell.isascii() or not any("\udc80" <= character <= "\udcff" for character in cell)


class _Counted(io.RawIOBase):
    """A file that counts the bytes read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)


READERS: dict[str, Callable[[BinaryIO], Iterator[Record]]] = {"jsonl": _jsonl, "csv": _csv}
