"""Records of files, and the columns and cells of tables that become records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from service.documents.filters import comparable
from service.documents.own_fields import SHOWN_FIELDS, OwnFields, first_keys, listed
from service.errors import InvalidInput, StartError
from service.json_parsing import loads
from service.spelling import did_you_mean

REQUIRED = ("id", "text")


@dataclass(frozen=True)
class Record:
    """One record of a file. line: its last line, from 1.  read: bytes or rows read so far.

    fault: why it could not be read; `fields` is then empty.
    """

    line: int
    read: int
    fields: Mapping[str, Any]
    fault: str | None = None


def open_file(path: Path, *, twice: bool = False) -> BinaryIO:
    """Open a file. twice: it is read more than once. Raises: StartError: that cannot be done."""
    try:
        if twice and (str(path) == "-" or (path.exists() and not path.is_file())):
            raise StartError(f"{path} is not a regular file, but must be read twice")
        return path.open("rb")
    except OSError as exc:
        raise StartError(f"{path} cannot be read ({exc.strerror})") from exc


def required(own_fields: OwnFields | None) -> tuple[str, ...]:
    """Return the columns of a table that are no metadata."""
    return REQUIRED if own_fields is None else ("id",)


def check_columns(names: Sequence[str], own_fields: OwnFields | None = None) -> None:
    """Raises: InvalidInput: the header of a table lacks a column that documents need, or has one twice."""
    there = f"it has {listed(names)}" if names else "it is empty"
    missing = [name for name in required(own_fields) if name not in names]
    if missing:
        needed = "id and text" if own_fields is None else "an id"
        raise InvalidInput(f"the header has no column {' and none '.join(missing)}; documents need {needed}; {there}")
    if own_fields is not None:
        spelled = {comparable(name) for name in names}
        lost = next((path for path in own_fields.paths if spelled.isdisjoint(first_keys(path))), None)
        if lost is not None:
            near = did_you_mean(lost, names[:SHOWN_FIELDS])
            raise InvalidInput(f"the header has no column {lost!r}, which the text uses; {there}{near}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"the header has the column {twice!r} {names.count(twice)} times")


def record_of_columns(line: int, read: int, cells: Mapping[str, Any], own_fields: OwnFields | None) -> Record:
    """Return the record of a table's row. An empty cell, None, is no field unless the document needs it."""
    apart = {name: cells[name] for name in required(own_fields)}
    metadata = {name: cell for name, cell in cells.items() if cell is not None and name not in apart}
    return Record(line, read, {**apart, "metadata": metadata})


def document_of(record: Record, own_fields: OwnFields | None) -> Record:
    """Return a table's record with the fields that a line of JSON would have.

    Where its column `metadata` holds an object, or its JSON, those fields are metadata.
    """
    if record.fault is not None:
        return record
    metadata = record.fields["metadata"]
    if own_fields is not None:
        return replace(record, fields={"id": record.fields["id"], **metadata})
    own = _object_in(metadata.get("metadata"))
    if own is None:
        return record
    others = {name: cell for name, cell in metadata.items() if name != "metadata"}
    both = next((name for name in own if name in others), None)
    if both is not None:
        return replace(record, fields={}, fault=f"column {both!r} is also a field of the column 'metadata'")
    kept = {name: value for name, value in own.items() if value is not None}
    return replace(record, fields={**record.fields, "metadata": {**others, **kept}})


def _object_in(cell: object) -> dict[str, Any] | None:
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        try:
            cell = loads(cell.encode())
        except orjson.JSONDecodeError:
            return None
    return cell if isinstance(cell, dict) else None
