"""The seam between the service and what keeps its documents: what routes, metrics and commands ask of an index.

`Collection` keeps them in this process (SQLite and FAISS), `MilvusIndex` in a Milvus.

N documents, D dims, B queries
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from service.documents.protocol import Vectors
from service.documents.results import EVERYTHING, Match, Shown
from service.documents.store.store import Document, Page, StoredDocument


class DocumentIndex(Protocol):
    """Keeps documents and finds the nearest. Every method may block; call it off the event loop.

    Raises, all but `close`: IndexUnavailable: what keeps the documents is another process, and does not answer.
    """

    @property
    def backend(self) -> str:
        """What `GET /info` calls it."""

    @property
    def size_bytes(self) -> int:
        """Memory of this process that the index takes."""

    @property
    def recall(self) -> float | None:
        """Share of the 10 nearest that a search finds; None where nobody has measured it."""

    def __len__(self) -> int: ...

    def check_room(self, ids: Sequence[str]) -> None:
        """Refuse documents that have no room before they are embedded; `put` checks again."""

    def put(self, documents: Sequence[Document], vectors_ND: Vectors) -> int:
        """Insert or replace documents, by id; gives the revision of the change. Durable and searchable on return."""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id; gives how many there were."""

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        """Remove the documents that a filter selects; gives how many there were.

        filter_s: how long the filter may be looked up here; None: as long as it takes.
        """

    def get(self, id_: str) -> StoredDocument | None:
        """One document by its id."""

    def page(
        self,
        *,
        after_row: int,
        limit: int,
        max_chars: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
    ) -> Page:
        """The next documents in the order of first arrival, at most `limit` and about `max_chars` characters.

        Of those that the filter selects; its look-up is bounded as in `delete_matching`.
        """

    def count(self, filter_: Mapping[str, object] | None = None, *, filter_s: float | None = None) -> int:
        """How many documents a filter selects; bounded as in `delete_matching`."""

    def search(self, vector_D: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None) -> list[Match]:
        """The `top_k` nearest documents that the filter selects: by score, ties by id."""

    def search_all(
        self,
        vectors_BD: Vectors,
        *,
        top_k: int,
        filter_: Mapping[str, object] | None = None,
        shown: Shown = EVERYTHING,
    ) -> list[list[Match]]:
        """One search a vector; gives what is wanted of the documents that they find."""

    def close(self) -> None:
        """Let go of files and connections."""
