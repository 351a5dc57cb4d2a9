"""Converts the store's rows to documents, checking their checksums.

P passages, D dims
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from service.documents.protocol import Rows, Vectors
from service.documents.store.document import Document
from service.documents.store.integrity import damaged_document
from service.documents.store.schema import checksum

TINY = float(np.finfo(np.float32).tiny)

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
    total: number of documents, or of those that match the filter; None: Milvus, which is not asked without a filter.
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


def means_by_row(row_P: Rows, vectors_PD: Vectors) -> dict[int, Vectors]:
    """Return one vector of norm 1 a row: the mean of its passages'; a lone one stays as it is, to the bit."""
    of_row: dict[int, list[Vectors]] = {}
    for row, vector_D in zip(row_P.tolist(), vectors_PD, strict=True):
        of_row.setdefault(row, []).append(vector_D)
    return {row: vectors[0] if len(vectors) == 1 else _mean(vectors) for row, vectors in of_row.items()}


def _mean(vectors: Sequence[Vectors]) -> Vectors:
    mean_D = np.stack(vectors).mean(axis=0, dtype=np.float64)
    unit_D: Vectors = (mean_D / max(float(np.linalg.norm(mean_D)), TINY)).astype(np.float32)
    return unit_D
