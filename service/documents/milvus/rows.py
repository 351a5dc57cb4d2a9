"""Converts documents to Milvus rows and back, within Milvus' limits."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import orjson

from service.documents.document import Document, StoredDocument, Vectors
from service.documents.milvus.filters import searchable
from service.errors import InvalidInput

MilvusRow = dict[str, Any]  # pymilvus' type of a row

FIELDS = ["id", "text", "metadata", "arrival", "revision"]  # the fields of a document
MAX_ID_BYTES = 4 * 512  # an id has at most 512 characters
MAX_TEXT_BYTES = 65_535  # Milvus' largest VARCHAR
MAX_JSON_BYTES = 65_536
MAX_TOKENS = 4_096  # Milvus' largest ARRAY
TOKEN_CHARS = 33

T = TypeVar("T")


def to_row(document: Document, vector_D: Vectors, *, position: int, arrival: int, revision: int) -> MilvusRow:
    """Return the Milvus row of a document. position: in the request, for error messages.

    Raises: InvalidInput: it exceeds Milvus' limits.
    """
    derived = searchable(document.metadata)
    place = f"documents[{position}]"
    if not is_storable_id(document.id):
        raise InvalidInput(f"{place}.id has a control character, or takes more than {MAX_ID_BYTES} bytes")
    _check(len(document.text.encode()), MAX_TEXT_BYTES, f"{place}.text takes", "bytes")
    _check(len(orjson.dumps(document.metadata)), MAX_JSON_BYTES, f"{place}.metadata takes", "bytes")
    _check(len(derived.tokens), MAX_TOKENS, f"{place}.metadata has", "keys and values to filter on")
    _check(len(orjson.dumps(derived.bounds)), MAX_JSON_BYTES, f"{place}.metadata has too many keys: they take", "bytes")
    return {
        "id": document.id,
        "text": document.text,
        "metadata": document.metadata,
        "tokens": derived.tokens,
        "bounds": derived.bounds,
        "arrival": arrival,
        "revision": revision,
        "vector": vector_D,
    }


def to_document(row: MilvusRow) -> StoredDocument:
    """Return the document of a row that was read with `FIELDS`. Text and metadata that were not read are empty."""
    text, metadata = row.get("text", ""), row.get("metadata", {})
    return StoredDocument(id=row["id"], text=text, metadata=metadata, row=row["arrival"], revision=row["revision"])


def to_vector(row: MilvusRow) -> Vectors:
    """(D,) The vector of a row that was read with it."""
    return np.asarray(row["vector"], np.float32)


def is_storable_id(id_: str) -> bool:
    """Return whether Milvus can store this id. Control characters cannot be quoted in an expression."""
    return len(id_.encode()) <= MAX_ID_BYTES and not any(char < " " or char == "\x7f" for char in id_)


def chars_of(document: StoredDocument) -> int:
    """Characters of its text, and of its metadata as JSON."""
    return len(document.text) + len(orjson.dumps(document.metadata))


def parts_of(values: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the values in lists of at most `size`."""
    remaining = iter(values)
    while part := list(islice(remaining, size)):
        yield part


def ids_expression(ids: list[str]) -> str:
    """Return the expression for documents with these storable ids."""
    quoted = ", ".join('"' + id_.replace("\\", "\\\\").replace('"', '\\"') + '"' for id_ in ids)
    return f"id in [{quoted}]"


def _check(size: int, limit: int, what: str, unit: str) -> None:
    if size > limit:
        raise InvalidInput(
            f"{what} {size} {unit}; the limit is {limit} where Milvus keeps the documents (CROSSLET_INDEX)"
        )
