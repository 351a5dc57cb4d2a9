"""Converts the store's rows to documents, checking their checksums."""

from dataclasses import dataclass

import orjson

from service.documents.store.document import Document
from service.documents.store.integrity import damaged_document
from service.documents.store.schema import checksum

Found = tuple[int, str, str, str, int, int | None]  # a row of `columns`


@dataclass(frozen=True, kw_only=True)
class StoredDocument(Document):
    """A document with its row number and the revision of its last change."""

    row: int
    revision: int


@dataclass(frozen=True)
class Page:
    """Documents in the order of first insertion.

    next_row: the row after which to continue; None: this is the last page.
    total: number of documents that match the filter; None: there is no filter.
    """

    documents: list[StoredDocument]
    next_row: int | None
    total: int | None = None


def columns(*, text: bool = True, metadata: bool = True) -> str:
    """Return the columns to select for `to_document`. The checksum covers text and metadata, so it needs both."""
    parts = ["row", "id", "text" if text else "''", "metadata" if metadata else "'{}'", "revision"]
    return ", ".join([*parts, "text_checksum" if text and metadata else "NULL"])


def to_document(found: Found) -> StoredDocument:
    """Return the document of a row.

    Raises: Damaged: its checksum differs.
    """
    row, id_, text, metadata, revision, expected = found
    if expected is not None and checksum(id_, text, metadata) != expected:
        raise damaged_document(id_, "text or metadata")
    return StoredDocument(id=id_, text=text, metadata=orjson.loads(metadata), row=row, revision=revision)
