"""Reads CSV: a header with columns id and text; the others become metadata, unless empty.

Cells are text, or have the types that are named or inferred from the first rows. A type is inferred only where it
changes no cell: JSON writes each number as its cell has it, except that a whole number among decimals gets ".0". So
007, +1, 1_000, 1e5, 1.10, NaN and numbers beyond 64 bits stay text unless their column is named.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, BinaryIO

import orjson

from service.documents.filters import LARGEST_INTEGER, SMALLEST_INTEGER
from service.documents.own_fields import EXPORTED, OwnFields, listed
from service.documents.readers.jsonl import BYTE_ORDER_MARK, MAX_LINE_BYTES, check_not_utf16
from service.documents.readers.records import Record, check_columns, document_of, record_of_columns, required
from service.errors import InvalidInput
from service.json_parsing import loads

SEPARATORS = ";\t|"  # of tables that are often called CSV
LINE_END = re.compile(r"[\r\n]")
OPEN_QUOTE = ("unexpected end of data", "field larger than field limit")  # the csv module's errors
INFERRED_ROWS = 1000
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
LARGEST_EXACT = 2**53  # whole numbers up to it are exact as decimals
FLAGS = {"true": True, "false": False}
FLAG_SPELLINGS = ({"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"})

Reader = Callable[[str], object]  # raises ValueError


@dataclass(frozen=True)
class ColumnTypes:
    """What `--types` asks for. named: column -> type.  infers: whether the types of other columns are inferred.

    tell: called with one sentence about the types that were inferred.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    infers: bool = False
    tell: Callable[[str], object] = lambda sentence: None

    def check(self, header: Sequence[str], texts: Container[str]) -> None:
        """Raises: InvalidInput: a named column is not in the file, or is one of `texts`."""
        for name in self.named:
            if name in texts:
                raise InvalidInput(f"--types names the column {name!r}, which is always text")
            if name not in header:
                raise InvalidInput(f"--types names the column {name!r}; the header has {', '.join(header)}")


def column_types(text: str, tell: Callable[[str], object]) -> ColumnTypes:
    """Parse `price=float,year=int`, `auto`, or `auto` and columns.

    Raises: InvalidInput: it names no type that there is.
    """
    named: dict[str, str] = {}
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        name, _, kind = part.rpartition("=")
        if part != "auto" and (not name or kind not in READERS):
            raise InvalidInput(f"--types has {part!r}; write auto, or COLUMN=TYPE with one of {', '.join(READERS)}")
        named |= {name: kind} if name else {}
    return ColumnTypes(named, infers="auto" in parts, tell=tell)


def read_csv(file: BinaryIO, types: ColumnTypes | None = None, own_fields: OwnFields | None = None) -> Iterator[Record]:
    """Yield the records of a table. types: of its columns; None: every cell is text.

    own_fields: what the collection takes of documents with their own fields; None: they have id, text and metadata.

    Raises: InvalidInput: it lacks the columns of documents, or a quote is not closed.
    """
    records = _parsed(file, types, own_fields)
    return (document_of(record, own_fields) for record in (records if types is None else _typed(records, types)))


