"""A document and its passages as they lie on the disk, not trusted. Knows checksums; reads nothing."""

from dataclasses import dataclass
from itertools import pairwise

from service.documents.store.document import Span


@dataclass(frozen=True)
class StoredPassage:
    """A passage, unchecked. start, stop: in characters.  vector: little-endian float32."""

    start: int
    stop: int
    vector: bytes
    is_sound: bool  # the checksum matches, or the schema has none


@dataclass(frozen=True)
class StoredRow:
    """A document's row, unchecked. metadata: JSON.  passages: none where they are not read."""

    id: str
    text: bytes
    metadata: bytes
    revision: int
    row: int
    is_text_sound: bool  # the checksum matches, or the schema has none
    passages: tuple[StoredPassage, ...] = ()

    @property
    def are_vectors_sound(self) -> bool:
        """Whether there are passages, all with sound vectors."""
        return bool(self.passages) and all(passage.is_sound for passage in self.passages)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The places of its passages, in order, if there are several."""
        spans = tuple((passage.start, passage.stop) for passage in self.passages)
        return spans if len(spans) > 1 else ()

    @property
    def is_covered(self) -> bool:
        """Whether its passages rise through the sound text, and leave out nothing but spaces."""
        text = self.text.decode()
        places = [(0, 0), *((one.start, one.stop) for one in self.passages), (len(text), len(text))]
        return all(
            start <= next_start and stop <= next_stop <= len(text) and not text[stop:next_start].strip()
            for (start, stop), (next_start, next_stop) in pairwise(places)
        )
