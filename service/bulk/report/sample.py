"""Draws documents of a store, and makes queries of their openings. Measures nothing.

S sampled documents, D dims
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.bulk.report.languages import language_of
from service.documents.protocol import Rows, Vectors
from service.documents.store.store import DocumentStore

BATCH = 512
OPENING_CHARS = 60
LEAST_CHARS = 8  # a shorter text has no opening that says something


@dataclass(frozen=True)
class Sample:
    """Some documents. rows_S: ascending.  vectors_SD: unit vectors.  languages: as `language_of` names them."""

    rows_S: Rows
    vectors_SD: Vectors
    ids: list[str]
    texts: list[str]
    languages: list[str]


def draw(store: DocumentStore, *, most: int, field: str) -> Sample:
    """Draw at most `most` documents, the same ones for the same store.

    Raises: Damaged: a checksum differs.
    """
    rows = store.rows()
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    documents = {document.row: document for part in _batches(chosen.tolist()) for document, _ in store.fetch(part)}
    found = [store.vectors_of(part) for part in _batches(sorted(documents))]
    ordered = [documents[row] for rows, _ in found for row in rows]
    return Sample(
        np.array([document.row for document in ordered], np.int64),
        np.concatenate([vectors_ND for _, vectors_ND in found]),
        [document.id for document in ordered],
        [document.text for document in ordered],
        [language_of(document.metadata, document.text, field=field) for document in ordered],
    )


def languages_of(store: DocumentStore, rows: Sequence[int], *, field: str) -> dict[int, str]:
    """The language of each row."""
    return {
        document.row: language_of(document.metadata, document.text, field=field)
        for part in _batches(rows)
        for document, _ in store.fetch(part)
    }


def opening(text: str) -> str:
    """The first half of a text, at most OPENING_CHARS, to the end of a word where words have ends; "": too short."""
    text = " ".join(text.split())
    if len(text) < LEAST_CHARS:
        return ""
    cut = text[: min(OPENING_CHARS, len(text) // 2)]
    whole, _, _ = cut.rpartition(" ")
    return whole if len(whole) > len(cut) // 2 else cut


def _batches(rows: Sequence[int]) -> list[Sequence[int]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
