"""Documents on a Milvus server, with the guarantees of the embedded collection.

No state that these need is kept between calls: any number of service processes may share one Milvus.
N documents, D dims, B queries
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

import numpy as np

from service.documents.document import Document, Page, StoredDocument, Vectors
from service.documents.filters import Facet
from service.documents.interface import (
    DEFAULTS,
    DocumentIndex,
    Filter,
    Match,
    Matches,
    MetadataChange,
    PageRequest,
    Query,
    ResultOptions,
)
from service.documents.milvus.connection import MilvusConnection, ScoredRows
from service.documents.milvus.filters import embedded_only, selected, to_expression
from service.documents.milvus.rows import (
    FIELDS,
    MilvusRow,
    chars_of,
    ids_expression,
    is_storable_id,
    parts_of,
    to_document,
    to_row,
    to_vector,
)
from service.documents.own_fields import OwnFields
from service.documents.search import CHARS_A_NUMBER, check_chars, is_filter_alone, page_of
from service.errors import InvalidInput

MAX_ROWS = 16_384  # Milvus' maximum for one answer
# Rows in a call, to stay far below Milvus' message limit of 64 MB: ids only, whole documents, written rows.
IDS_A_CALL, DOCUMENTS_A_CALL, ROWS_A_CALL = 1000, 200, 128
MAX_DECIDED = 1000  # documents whose metadata are read to decide whether a filter matches
LATEST = 2**63 - 1


class MilvusIndex(DocumentIndex):
    """Documents and their vectors in one Milvus collection. See `DocumentIndex`."""

    backend = "milvus"
    size_bytes = 0  # the vectors are in Milvus' memory, not in this process
    own_fields = None

    def __init__(self, connection: MilvusConnection) -> None:
        self._milvus = connection
        self._last_us = 0  # revisions must grow even if the clock is set back

    def close(self) -> None:
        self._milvus.close()

    @property
    def recall(self) -> float | None:
        """1 on milvus-lite, which searches exhaustively; None on a server, whose index is not measured."""
        return 1.0 if self._milvus.is_exact else None

    def __len__(self) -> int:
        return self._milvus.count()

    def configure(self, own_fields: OwnFields | None) -> None:
        if own_fields is not None:
            raise embedded_only("collections have text and fields", "put documents with id, text and metadata")

    def is_chunked(self, wanted: bool | None) -> bool:
        if wanted:
            raise embedded_only("long documents are split into passages", "leave chunk out")
        return False  # a row of Milvus is a whole document

    def check_room(self, documents: Sequence[Document]) -> None:
        """Do nothing: Milvus refuses a write when it is full."""

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """A revision is in microseconds of this machine's clock.

        Raises: InvalidInput: a document exceeds Milvus' limits; nothing was changed.
                IndexUnavailable: part of the documents may be stored; repeat the same put to complete it.
        """
        ids = [document.id for document in documents]
        known = {row["id"]: row for row in self._rows_of(ids, ["id", "arrival", "revision"], is_latest=True)}
        # A document's revision grows whatever the clock says.
        last_seen = max((row["revision"] for row in known.values()), default=0)
        revision = max(time.time_ns() // 1000, self._last_us + 1, last_seen + 1)
        rows = [
            to_row(
                document,
                np.asarray(vector_D, np.float32),
                position=position,
                arrival=known[document.id]["arrival"] if document.id in known else revision + position,
                revision=revision,
            )
            for position, (document, vector_D) in enumerate(zip(documents, vectors_PD, strict=True))
        ]
        self._last_us = revision + len(rows)
        for part in parts_of(rows, ROWS_A_CALL):
            self._milvus.upsert(part)
        return revision

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """Of two changes at once, by two services, one may be lost."""
        row = next(self._rows_of([id_], [*FIELDS, "vector"], is_latest=True), None)
        if row is None:
            return None
        before = to_document(row)
        return self.put([Document(id_, before.text, change(dict(before.metadata)))], to_vector(row)[None])

    def delete(self, ids: Sequence[str]) -> int:
        return self._delete([row["id"] for row in self._rows_of(ids, ["id"], is_latest=True)])

    def delete_matching(self, filter_: Filter, *, timeout_s: float | None = None) -> int:
        """`timeout_s` is unused: Milvus limits itself."""
        expression, deleted = self._expression(filter_, is_latest=True), 0
        while rows := self._milvus.rows(expression, ["id"], is_latest=True, limit=MAX_ROWS):
            deleted += self._delete([row["id"] for row in rows])
        return deleted

    def get(self, id_: str) -> StoredDocument | None:
        return next((to_document(row) for row in self._rows_of([id_], FIELDS)), None)

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        return {row["id"]: to_document(row) for row in self._rows_of(ids, FIELDS)}

    def vector(self, id_: str) -> Vectors | None:
        return next((to_vector(row) for row in self._rows_of([id_], ["id", "vector"])), None)

    def page(self, request: PageRequest) -> Page:
        """Documents inserted in the same microsecond by two service processes are on the same page."""
        if request.truncated:
            raise embedded_only("truncated texts are known", "leave truncated out")
        limit = min(request.limit, MAX_ROWS // 10 - 1)
        expression = self._expression(request.filter_) if request.filter_ else ""
        heads, last_arrival = self._next(request.after_row, limit + 1, f"{expression} and " if expression else "")
        total = self._milvus.count(expression) if expression else None
        documents: list[StoredDocument] = []
        chars = 0
        for _, group in groupby(self._in_order(heads), key=lambda document: document.row):
            together = list(group)
            chars += sum(map(chars_of, together))
            if documents and (len(documents) + len(together) > limit or chars > request.max_chars):
                return Page(documents, next_row=documents[-1].row, total=total)
            documents += together
        return Page(documents, next_row=last_arrival, total=total)

    def counts(
        self, fields: Sequence[str], *, most_values: int, filter_: Filter | None = None, timeout_s: float | None = None
    ) -> tuple[int, dict[str, Facet]]:
        if fields:
            raise embedded_only(
                "facets are counted", "leave facets out, or send POST /documents/count with a filter for each value"
            )
        return self._milvus.count(self._expression(filter_) if filter_ else ""), {}

    def search_all(
        self, queries: Sequence[Query], *, top_k: int, filter_: Filter | None = None, options: ResultOptions = DEFAULTS
    ) -> list[Matches]:
        """Of many results, a document deleted before its text was read is left out.

        Raises: InvalidInput: `top_k` is more than Milvus gives.
        """
        _check_known(queries, options)
        if options.words:
            raise embedded_only("highlights are of keywords, which are kept", "leave highlights out of include")
        vectors_BD = _vectors_of(queries)
        if top_k > MAX_ROWS:
            raise InvalidInput(
                f"top_k is {top_k}; the limit is {MAX_ROWS} where Milvus keeps the documents (CROSSLET_INDEX)"
            )
        expression = self._expression(filter_) if filter_ else ""  # {} selects everything
        spare = any(query.without is not None for query in queries)
        asked = min(top_k + spare + 1, MAX_ROWS)  # one more: shows whether the last one ties with the next
        # Read texts in the same call if the answer stays small.
        wanted = [name for name in (*FIELDS, "vector") if getattr(options, name, True)]
        fields = wanted if asked * len(vectors_BD) <= DOCUMENTS_A_CALL else ["id"]
        hits_B = self._milvus.search(vectors_BD, fields=fields, limit=asked, expression=expression)
        best_B = [
            page_of(self._best(hits, query, top_k + spare, expression)[:top_k], options)
            for hits, query in zip(hits_B, queries, strict=True)
        ]
        if (least := options.min_score) is not None:
            best_B = [[hit for hit in best if hit[0] >= least] for best in best_B]
        read = self._read({row["id"]: row for best in best_B for _, row in best}, wanted, options)
        return [
            Matches(
                Match(score, read[id_][0], vector_D=read[id_][1]) for score, row in best if (id_ := row["id"]) in read
            )
            for best in best_B
        ]

    def _read(
        self, rows: Mapping[str, MilvusRow], fields: Sequence[str], options: ResultOptions
    ) -> dict[str, tuple[StoredDocument, Vectors | None]]:
        """Return the documents of hits, by id, with their vectors if wanted; read what the search has not read."""
        heads = [id_ for id_, row in rows.items() if "arrival" not in row]
        documents: dict[str, tuple[StoredDocument, Vectors | None]] = {}
        chars = 0
        for row in chain((row for row in rows.values() if "arrival" in row), self._rows_of(heads, fields)):
            document, vector_D = to_document(row), to_vector(row) if options.vector else None
            chars += chars_of(document) + (0 if vector_D is None else CHARS_A_NUMBER * len(vector_D))
            check_chars(chars, options)
            documents[document.id] = document, vector_D
        return documents

    def _best(self, hits: ScoredRows, query: Query, top_k: int, expression: str) -> ScoredRows:
        """Return the first `top_k` by score and id, but for the query's own. Ask again while the last one may tie."""
        asked = top_k + 1
        while len(hits) >= asked and hits[-1][0] == hits[top_k - 1][0] and asked < MAX_ROWS:
            asked = min(2 * asked, MAX_ROWS)
            (hits,) = self._milvus.search(_vectors_of([query]), fields=["id"], limit=asked, expression=expression)
        best = sorted(hits, key=lambda hit: (-hit[0], hit[1]["id"]))[:top_k]
        others = [(score, row) for score, row in best if row["id"] != query.without]
        return [(min(max(score, -1.0), 1.0), row) for score, row in others]  # rounding may leave a cosine just above 1

    def _delete(self, ids: Sequence[str]) -> int:
        for part in parts_of(ids, IDS_A_CALL):
            self._milvus.delete(ids_expression(part))
        return len(ids)

    def _rows_of(self, ids: Sequence[str], fields: Sequence[str], *, is_latest: bool = False) -> Iterator[MilvusRow]:
        """Yield the rows of the ids that exist, each once, unordered."""
        storable = [id_ for id_ in dict.fromkeys(ids) if is_storable_id(id_)]
        for part in parts_of(storable, DOCUMENTS_A_CALL if {"text", "metadata"} & {*fields} else IDS_A_CALL):
            yield from self._milvus.rows(ids_expression(part), fields, is_latest=is_latest, limit=len(part))

    def _in_order(self, ids: Sequence[str]) -> Iterator[StoredDocument]:
        """Yield documents in the order of the given ids, read lazily."""
        for part in parts_of(ids, DOCUMENTS_A_CALL):
            found = {row["id"]: to_document(row) for row in self._rows_of(part, FIELDS)}
            yield from (found[id_] for id_ in part if id_ in found)

    def _expression(self, filter_: Filter, *, is_latest: bool = False) -> str:
        """Return the expression for the documents that match a filter now.

        Raises: InvalidInput: the filter is malformed, or the metadata of too many documents would have to be read.
        """
        rows = to_expression(filter_)
        if not rows.unsure:
            return rows.sure
        unsure = [
            row["id"] for row in self._milvus.rows(rows.unsure, ["id"], is_latest=is_latest, limit=MAX_DECIDED + 1)
        ]
        if len(unsure) > MAX_DECIDED:
            raise InvalidInput(
                f"the filter's range with two bounds lies within the lists of more than {MAX_DECIDED} documents, the "
                "most whose metadata are read where Milvus keeps them (CROSSLET_INDEX): narrow it by other fields, or "
                "send 'in' with the values"
            )
        matching: list[str] = []
        for part in parts_of(unsure, DOCUMENTS_A_CALL):
            metadata = {
                row["id"]: row["metadata"] for row in self._rows_of(part, ["id", "metadata"], is_latest=is_latest)
            }
            matching += selected(filter_, metadata)
        return f"({rows.sure} or {ids_expression(matching)})" if matching else rows.sure

    def _next(self, after: int, wanted: int, selected: str) -> tuple[list[str], int | None]:
        """Return the ids of the next documents, at least `wanted` if there are as many, and the last one's arrival.

        An arrival of None means that no documents follow. selected: an expression to begin with, may be empty.

        Milvus does not sort rows: the interval of arrivals is narrowed until it holds few enough rows to sort here.
        """
        most, low, high = 10 * wanted, after, LATEST
        while True:
            window = f"{selected}arrival > {after} and arrival <= "
            rows = self._milvus.rows(f"{window}{high}", ["id", "arrival"], limit=most)
            rows.sort(key=lambda row: (row["arrival"], row["id"]))
            if len(rows) < most or high - low <= 1:
                return [row["id"] for row in rows], None if high == LATEST else high
            high = rows[wanted - 1]["arrival"]  # at least `wanted` rows arrived by then
            middle = (low + high) // 2
            if self._milvus.count(f"{window}{middle}") >= wanted:
                high = middle
            else:
                low = middle


def _vectors_of(queries: Sequence[Query]) -> Vectors:
    """Return the queries' vectors, (B, D) float32. Raises: InvalidInput: a query has words."""
    vectors = [query.vector_D for query in queries if query.words is None and query.vector_D is not None]
    if any(query.typing for query in queries):
        raise embedded_only("typing is for keywords, which are kept", "leave typing out")
    if len(vectors) < len(queries):
        raise embedded_only("keywords are kept", 'leave mode out, or send "dense"')
    return np.asarray(vectors, np.float32)


def _check_known(queries: Sequence[Query], options: ResultOptions) -> None:
    """Raises: InvalidInput: something is wanted that Milvus lacks."""
    if options.group_by is not None:
        raise embedded_only("results are grouped", "leave group_by out")
    if options.sort:
        raise embedded_only("results are sorted", "leave sort out")
    if any(query.prefer is not None for query in queries):
        raise embedded_only("documents are preferred", "leave prefer out")
    if any(map(is_filter_alone, queries)):
        raise embedded_only("a search has a filter alone", "send a query, or list documents by GET /documents?filter=")
