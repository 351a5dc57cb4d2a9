"""A document as a client sends it and as it is stored, and the passages that its vectors are of.

N documents, P passages, D dims
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Span = tuple[int, int]  # start and stop in a text, in characters

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Document:
    """A document as a client sends it. metadata: any JSON object.

    passages: what each of its vectors is of, in order, at least two; empty: one vector, of the whole text.
    is_truncated: whether the model read only the beginning of a passage; None: unknown.
    """

    id: str
    text: str
    metadata: Mapping[str, Any]
    passages: tuple[Span, ...] = ()
    is_truncated: bool | None = None

    @property
    def spans(self) -> Sequence[Span]:
        """A span for each of its vectors."""
        return self.passages or ((0, len(self.text)),)

    @property
    def parts(self) -> list[str]:
        """The texts to embed."""
        return [self.text[start:stop] for start, stop in self.spans]


@dataclass(frozen=True, kw_only=True)
class StoredDocument(Document):
    """A document with its row number and the revision of its last change."""

    row: int
    revision: int


def named(id_: str) -> str:
    """Name a document in a message, with its id escaped to one line."""
    return f"document {orjson.dumps(id_).decode()}"


def bytes_of(document: Document) -> int:
    """Return the bytes of a document's id, text and metadata, as `DocumentIndex.content_bytes` counts them."""
    return len(document.id.encode()) + len(document.text.encode()) + len(orjson.dumps(document.metadata))


@dataclass(frozen=True)
class Page:
    """Documents in the order of first insertion.

    next_row: the row after which to continue; None: this is the last page.
    total: number of documents, or of those that match the filter; None: Milvus, which is not asked without a filter.
    """

    documents: list[StoredDocument]
    next_row: int | None
    total: int | None = None


def unit_rows(vectors_ND: Vectors) -> Vectors:
    """Scale vectors to norm 1, (N, D) float32; zero stays zero."""
    unit_ND: Vectors = vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), np.float32(TINY))
    return unit_ND


def means_by_row(row_P: Rows, vectors_PD: Vectors) -> dict[int, Vectors]:
    """Return one vector of norm 1 a row: the mean of its passages. A single passage's stays as it is, to the bit."""
    of_row: dict[int, list[Vectors]] = {}
    for row, vector_D in zip(row_P.tolist(), vectors_PD, strict=True):
        of_row.setdefault(row, []).append(vector_D)
    return {row: vectors[0] if len(vectors) == 1 else _mean(vectors) for row, vectors in of_row.items()}


def _mean(vectors: Sequence[Vectors]) -> Vectors:
    mean_D = np.stack(vectors).mean(axis=0, dtype=np.float64)
    unit_D: Vectors = (mean_D / max(float(np.linalg.norm(mean_D)), TINY)).astype(np.float32)
    return unit_D
