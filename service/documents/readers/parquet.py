"""Reads documents from Parquet, a batch of rows at a time. Each type of column becomes what JSON can say.

text, numbers, booleans, lists, structs  themselves; of float32 and float16 the shortest decimal
decimals                                 a number of the same decimal digits; the row is bad if there are too many
dates, times                             ISO 8601, at most microseconds; a time with a zone in UTC
durations                                seconds
maps                                     objects; their keys are text
dictionaries, extension types            what they stand for
bytes, and all else                      the row is bad
"""

import datetime
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from service.documents.own_fields import EXPORTED, OwnFields
from service.documents.readers.records import Record, check_columns, document_of, record_of_columns
from service.errors import InvalidInput, StartError
from service.json_parsing import loads

ROWS = 1024  # converted to Python objects at once
EPOCH = datetime.datetime(1970, 1, 1)
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # in a second

PLAIN = ("boolean", "integer", "float64", "string", "large_string", "string_view")
Read = Callable[[Any], Any]  # an Arrow scalar -> its value in JSON
EXTENSIONS: dict[str, Read] = {  # of others the storage is the value
    "arrow.uuid": lambda cell: str(cell.as_py()),
    "arrow.bool8": lambda cell: cell.as_py(),
    "arrow.json": lambda cell: loads(cell.as_py().encode()),
}


class _UnreadableError(ValueError):
    """A cell has no value in JSON; the message goes on after the column's name."""


def read_parquet(path: Path, file: BinaryIO) -> tuple[Callable[[OwnFields | None], Iterator[Record]], int]:
    """Return what yields the file's records, and how many there are. Its argument is as that of `read_csv`.

    Raises: StartError: pyarrow is not installed.  InvalidInput: it is not Parquet, or lacks the columns of documents.
    """
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as exc:
        raise StartError("parquet files need pyarrow: `make setup-dev` in a checkout installs it") from exc
    with _readable(path):
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
    return lambda own_fields: _records(path, table, names, own_fields), table.metadata.num_rows


def _records(path: Path, table: Any, names: list[str], own_fields: OwnFields | None) -> Iterator[Record]:
    check_columns(names, own_fields)
    line = 0
    batches = table.iter_batches(batch_size=ROWS, columns=[name for name in names if name not in EXPORTED])
    while True:
        with _readable(path):
            batch = next(batches, None)
            columns = [] if batch is None else [_cells(column) for column in batch.columns]
        if batch is None:
            return
        for row in range(batch.num_rows):
            line += 1
            cells = {name: column[row] for name, column in zip(batch.schema.names, columns, strict=True)}
            yield _record(line, cells, own_fields)


def _record(line: int, cells: dict[str, Any], own_fields: OwnFields | None) -> Record:
    for name, cell in cells.items():
        if isinstance(cell, _UnreadableError):
            return Record(line, line, {}, f"column {name!r} {cell}")
    if isinstance(cells["id"], int) and not isinstance(cells["id"], bool):
        cells["id"] = str(cells["id"])
    return document_of(record_of_columns(line, line, cells, own_fields), own_fields)


def _cells(column: Any) -> list[Any]:
    """Return a column's cells, with an _UnreadableError in place of each that has no value in JSON."""
    from pyarrow import types

    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_float64(kind) or types.is_string(kind):
        try:
            cells: list[Any] = column.to_pylist()
        except UnicodeDecodeError:  # a cell failed: convert them one by one
            pass
        else:
            return cells
    read = _reader(kind)
    return [_cell(cell, read) for cell in column]


def _cell(cell: Any, read: Read) -> Any:
    try:
        return read(cell) if cell.is_valid else None
    except _UnreadableError as exc:
        return exc
    except UnicodeDecodeError:
        return _UnreadableError("is not valid UTF-8")
    except orjson.JSONDecodeError:
        return _UnreadableError("is not valid JSON")
    except (ValueError, OverflowError):
        return _UnreadableError("has a date or time outside of the years 1 to 9999")


def _reader(kind: Any) -> Read:
    """Return what reads the valid scalars of a type, which may raise what `_cell` catches."""
    from pyarrow import BaseExtensionType, types

    if isinstance(kind, BaseExtensionType):
        return EXTENSIONS.get(kind.extension_name) or _of_value(_reader(kind.storage_type))
    if types.is_dictionary(kind):
        return _of_value(_reader(kind.value_type))
    if types.is_float16(kind):
        return lambda cell: float(str(np.float16(cell.as_py())))
    if types.is_float32(kind):
        return lambda cell: float(str(np.float32(cell.as_py())))
    if types.is_decimal(kind):
        return lambda cell: _number(cell.as_py())
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "+00:00"
        return lambda cell: (EPOCH + _microseconds(cell.value, kind.unit)).isoformat() + zone
    if types.is_time(kind):
        return lambda cell: (EPOCH + _microseconds(cell.value, kind.unit)).time().isoformat()
    if types.is_date(kind):
        return lambda cell: cell.as_py().isoformat()
    if types.is_duration(kind):
        return lambda cell: cell.value if kind.unit == "s" else cell.value / UNITS[kind.unit]
    if types.is_map(kind):
        key, item = _reader(kind.key_type), _or_null(_reader(kind.item_type))
        return lambda cell: _object((str(key(entry[0])), item(entry[1])) for entry in cell.values)
    if types.is_struct(kind):
        fields = [(field.name, _or_null(_reader(field.type))) for field in kind]
        return lambda cell: _object((name, read(cell[at])) for at, (name, read) in enumerate(fields))
    if types.is_nested(kind) and hasattr(kind, "value_type"):  # lists of all kinds
        element = _or_null(_reader(kind.value_type))
        return lambda cell: [element(part) for part in cell.values]
    if any(is_plain(kind) for is_plain in (getattr(types, f"is_{name}") for name in PLAIN)):
        return lambda cell: cell.as_py()
    return _refused


def _or_null(read: Read) -> Read:
    return lambda cell: read(cell) if cell.is_valid else None


def _of_value(read: Read) -> Read:
    return lambda cell: read(cell.value)


def _refused(cell: Any) -> Any:
    raise _UnreadableError(
        f"has the type {cell.type}, which JSON has not: cast it to text or a number, or leave it out"
    )


def _number(value: Decimal) -> int | float:
    if value.as_tuple().exponent == 0:
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise _UnreadableError("has a decimal of more digits than a number of JSON keeps: cast it to text or double")
    return number


def _microseconds(value: int, unit: str) -> datetime.timedelta:
    """Convert a number of units; nanoseconds are cut, since Python's times have none."""
    return datetime.timedelta(microseconds=value * UNITS["us"] // UNITS[unit])


def _object(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(entries)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _UnreadableError("has a struct or map with the same key twice")
    return fields


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises: InvalidInput: the file is not Parquet, or damaged."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as exc:
        reason = "a text is not valid UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc).splitlines()[0]
        raise InvalidInput(f"{path} is not a parquet file, or is damaged ({reason})") from exc