def _parsed(file: BinaryIO, types: ColumnTypes | None, own_fields: OwnFields | None) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE_BYTES)
    counted = _Counted(file)
    # surrogateescape: a line that is not UTF-8 must not stop the reading.
    buffered = io.BufferedReader(counted)
    start = buffered.peek().removeprefix(BYTE_ORDER_MARK).decode(errors="surrogateescape")
    text = io.TextIOWrapper(buffered, "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)  # otherwise an unclosed quote silently swallows the rest
    header = next(_rows(reader), [])
    check_not_utf16("".join(header[:1]).encode(errors="surrogateescape"))
    apart = required(own_fields)
    if not set(apart) <= set(header):
        _check_separator(LINE_END.split(start, 1)[0], 1 if isinstance(header, str) else len(header))
    if isinstance(header, str):
        raise InvalidInput(f"line 1 {header}")
    if not all(map(_is_readable, header)):
        raise InvalidInput("line 1 is not valid UTF-8")
    check_columns(header, own_fields)
    if types is not None:
        types.check(header, apart)
    for cells in _rows(reader):
        if isinstance(cells, str):
            fault = cells
        elif len(cells) != len(header):
            fault = f"has {len(cells)} columns; the header has {len(header)}"
        elif not all(map(_is_readable, cells)):
            fault = "is not valid UTF-8"
        else:
            filled = {name: cell or None for name, cell in zip(header, cells, strict=True) if name not in EXPORTED}
            filled |= {name: filled[name] or "" for name in apart}
            yield record_of_columns(reader.line_num, counted.read_bytes, filled, own_fields)
            continue
        yield Record(reader.line_num, counted.read_bytes, {}, fault)


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


def _check_separator(line: str, columns: int) -> None:
    """Raises: InvalidInput: another separator than the comma gives the header more columns."""
    for separator in SEPARATORS:
        names = next(csv.reader([line], delimiter=separator), [])
        if len(names) > columns:
            raise InvalidInput(f"the columns {listed(names)} are separated by {separator!r}; save them with commas")


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


def _typed(records: Iterator[Record], types: ColumnTypes) -> Iterator[Record]:
    """Yield the records with the types in their metadata; a cell that is not of its type is a fault of its record."""
    named = {name: (kind, READERS[kind]) for name, kind in types.named.items()}
    if types.infers:
        first = list(islice(records, INFERRED_ROWS))
        inferred, changed = _inferred(first, besides=types.named)
        types.tell(_sentence(inferred, changed, len(first)))
        named |= {name: (kind, EXACT[kind]) for name, kind in inferred.items()}
        records = chain(first, records)
    for record in records:
        yield _converted(record, named)


def _inferred(records: Iterable[Record], *, besides: Container[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types of columns whose cells all survive them, and of those with cells that a type would change."""
    cells: dict[str, list[str]] = {}
    for record in records:
        for name, cell in record.fields.get("metadata", {}).items():
            if name not in besides:
                cells.setdefault(name, []).append(cell)
    inferred = {name: kind for name, seen in cells.items() if (kind := _kind(seen, EXACT)) is not None}
    others = {name: seen for name, seen in cells.items() if name not in inferred}
    changed = {name: kind for name, seen in others.items() if (kind := _kind(seen, READERS)) is not None}
    return inferred, changed


def _kind(cells: Sequence[str], readers: Mapping[str, Reader]) -> str | None:
    """Return the first type that all cells have."""
    for kind in INFERRED:
        try:
            for cell in cells:
                readers[kind](cell)
        except ValueError:
            continue
        is_one_spelling = kind != "bool" or any(spelling.issuperset(cells) for spelling in FLAG_SPELLINGS)
        return kind if is_one_spelling or readers is READERS else None
    return None


def _sentence(inferred: Mapping[str, str], changed: Mapping[str, str], rows: int) -> str:
    said = f"types by the first {rows} rows"
    spelled = ",".join(f"{name}={kind}" for name, kind in inferred.items())
    said += f", others are text; to keep them: --types {spelled}" if spelled else ": every column is text"
    if changed:
        name, kind = next(iter(changed.items()))
        said += f"; a type would change cells of {', '.join(changed)}: name it where that is right, as in --types "
        said += f"auto,{name}={kind}"
    return said


def _converted(record: Record, kinds: Mapping[str, tuple[str, Reader]]) -> Record:
    if record.fault is not None:
        return record
    metadata = dict(record.fields["metadata"])
    for name in metadata.keys() & kinds.keys():
        kind, read = kinds[name]
        try:
            metadata[name] = read(metadata[name])
        except ValueError:
            fault = f"column {name!r} is not {kind}; name its type, as in --types {name}=text"
            return replace(record, fields={}, fault=fault)
    return replace(record, fields={**record.fields, "metadata": metadata})


def _int(cell: str) -> int:
    value = int(cell) if WHOLE.fullmatch(cell.strip()) else LARGEST_INTEGER + 1
    if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        raise ValueError
    return value


def _float(cell: str) -> float:
    value = float(cell) if DECIMAL.fullmatch(cell.strip()) else math.inf
    if not math.isfinite(value):
        raise ValueError
    return value


def _bool(cell: str) -> bool:
    value = FLAGS.get(cell.strip().lower())
    if value is None:
        raise ValueError
    return value


def _exact_int(cell: str) -> int:
    if not CANONICAL.fullmatch(cell):
        raise ValueError
    return _int(cell)


def _exact_float(cell: str) -> float:
    value = float(cell)
    is_whole = CANONICAL.fullmatch(cell) is not None and abs(int(cell)) <= LARGEST_EXACT
    if not is_whole and orjson.dumps(value) != cell.encode():
        raise ValueError
    return value


def _exact_bool(cell: str) -> bool:
    if not any(cell in spelling for spelling in FLAG_SPELLINGS):
        raise ValueError
    return _bool(cell)


READERS: dict[str, Reader] = {
    "text": str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "json": lambda cell: loads(cell.encode()),  # its error is a ValueError
}
EXACT: dict[str, Reader] = {"int": _exact_int, "float": _exact_float, "bool": _exact_bool}
INFERRED = tuple(EXACT)
