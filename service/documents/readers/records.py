"""Records of files, and the columns and cells of tables that become records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from service.errors import InvalidInput, StartError
from service.json_parsing import loads

REQUIRED = ("id", "text")
EXPORTED = {"vector", "passages"}  # written by `export --vectors`, ignored here: the current model computes the vectors
SHOWN_COLUMNS, SHOWN_CHARS = 20, 100  # of a header, in a message


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


def check_columns(names: Sequence[str]) -> None:
    """Raises: InvalidInput: the header of a table lacks a column that documents need, or has one twice."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        there = f"it has {listed(names)}" if names else "it is empty"
        raise InvalidInput(
            f"the header has no column {' and none '.join(missing)}; documents need id and text; {there}"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"the header has the column {twice!r} {names.count(twice)} times")


def listed(names: Sequence[str]) -> str:
    """Return the columns of a header for a message."""
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    return ", ".join(repr(name[:SHOWN_CHARS]) for name in names[:SHOWN_COLUMNS]) + more


def record_of_columns(line: int, read: int, cells: Mapping[str, Any]) -> Record:
    """Return the record of a table's row. An empty cell, None, is no field unless the document needs it."""
    metadata = {name: cell for name, cell in cells.items() if cell is not None and name not in REQUIRED}
    return Record(line, read, {"id": cells["id"], "text": cells["text"], "metadata": metadata})


def merged(record: Record) -> Record:
    """Return a table's record; where its column `metadata` holds an object, or its JSON, those fields are metadata."""
    metadata = record.fields.get("metadata", {})
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
