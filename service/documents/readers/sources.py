"""Reads documents from JSONL, CSV and Parquet one at a time, from files of any size.

jsonl    {"id": .., "text": .., "metadata": {..}} a line, as PUT /documents takes and `index export` writes them
csv      a header with columns id and text; the others become metadata, unless empty: strings, or as `--types` says
parquet  the same columns; the others keep their type (service/documents/readers/parquet.py), nulls are left out

Of csv and parquet, a column `metadata` of objects gives their fields, and `vector` and `passages` are left out. For a
collection that takes documents with their own fields, a document has an `id` and any others, in each format.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.documents.own_fields import OwnFields
from service.documents.readers.csv_table import ColumnTypes, read_csv
from service.documents.readers.jsonl import read_jsonl
from service.documents.readers.parquet import read_parquet
from service.documents.readers.records import Record, open_file
from service.errors import InvalidInput

FORMATS = ("jsonl", "csv", "parquet")


@dataclass(frozen=True)
class Source:
    """An open file of documents. size: of the whole, in the unit of `Record.read`; None: unknown.

    records: yields them once. Its argument is what the collection takes of documents with their own fields; None: they
             have id, text and metadata. Raises InvalidInput: the file lacks the columns of documents, or its own have
             types.
    """

    name: str
    records: Callable[[OwnFields | None], Iterator[Record]]
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

    Raises: StartError: it cannot be read.  InvalidInput: its format has types of its own.
    """
    if types is not None and format_ != "csv":
        raise InvalidInput(f"--types is for csv; {format_} has types of its own")
    if str(path) == "-":
        if format_ == "parquet":
            raise InvalidInput("parquet cannot be read from standard input: its index is at the end of the file")
        yield Source("standard input", _records(sys.stdin.buffer, format_, types), None, "B")
        return
    with open_file(path) as file:
        if format_ == "parquet":
            records, rows = read_parquet(path, file)
            yield Source(str(path), records, rows, "documents")
        else:
            size_bytes = path.stat().st_size if path.is_file() else None  # a pipe has no size
            yield Source(str(path), _records(file, format_, types), size_bytes, "B")


def _records(file: BinaryIO, format_: str, types: ColumnTypes | None) -> Callable[[OwnFields | None], Iterator[Record]]:
    return lambda own_fields: read_csv(file, types, own_fields) if format_ == "csv" else read_jsonl(file)
