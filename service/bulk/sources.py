"""Reads documents from JSONL, CSV and Parquet one at a time, from files of any size.

jsonl    {"id": .., "text": .., "metadata": {..}} a line, as PUT /documents takes and `index export` writes them
csv      a header with columns id and text; the others become metadata, unless empty: strings, or as `--types` says
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

from service.bulk.column_types import ColumnTypes, typed
from service.bulk.lines import BYTE_ORDER_MARK, MAX_LINE_BYTES, check_not_utf16, is_utf8, numbered_lines
from service.bulk.records import Record
from service.errors import InvalidInput, StartError
from service.json_parsing import loads

FORMATS = ("jsonl", "csv", "parquet")
REQUIRED = ("id", "text")
OPEN_QUOTE = (
    "unexpected end of data",
    "field larger than field limit",
)  # the csv module's errors for an unclosed quote
PARQUET_ROWS = 1024  # converted to Python objects at once


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
    if path.suffix.removeprefix(".") in FORMATS:
        return path.suffix.removeprefix(".")
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
            yield _parquet(path, file)
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
            yield Record(line, read, {}, "is not valid JSON" if is_utf8(text) else "is not valid UTF-8")
            continue
        if isinstance(fields, dict):
            yield Record(line, read, fields)
        else:
            yield Record(line, read, {}, "is not a JSON object")


def _records(file: BinaryIO, format_: str, types: ColumnTypes | None) -> Iterator[Record]:
    return READERS[format_](file) if types is None else typed(_csv(file, types), types)


def _csv(file: BinaryIO, types: ColumnTypes | None = None) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)
    counted = _Counted(file)
    # surrogateescape: a line that is not UTF-8 must not stop the reading.
    text = io.TextIOWrapper(io.BufferedReader(counted), "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)  # otherwise an unclosed quote silently swallows the rest
    header = next(_rows(reader), [])
    check_not_utf16("".join(header[:1]).encode(errors="surrogateescape"))
    if isinstance(header, str):
        raise InvalidInput(f"line 1 {header}")
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
            kept = {name: cell for name, cell in zip(header, cells, strict=True) if cell or name in REQUIRED}
            yield Record(reader.line_num, counted.read_bytes, _fields_of(kept))


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
    """Return a batch as Python objects, with an `_Unreadable` for a cell that cannot be converted."""
    if batch is None:
        return None
    columns = [_python_cells(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _python_cells(column: Any) -> list[Any]:
    """Return a column's cells. Nanoseconds are cut to microseconds, the precision of Python's dates."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    try:
        cells: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a cell failed: convert them one by one
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
    """Raises: InvalidInput: the file is not Parquet, or damaged."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as exc:
        reason = "a text is not valid UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc).splitlines()[0]
        raise InvalidInput(f"{path} is not a parquet file, or is damaged ({reason})") from exc


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
    """A Parquet cell that Python cannot represent."""

    why: str


def _fault_of(row: dict[str, Any]) -> str | None:
    faults = (f"column {name!r} {cell.why}" for name, cell in row.items() if isinstance(cell, _Unreadable))
    return next(faults, None)


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
