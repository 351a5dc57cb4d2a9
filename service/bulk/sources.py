"""Reads documents from JSONL, CSV and Parquet, one at a time, whatever the file's size. Knows formats; knows no store.

jsonl    {"id": .., "text": .., "metadata": {..}} a line, as PUT /documents takes them and `index export` writes them
csv      a header with the columns id and text; every other column is a string of the metadata, unless it is empty
parquet  the same columns; the others keep their type, dates become text, nulls are left out
"""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from service.bulk.lines import BYTE_ORDER_MARK, MAX_LINE_BYTES, check_not_utf16, is_utf8, numbered_lines
from service.bulk.records import Record
from service.errors import InvalidInput, StartError
from service.json_parsing import loads

FORMATS = ("jsonl", "csv", "parquet")
REQUIRED = ("id", "text")
OPEN_QUOTE = (
    "unexpected end of data",
    "field larger than field limit",
)  # how the csv module ends when one is left open
PARQUET_ROWS = 1024  # held as Python objects at once


@dataclass(frozen=True)
class Source:
    """An open file of documents.  size: what `Record.read` reaches at its end; None: not known."""

    name: str
    records: Iterator[Record]
    size: int | None
    unit: str


def format_of(path: Path, given: str | None) -> str:
    """The format that was named, or that of the file's ending; of standard input it is jsonl.

    Raises: InvalidInput: the ending is none of them.
    """
    if given is not None:
        return given
    if str(path) == "-":
        return "jsonl"
    if path.suffix.removeprefix(".") in FORMATS:
        return path.suffix.removeprefix(".")
    raise InvalidInput(f"{path} ends in none of {', '.join('.' + name for name in FORMATS)}: name its --format")


@contextmanager
def open_source(path: Path, format_: str) -> Iterator[Source]:
    """Open a file, or standard input for `-`.

    Raises: StartError: it cannot be read.  InvalidInput: its columns are not those of documents.
    """
    if str(path) == "-":
        if format_ == "parquet":
            raise InvalidInput("parquet is read from its end: it cannot come from standard input")
        yield Source("standard input", READERS[format_](sys.stdin.buffer), None, "B")
        return
    try:
        file = path.open("rb")
    except OSError as exc:
        raise StartError(f"{path} cannot be read ({exc.strerror})") from exc
    with file:
        if format_ == "parquet":
            yield _parquet(path, file)
        else:
            size_bytes = path.stat().st_size if path.is_file() else None  # a pipe has none
            yield Source(str(path), READERS[format_](file), size_bytes, "B")


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
            yield Record(line, read, {}, "is not valid JSON" if is_utf8(text) else "is not valid UTF-8")
            continue
        if isinstance(fields, dict):
            yield Record(line, read, fields)
        else:
            yield Record(line, read, {}, "is not a JSON object")


def _csv(file: BinaryIO) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)
    counted = _Counted(file)
    # surrogateescape: one line that is not UTF-8 must not end the reading of the others.
    text = io.TextIOWrapper(io.BufferedReader(counted), "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)  # else an open quote takes in all that follows, without a word
    header = next(_rows(reader), [])
    check_not_utf16("".join(header[:1]).encode(errors="surrogateescape"))
    if isinstance(header, str):
        raise InvalidInput(f"line 1 {header}")
    _check_columns(header)
    for cells in _rows(reader):
        if isinstance(cells, str):
            yield Record(reader.line_num, counted.read_bytes, {}, cells)
        elif len(cells) != len(header):
            fault = f"has {len(cells)} columns; the header has {len(header)}"
            yield Record(reader.line_num, counted.read_bytes, {}, fault)
        elif any(not _is_readable(cell) for cell in cells):
            yield Record(reader.line_num, counted.read_bytes, {}, "is not valid UTF-8")
        else:
            kept = {name: cell for name, cell in zip(header, cells, strict=True) if cell or name in REQUIRED}
            yield Record(reader.line_num, counted.read_bytes, _fields_of(kept))


def _rows(reader: Any) -> Iterator[list[str] | str]:
    """The cells of each row that has some; a fault where a row is no CSV.

    Raises: InvalidInput: an open quote, which takes in all that follows: there is no next line to go on with.
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
                    f"the row that begins in line {first_line} has a quote that is not closed up to line "
                    f"{reader.line_num}, or a cell of more than {MAX_LINE_BYTES} characters"
                ) from exc
            yield f"is not CSV ({exc})"
            continue
        if cells:
            yield cells


def _parquet(path: Path, file: BinaryIO) -> Source:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as exc:
        raise StartError("parquet files need pyarrow: `make setup-dev` in a checkout installs it") from exc
    with _readable_parquet(path):
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
    _check_columns(names)

    def records() -> Iterator[Record]:
        line = 0
        batches = table.iter_batches(batch_size=PARQUET_ROWS)
        while True:
            with _readable_parquet(path):
                rows = _python_rows(next(batches, None))
            if rows is None:
                return
            for row in rows:
                line += 1
                if fault := _fault_of(row):
                    yield Record(line, line, {}, fault)
                    continue
                kept = {name: value for name, value in row.items() if value is not None or name in REQUIRED}
                if isinstance(kept["id"], int):
                    kept["id"] = str(kept["id"])
                yield Record(line, line, _fields_of(kept))

    return Source(str(path), records(), table.metadata.num_rows, "documents")


def _python_rows(batch: Any) -> list[dict[str, Any]] | None:
    """A batch as Python's own objects, an `_Unreadable` for what has none."""
    if batch is None:
        return None
    columns = [_python_cells(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _python_cells(column: Any) -> list[Any]:
    """A column; nanoseconds, which Python's dates do not have, are cut to microseconds."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    try:
        cells: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # of one cell: the others are read
        return [_python_cell(cell) for cell in column]
    return cells


def _python_cell(cell: Any) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return _Unreadable("is not valid UTF-8")
    except (ValueError, OverflowError):
        return _Unreadable("has a date or time outside of the years 1 to 9999, or of an unknown time zone")


@contextmanager
def _readable_parquet(path: Path) -> Iterator[None]:
    """Raises: InvalidInput: the file is none, or damaged."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as exc:
        reason = "a text is not valid UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc).splitlines()[0]
        raise InvalidInput(f"{path} is not a parquet file, or a damaged one ({reason})") from exc


def _check_columns(names: Sequence[str]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InvalidInput(f"the header has no column {' and none '.join(missing)}; documents need id and text")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"the header has the column {twice!r} {names.count(twice)} times")


def _fields_of(columns: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in columns.items() if name not in REQUIRED}
    return {"id": columns["id"], "text": columns["text"], "metadata": metadata}


@dataclass(frozen=True)
class _Unreadable:
    """A cell of Parquet that Python has no value for."""

    why: str


def _fault_of(row: dict[str, Any]) -> str | None:
    faults = (f"column {name!r} {cell.why}" for name, cell in row.items() if isinstance(cell, _Unreadable))
    return next(faults, None)


def _is_readable(cell: str) -> bool:
    return cell.isascii() or not any("\udc80" <= character <= "\udcff" for character in cell)


class _Counted(io.RawIOBase):
    """A file that counts what was read of it."""

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
