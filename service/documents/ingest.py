"""The core of every way in for documents: batches, passages, comparison with what is stored, and counts.

A driver collects a `Batch`, leaves out what `changes` finds to be stored already, embeds the `parts_of` the rest, joins
the vectors to documents again with `join_passages`, and puts them. `service/api/document_writing.py` drives it for HTTP
on the event loop, `service/offline/loading.py` for commands in threads.

N documents, P passages, D dims
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, TypeVar

import numpy as np
import orjson

from service.documents.document import Document, Rows, StoredDocument, Vectors

E = TypeVar("E")


class DocumentSink(Protocol):
    """Where documents are put: a collection, or anything else that keeps them."""

    def documents_of(self, ids: Sequence[str]) -> Mapping[str, StoredDocument]:
        """Return the documents of the ids, but for missing and damaged ones."""

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Insert or replace documents, each id at most once, with their passages' vectors; durable on return."""


@dataclass
class Batch:
    """Documents to put together, each id at most once.

    lines: the line of each in its file or body.  size: of all, in the unit of the driver's limit.
    unchanged: documents left out, which are stored as they are.  read: how far in the file the last one ends.
    """

    documents: list[Document] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    size: int = 0
    unchanged: int = 0
    read: int = 0

    def add(self, document: Document, line: int, *, size: int = 0) -> None:
        """Add a document at the end."""
        self.documents.append(document)
        self.lines.append(line)
        self.size += size

    def has_room_for(self, document: Document, *, size: int, most_documents: int, most_size: int) -> bool:
        """Return whether the document may be added; a single one always may. Of two with one id the later one stays."""
        is_full = len(self.documents) >= most_documents or self.size + size > most_size
        return not self.documents or not (is_full or any(earlier.id == document.id for earlier in self.documents))

    def only(self, positions: Sequence[int]) -> "Batch":
        """Return the documents at some positions; the others are unchanged."""
        documents, lines = [self.documents[place] for place in positions], [self.lines[place] for place in positions]
        return Batch(documents, lines, unchanged=len(self.documents) - len(documents), read=self.read)


@dataclass
class Report:
    """Counts of what happened to documents so far.

    new, replaced: documents that were put.  stored: the sum of both, where it is not known which they were.
    unchanged: stored already as they are.  skipped: lines that are no documents.  truncated: documents that were put,
    longer than the model reads.  failed: documents that the model failed on.
    """

    new: int = 0
    replaced: int = 0
    stored: int | None = None
    unchanged: int = 0
    skipped: int = 0
    truncated: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """The number of documents read that are stored now."""
        return self.new + self.replaced + (self.stored or 0) + self.unchanged

    def __str__(self) -> str:
        put = f"{self.new} new, {self.replaced} replaced"
        if self.stored is not None:
            put = f"{self.stored} new or replaced"
        sentence = f"{self.total} documents read: {put}, {self.unchanged} unchanged"
        sentence += f", {self.skipped} bad lines skipped" if self.skipped else ""
        sentence += f", {self.failed} could not be embedded" if self.failed else ""
        return sentence + (f"; of {self.truncated} the model read only the beginning" if self.truncated else "")


def is_same(document: Document, stored: Document) -> bool:
    """Return whether putting the document would change nothing."""
    return document.passages == stored.passages and has_content_of(document, stored)


def has_content_of(document: Document, stored: Document) -> bool:
    """Return whether text and metadata are the same. Compares JSON, since 1 == True in Python."""
    return document.text == stored.text and _dump(document.metadata) == _dump(stored.metadata)


def changes(documents: Sequence[Document], stored: Mapping[str, StoredDocument]) -> list[int]:
    """Return the positions of the documents that are new, or differ from the stored ones of their ids."""
    return [
        position
        for position, document in enumerate(documents)
        if document.id not in stored or not is_same(document, stored[document.id])
    ]


def place(sink: DocumentSink, documents: Sequence[Document], vectors_PD: Vectors, report: Report) -> None:
    """Put the documents that are new or changed, with their vectors, and count them."""
    stored = sink.documents_of([document.id for document in documents])
    changed = changes(documents, stored)
    if changed:
        sink.put([documents[position] for position in changed], vectors_of(documents, vectors_PD, changed))
    new = len(documents) - len(stored)
    report.new += new
    report.replaced += len(changed) - new
    report.unchanged += len(documents) - len(changed)
    report.truncated += sum(documents[position].is_truncated is True for position in changed)


def parts_of(documents: Iterable[Document]) -> list[str]:
    """Return the texts to embed of some documents, one after the other."""
    return list(chain.from_iterable(document.parts for document in documents))


def owners_of(documents: Sequence[Document]) -> Rows:
    """Return the position of each passage's document, (P,)."""
    return np.repeat(np.arange(len(documents)), [len(document.spans) for document in documents])


def vectors_of(documents: Sequence[Document], vectors_PD: Vectors, positions: Sequence[int]) -> Vectors:
    """Return the vectors of the documents at some positions."""
    kept_PD: Vectors = vectors_PD[np.isin(owners_of(documents), positions)]
    return kept_PD


def join_passages(
    documents: Sequence[Document], vectors_PD: Vectors, *, failed: Mapping[int, E], truncated: Collection[int]
) -> tuple[list[Document], Vectors, dict[int, E]]:
    """Return the documents of which no passage failed, with `is_truncated`, their vectors, and the others' errors.

    An error is the first one of a document, by the document's position.

    Args: vectors_PD: of the passages that did not fail.  failed: by the passage's position.
          truncated: positions of passages.
    """
    owners = owners_of(documents)
    cut = {int(owners[position]) for position in truncated}
    errors: dict[int, E] = {}
    for position in sorted(failed):
        errors.setdefault(int(owners[position]), failed[position])
    kept = [
        replace(document, is_truncated=position in cut)
        for position, document in enumerate(documents)
        if position not in errors
    ]
    if errors:
        vectors_PD = vectors_PD[~np.isin(np.delete(owners, list(failed)), list(errors))]
    return kept, vectors_PD, errors


def _dump(metadata: Mapping[str, Any]) -> bytes:
    return orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)
