"""A document as a client sends it, and the passages that its vectors are of. Knows no table.

N documents, P passages, D dims
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """

    id: str
    text: str
    metadata: Mapping[str, Any]
    passages: tuple[Span, ...] = ()

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
    documents: Sequence[Document], vectors_PD: Vectors, failed: Mapping[int, E]
) -> tuple[list[Document], Vectors, dict[int, E]]:
    """The documents of which no passage failed, their vectors, and the first error of each other one by its position.

    Args: vectors_PD: of the passages that did not fail.  failed: by the passage's position.
    """
    if not failed:
        return list(documents), vectors_PD, {}
    owners = owners_of(documents)
    errors: dict[int, E] = {}
    for position in sorted(failed):
        errors.setdefault(int(owners[position]), failed[position])
    kept = [document for position, document in enumerate(documents) if position not in errors]
    return kept, vectors_PD[~np.isin(np.delete(owners, list(failed)), list(errors))], errors
