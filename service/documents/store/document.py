"""A document as a client sends it, and the passages that its vectors are of. Knows no table.

N documents, P passages, D dims
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from service.documents.protocol import Rows, Vectors

E = TypeVar("E")

Span = tuple[int, int]  # start and stop in a text, in characters


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


def parts_of(documents: Iterable[Document]) -> list[str]:
    """The texts to embed of some documents, one after the other."""
    return list(chain.from_iterable(document.parts for document in documents))


def owners_of(documents: Sequence[Document]) -> Rows:
    """(P,) For each passage the position of its document."""
    return np.repeat(np.arange(len(documents)), [len(document.spans) for document in documents])


def chosen(documents: Sequence[Document], vectors_PD: Vectors, positions: Sequence[int]) -> Vectors:
    """The vectors of the documents at some positions."""
    found: Vectors = vectors_PD[np.isin(owners_of(documents), positions)]
    return found


def whole(
    documents: Sequence[Document], vectors_PD: Vectors, *, failed: Mapping[int, E], truncated: Collection[int]
) -> tuple[list[Document], Vectors, dict[int, E]]:
    """The documents of which no passage failed, their vectors, and the first error of each other one by its position.

    The documents have `is_truncated`.

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
