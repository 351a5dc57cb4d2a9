"""A document as a client sends it, and the passages that its vectors are of. Knows no table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
