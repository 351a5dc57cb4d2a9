"""The interface between the service and its document index: what is asked, what is answered, and the one Protocol.

`Collection` keeps documents in this process (SQLite and FAISS), `MilvusIndex` on a Milvus server.

P passages, D dims
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from service.documents.document import Document, Page, StoredDocument, Vectors
from service.documents.filters import Facet, SqlValue
from service.documents.names import PREFERENCE
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.model.confidence import Evidence

Filter = Mapping[str, object]
MetadataChange = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Preference:
    """Documents whose field equals the value rank higher: `weight` is added to their scores, also beyond 1.

    starts: or begins with one of these.
    """

    field: str
    value: str | float | bool
    weight: float = PREFERENCE
    starts: tuple[str, ...] = ()

    @property
    def filter_(self) -> Filter:
        """The filter that these documents match."""
        ranges = [{self.field: {"gte": start, "lt": f"{start}\U0010ffff"}} for start in self.starts]
        return {"or": [{self.field: {"in": [self.value]}}, *ranges]}


@dataclass(frozen=True)
class Query:
    """One query: by its vector, by its words, or by both. With neither, every document that matches the filter.

    vector_D: of norm 1; None: words alone.  words: to look for in documents; None: the vector alone.
    text: what was asked; empty: by a vector.
    without: id of a document to leave out, which the vector is of.
    typing: whether the last word may go on.
    """

    vector_D: Vectors | None = None
    words: str | None = None
    without: str | None = None
    prefer: Preference | None = None
    typing: bool = False
    text: str = ""


@dataclass(frozen=True)
class SortField:
    """A field of the metadata to sort by; documents without a value come last."""

    field: str
    descending: bool = False


@dataclass(frozen=True)
class Passage:
    """A part of a document's text. start, stop: its place there, in characters (Unicode code points)."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Group:
    """The documents with one value of a field. value: None: the document has none, and is alone.

    size: how many of them match the filter, and by keywords alone the query as well.
    """

    value: SqlValue | None
    size: int


@dataclass(frozen=True)
class Match:
    """A document found by a search.

    score: the cosine with the query; with keywords as well, `hybrid_score`; by keywords alone, see `KeywordHits`; each
           with `preference`, the weight of what the query prefers. None: by a filter alone.
    dense_rank, keywords_rank: its places in the two orders, from 1; None: not among those looked at.
    passage: of a document in several, the one that answers best; None: it is in one piece, or that was not asked for.
    vector_D: of norm 1, if wanted.  group: if results are grouped.
    words: terms that were looked for, the rarer the heavier, if wanted.
    row: the engine's number of the document.
    reranker_score: the re-ranker's own, in [0, 1]; None: it read none.
    """

    score: float | None
    document: StoredDocument
    dense_rank: int | None = None
    keywords_rank: int | None = None
    passage: Passage | None = None
    vector_D: Vectors | None = None
    group: Group | None = None
    preference: float = 0.0
    words: Mapping[str, float] | None = None
    row: int = 0
    reranker_score: float | None = None


class Matches(list[Match]):
    """The results of one query, in order.

    total: how many documents, or groups, all pages have; None: all that match, in an order by vectors.
    is_counted: whether `total` is exact; else it is the least.
    evidence: if wanted, and there is any.
    """

    total: int | None = None
    is_counted: bool = True
    evidence: Evidence | None = None


@dataclass(frozen=True)
class ResultOptions:
    """What to return of the `top_k` best documents; nothing else is read.

    offset: number of best documents to skip.  limit: how many to return then; None: all.
    min_score: documents with a lower score are left out; what a query prefers does not count.
    group_by: field of which only the best document of each value counts.
    sort: the order of the `top_k` best; without a query of all.
    text, metadata, vector, words: whether to include them.
    passage: whether to find the best one, which needs the text.
    compared: how many of the nearest documents to compare with the first, as evidence; 0: none is wanted.
    max_chars: limit on all texts, metadata and vectors of a request; None: no limit.
    way_out: what a message then advises.
    timeout_s: for finding filters, keywords and passages, over all tries; None: no limit.
    """

    offset: int = 0
    limit: int | None = None
    group_by: str | None = None
    sort: tuple[SortField, ...] = ()
    min_score: float | None = None
    text: bool = True
    metadata: bool = True
    passage: bool = True
    vector: bool = False
    words: bool = False
    compared: int = 0
    max_chars: int | None = None
    way_out: str = (
        "send fewer queries, a smaller top_k, or leave text and vector out of include and ask for documents by id"
    )
    timeout_s: float | None = None


DEFAULTS = ResultOptions()


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """Which documents to list: at most `limit`, and about `max_chars` characters, after a row.

    filter_: only those that match.  timeout_s: as in `DocumentIndex.delete_matching`.
    truncated: only those whose text was cut.
    """

    after_row: int
    limit: int
    max_chars: int
    filter_: Filter | None = None
    timeout_s: float | None = None
    truncated: bool = False


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
    def has_keywords(self) -> bool:
        """Whether it can be searched by words."""

    def __len__(self) -> int: ...

    @property
    def last_change(self) -> int | None:
        """The revision of its last change; None: other processes may change it."""

    def content_bytes(self) -> int:
        """Return the bytes of all ids, texts and metadata. Reads every document."""

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

    def delete_matching(self, filter_: Filter, *, timeout_s: float | None = None) -> int:
        """Remove the documents that match a filter. Return their number.

        timeout_s: time limit for evaluating the filter in this process; None: no limit.
        """

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id."""

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return the documents of the ids, but for missing and damaged ones."""

    def vector(self, id_: str) -> Vectors | None:
        """Return a document's vector, (D,) of norm 1; of several passages their mean. None: no document has the id."""

    def passage_vectors(self, ids: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of each document's passages, in order, but for missing documents."""

    def page(self, request: PageRequest) -> Page:
        """Return the next documents in the order of first insertion."""

    def counts(
        self, fields: Sequence[str], *, most_values: int, filter_: Filter | None = None, timeout_s: float | None = None
    ) -> tuple[int, dict[str, Facet]]:
        """Count the documents that match a filter, also by each field's values, all of one moment.

        `timeout_s` as in `delete_matching`.
        """

    def search_all(
        self, queries: Sequence[Query], *, top_k: int, filter_: Filter | None = None, options: ResultOptions = DEFAULTS
    ) -> list[Matches]:
        """Return for each query the `top_k` best documents that match the filter: by score, ties by id.

        Raises: InvalidInput: the filter is malformed or takes too long, the results have too many characters, or a
                query has words where no keywords are kept.
                NotReady: another process changes the store.
        """

    @property
    def own_fields(self) -> OwnFields | None:
        """What it takes of documents with their own fields; None: documents have id, text and metadata."""

    def configure(self, own_fields: OwnFields | None) -> None:
        """Set `own_fields`, durably.

        Raises: Conflict: it has documents.  InvalidInput: the documents are where they have no fields of their own.
        """

    @property
    def recalibration(self) -> Recalibration | None:
        """How the confidence of its searches is changed; None: as the model says."""

    def recalibrate(self, recalibration: Recalibration | None) -> None:
        """Set `recalibration`, durably."""

    def is_chunked(self, wanted: bool | None) -> bool:
        """Whether to split new documents into passages. wanted: None: as the collection was made to."""

    def close(self) -> None:
        """Close files and connections."""
