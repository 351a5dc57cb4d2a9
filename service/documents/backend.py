"""The interface between the service and its document index, used by routes, metrics and commands.

`Collection` keeps documents in this process (SQLite and FAISS), `MilvusIndex` on a Milvus server.

P passages, D dims
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from service.documents.protocol import Vectors
from service.documents.query import Query
from service.documents.results import EVERYTHING, Match, Shown
from service.documents.store.facets import Facet
from service.documents.store.store import Document, Page, StoredDocument
from service.errors import InvalidInput

MetadataChange = Callable[[dict[str, Any]], Mapping[str, Any]]


class DocumentIndex(Protocol):
    """Stores documents and finds the nearest. Every method may block; call it off the event loop.

    Raises, except `close`: IndexUnavailable: the documents are in another process, which does not answer.
    """

    @property
    def backend(self) -> str:
        """The name in `GET /info`."""

    @property
    def size_bytes(self) -> int:
        """Memory of the index in this process."""

    @property
    def recall(self) -> float | None:
        """Share of the 10 nearest that a search finds; None if it was not measured."""

    @property
    def chunks(self) -> bool | None:
        """Whether documents are split into passages where nothing else is said; None: they cannot be."""

    def __len__(self) -> int: ...

    def check_room(self, documents: Sequence[Document]) -> None:
        """Refuse documents that do not fit before they are embedded; `put` checks again."""

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Insert or replace documents by id. Return the change's revision. Durable and searchable on return.

        vectors_PD: of the documents' passages, one document's after the other's.
        """

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """Replace a document's metadata by what `change` makes of them. Return the change's revision.

        None: there is no such document. What `change` raises leaves everything as it was.
        """

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id. Return how many existed."""

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        """Remove the documents that match a filter. Return their number.

        filter_s: time limit for evaluating the filter in this process; None: no limit.
        """

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id."""

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return the documents of the ids, but for missing and damaged ones."""

    def vector(self, id_: str) -> Vectors | None:
        """Return a document's vector, (D,) of norm 1; of several passages their mean. None: no document has the id."""

    def page(
        self,
        *,
        after_row: int,
        limit: int,
        max_chars: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
        truncated: bool = False,
    ) -> Page:
        """Return the next documents in the order of first insertion, at most `limit` and about `max_chars` characters.

        With a filter, only matching documents; `filter_s` as in `delete_matching`. truncated: only those whose text was
        cut.

        Raises: InvalidInput: these are wanted, but it is not known which they are.
        """

    def count(self, filter_: Mapping[str, object] | None = None, *, filter_s: float | None = None) -> int:
        """Count the documents that match a filter; `filter_s` as in `delete_matching`."""

    def counts(
        self,
        fields: Sequence[str],
        *,
        most_values: int,
        filter_: Mapping[str, object] | None = None,
        filter_s: float | None = None,
    ) -> tuple[int, dict[str, Facet]]:
        """Count the documents that match a filter, also by each field's values, all of one moment.

        `filter_s` as in `delete_matching`.

        Raises: InvalidInput: the documents are where values cannot be counted.
        """

    def search(self, vector_D: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None) -> list[Match]:
        """Return the `top_k` nearest documents that match the filter: by score, ties by id.

        Raises: InvalidInput: the filter is malformed.
        """
        return self.search_all([Query(vector_D)], top_k=top_k, filter_=filter_)[0]

    def search_all(
        self,
        queries: Sequence[Query],
        *,
        top_k: int,
        filter_: Mapping[str, object] | None = None,
        shown: Shown = EVERYTHING,
    ) -> list[list[Match]]:
        """One search a query; gives what is wanted of the documents that they find.

        Raises: InvalidInput: what keeps the documents has no keywords, and a query has words.
        """

    def is_chunked(self, wanted: bool | None) -> bool:
        """Whether to split new documents into passages. wanted: None: as `chunks` says.

        Raises: InvalidInput: it is wanted, and they cannot be.
        """
        chunks = self.chunks
        if wanted and chunks is None:
            raise InvalidInput(
                "long documents are split into passages beside embedded documents only; where Milvus keeps them "
                "(CROSSLET_INDEX), leave chunk out"
            )
        return bool(chunks if wanted is None else wanted)

    def close(self) -> None:
        """Close files and connections."""
