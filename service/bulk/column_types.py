"""Gives the cells of a CSV file types, named or inferred from its first rows. Reads no files."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from service.bulk.records import Record
from service.documents.store.fields import LARGEST_INTEGER, SMALLEST_INTEGER
from service.errors import InvalidInput
from service.json_parsing import loads

INFERRED_ROWS = 1000
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WITH_LEADING_ZERO = re.compile(r"[+-]?0[0-9]|\+")  # a postcode, a telephone number: text, unless it is named
FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class ColumnTypes:
    """What `--types` asks for. named: column -> type.  infers: whether the types of other columns are inferred.

    tell: called with one sentence about the types that were inferred.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    infers: bool = False
    tell: Callable[[str], object] = lambda sentence: None

    def check(self, header: Sequence[str]) -> None:
        """Raises: InvalidInput: a named column is not in the file, or is the id or the text."""
        for name in self.named:
            if name in {"id", "text"}:
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


def typed(records: Iterator[Record], types: ColumnTypes) -> Iterator[Record]:
    """Yield the records with the types in their metadata; a cell that is not of its type is a fault of its record."""
    kinds = dict(types.named)
    if types.infers:
        first = list(islice(records, INFERRED_ROWS))
        inferred = {name: kind for name, kind in _inferred(first).items() if name not in kinds}
        types.tell(_sentence(inferred, len(first)))
        kinds |= inferred
        records = chain(first, records)
    for record in records:
        yield _converted(record, kinds)


def _inferred(records: Iterable[Record]) -> dict[str, str]:
    """The types of columns all of whose cells have one; all others stay text."""
    cells: dict[str, list[str]] = {}
    for record in records:
        for name, cell in record.fields.get("metadata", {}).items():
            cells.setdefault(name, []).append(cell)
    found = {name: next((kind for kind in INFERRED if _all_are(kind, seen)), "text") for name, seen in cells.items()}
    return {name: kind for name, kind in found.items() if kind != "text"}


def _all_are(kind: str, cells: Iterable[str]) -> bool:
    try:
        return all(not WITH_LEADING_ZERO.match(cell) and READERS[kind](cell) is not None for cell in cells)
    except ValueError:
        return False


def _sentence(inferred: Mapping[str, str], rows: int) -> str:
    if not inferred:
        return f"types by the first {rows} rows: every column is text"
    spelled = ",".join(f"{name}={kind}" for name, kind in inferred.items())
    return f"types by the first {rows} rows, others are text; to keep them: --types {spelled}"


def _converted(record: Record, kinds: Mapping[str, str]) -> Record:
    if record.fault is not None:
        return record
    metadata = dict(record.fields["metadata"])
    for name in metadata.keys() & kinds.keys():
        try:
            metadata[name] = READERS[kinds[name]](metadata[name])
        except ValueError:
            fault = f"column {name!r} is not {kinds[name]}; name its type, as in --types {name}=text"
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
    try:
        return FLAGS[cell.strip().lower()]
    except KeyError as exc:
        raise ValueError from exc


def _json(cell: str) -> object:
    value: object = loads(cell.encode())  # its error is a ValueError
    return value


READERS: dict[str, Callable[[str], object]] = {  # each raises ValueError
    "text": str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "json": _json,
}
INFERRED = ("int", "float", "bool")
