"""Makes records of the cells of a table, and checks records by the same rules as PUT /documents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from service.api.schemas.documents import document_in
from service.documents.store.document import Document, Span
from service.errors import InvalidInput
from service.json_parsing import loads

REQUIRED = ("id", "text")
EXPORTED = {"vector", "passages"}  # written by `export --vectors`, ignored here: the current model computes the vectors


@dataclass(frozen=True)
class Record:
    """One record of a file. line: its last line, from 1.  read: bytes or rows read so far.

    fault: why it could not be read; `fields` is then empty.
    """

    line: int
    read: int
    fields: Mapping[str, Any]
    fault: str | None = None


def record_of_columns(line: int, read: int, cells: Mapping[str, Any]) -> Record:
    """Return the record of a table's row. None: the cell is empty, and no field unless the document needs it."""
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


def to_document(
    record: Record, *, max_text_chars: int, split: Callable[[str], tuple[Span, ...]] | None = None
) -> Document:
    """Return the document of a record, with its metadata as the store would return them.

    split: gives the passages of a text; None: documents stay whole.
    Raises: InvalidInput: it is not a valid document; the message names the field and the limit, never the text.
    """
    if record.fault is not None:
        raise InvalidInput(record.fault)
    given = document_in({key: value for key, value in record.fields.items() if key not in EXPORTED})
    if len(given.text) > max_text_chars:
        raise InvalidInput(
            f"text: has {len(given.text)} characters; the limit is {max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    passages = () if split is None else split(given.text)
    return Document(given.id, given.text, _as_stored(given.metadata), passages)


def _as_stored(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = orjson.loads(orjson.dumps(metadata))  # turns a column's dates into text
    except TypeError as exc:
        raise InvalidInput(f"metadata: cannot be written as JSON ({exc})") from exc
    return stored
