"""Documents on a Milvus server, with the guarantees of the embedded collection.

Of what these need only counts of words are kept between calls: any number of services may share one Milvus.
P passages, D dims
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby

import numpy as np

from service.documents.document import Document, Page, StoredDocument, Vectors, bytes_of
from service.documents.filters import Facet, to_condition
from service.documents.interface import (
    DEFAULTS,
    DocumentIndex,
    Filter,
    Matches,
    MetadataChange,
    PageRequest,
    Query,
    ResultOptions,
)
from service.documents.milvus.configurations import Configurations
from service.documents.milvus.filters import both, to_expression
from service.documents.milvus.keywords import MilvusKeywords
from service.documents.milvus.rows import (
    FIELDS,
    MARK,
    MAX_ROWS,
    PLACE,
    chars_of,
    head_of,
    heads_among,
    listed,
    parts_of,
    to_document,
    to_mark,
    to_rows,
    to_vector,
)
from service.documents.milvus.search import (
    DOCUMENTS_A_CALL,
    IDS_A_CALL,
    MAX_READ,
    METADATA_A_CALL,
    FieldsInMemory,
    MilvusSearch,
    current,
    rows_of_documents,
    vectors_of,
)
from service.documents.milvus.table import LATEST, WINDOW, MilvusTable
from service.documents.own_fields import OwnFields, configured_late
from service.documents.recalibration import Recalibration
from service.documents.store.store import Deadline
from service.errors import Conflict, InvalidInput

TRIES = 8  # of a change that meets those of other services
WAIT_S = (0.1, 0.4)  # between them, times how many there were
MARK_S = 60
ROWS_A_CALL = 128  # to stay far below Milvus' message limit of 64 MB
MAX_COUNTED_CHARS = 4_000_000  # of a page, while bytes are counted


class MilvusIndex(DocumentIndex):
    """The documents and vectors of one collection, in one of Milvus. See `DocumentIndex`."""

    backend = "milvus"
    size_bytes = 0  # the vectors are in Milvus' memory, not in this process

    def __init__(self, table: MilvusTable, configurations: Configurations) -> None:
        self.table = table
        self._configurations = configurations
        self.keywords = MilvusKeywords(table)
        self._last_us = 0  # revisions must grow even if the clock is set back

    def close(self) -> None:
        self.keywords.close()
        self.table.connection.close()

    @property
    def recall(self) -> float | None:
        """1 on milvus-lite, which searches exhaustively; None on a server, whose index is not measured."""
        return 1.0 if self.table.connection.is_lite else None

    @property
    def has_keywords(self) -> bool:
        """Known once it is open."""
        return self.table.has_terms

    def __len__(self) -> int:
        return self.table.count(heads_among())

    @property
    def own_fields(self) -> OwnFields | None:
        return self._configurations.own_fields(self.table.name)

    def configure(self, own_fields: OwnFields | None) -> None:
        if own_fields == self.own_fields:
            return
        if documents := len(self):
            raise configured_late(documents)
        self._configurations.set(self.table.name, own_fields, self._configurations.recalibration(self.table.name))

    @property
    def recalibration(self) -> Recalibration | None:
        return self._configurations.recalibration(self.table.name)

    def recalibrate(self, recalibration: Recalibration | None) -> None:
        self._configurations.set(self.table.name, self.own_fields, recalibration)

    def is_chunked(self, wanted: bool | None) -> bool:
        return wanted is not False

    last_change = None

    def content_bytes(self) -> int:
        """Documents that other services add meanwhile may be missing."""
        size_bytes, row = 0, 0
        while True:
            page = self.page(PageRequest(after_row=row, limit=MAX_ROWS, max_chars=MAX_COUNTED_CHARS))
            size_bytes += sum(map(bytes_of, page.documents))
            if page.next_row is None:
                return size_bytes
            row = page.next_row

    def check_room(self, documents: Sequence[Document]) -> None:
        """Do nothing: Milvus refuses a write when it is full."""

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """A revision is in microseconds of this machine's clock.

        Raises: InvalidInput: a document exceeds Milvus' limits; nothing was changed.
                IndexUnavailable: part of the documents may be stored; repeat the same put to complete it.
        """
        ids = [head_of(document.id) for document in documents]
        stored = rows_of_documents(self.table, ids, [*PLACE, "arrival"], is_latest=True)
        known = {head: row for head, rows in stored.items() for row in rows if row["number"] == 0}
        # A document's revision grows whatever the clock says.
        last_seen = max((row["revision"] for rows in stored.values() for row in rows), default=0)
        revision = max(time.time_ns() // 1000, self._last_us + 1, last_seen + 1)
        heads, passages, start = [], [], 0
        for position, document in enumerate(documents):
            vectors_of_document = vectors_PD[start : start + len(document.spans)]
            start += len(document.spans)
            before = known.get(ids[position])
            arrival = before["arrival"] if before else revision + position
            head, others = to_rows(
                document,
                vectors_of_document,
                position=position,
                arrival=arrival,
                revision=revision,
                has_terms=self.table.has_terms,
            )
            heads.append(head)
            passages += others
        self._last_us = revision + len(documents)
        for part in (*parts_of(passages, ROWS_A_CALL), *parts_of(heads, ROWS_A_CALL)):  # heads last: then all is there
            self.table.upsert(part)
        self._remove([row["row"] for rows in stored.values() for row in rows if 0 < row["number"] < MARK])
        self.keywords.put(documents, heads)
        return revision

    def update_metadata(self, id_: str, change: MetadataChange) -> int | None:
        """As `DocumentIndex`. Raises: Conflict: as `changing`."""
        head = head_of(id_)
        with self.changing(id_):
            fields = [*FIELDS, "truncated", "vector"]
            rows = current(rows_of_documents(self.table, [head], fields, is_latest=True).get(head, []))
            if not rows:
                return None
            before, is_truncated = to_document(rows[0]), bool(rows[0]["truncated"])
            after = Document(id_, before.text, change(dict(before.metadata)), before.passages, is_truncated)
            return self.put([after], np.stack([to_vector(row) for row in rows]))

    @contextmanager
    def changing(self, id_: str) -> Iterator[None]:
        """Keep other services from changing a document after what they read of it; puts and deletes do not wait.

        Milvus has no conditional write, so each leaves a mark, and then looks for others' marks. Of two at once at
        least one sees the other's: it takes its own away and tries again. A mark that a dead service left counts for
        `MARK_S`.

        Raises: Conflict: others change it all the time.
        """
        head = head_of(id_)
        self.table.ensure_open()  # says whether a row has terms
        for tried in range(TRIES):
            mark = to_mark(head, self.table.dim, time.time_ns() // 1000, has_terms=self.table.has_terms)
            self.table.upsert([mark])
            try:
                among = f"{listed('head', [head])} and number == {MARK}"
                marks = self.table.rows(among, ["row", "arrival"], is_latest=True, limit=MAX_ROWS)
                since = mark["arrival"] - MARK_S * 1_000_000
                self._remove([row["row"] for row in marks if row["arrival"] < since])
                if not any(row["row"] != mark["row"] and row["arrival"] >= since for row in marks):
                    yield
                    return
            finally:
                self._remove([mark["row"]])
            time.sleep(random.uniform(*WAIT_S) * (tried + 1))  # noqa: S311 - so that both do not meet again
        raise Conflict("other services change the document all the time; send the change again")

    def delete(self, ids: Sequence[str]) -> int:
        return self._delete([head_of(id_) for id_ in ids])

    def delete_matching(self, filter_: Filter, *, timeout_s: float | None = None) -> int:
        expression = heads_among(self._expression(filter_, is_latest=True, deadline=Deadline.after(timeout_s)))
        deleted = 0
        while rows := self.table.rows(expression, ["head"], is_latest=True, limit=MAX_ROWS):
            deleted += self._delete([row["head"] for row in rows])
        return deleted

    def get(self, id_: str) -> StoredDocument | None:
        return self._documents_of([head_of(id_)]).get(head_of(id_))

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        """The latest: what is stored as it is will not be put."""
        documents = self._documents_of([head_of(id_) for id_ in ids], is_latest=True)
        return {document.id: document for document in documents.values()}

    def vector(self, id_: str) -> Vectors | None:
        return vectors_of(self.table, [head_of(id_)]).get(head_of(id_))

    def passage_vectors(self, ids: Sequence[str]) -> dict[str, Vectors]:
        rows_of = rows_of_documents(self.table, [head_of(id_) for id_ in ids], [*PLACE, "id", "vector"])
        kept = [rows for stored in rows_of.values() if (rows := current(stored))]
        return {rows[0]["id"]: np.stack([to_vector(row) for row in rows]) for rows in kept}

    def page(self, request: PageRequest) -> Page:
        """Documents inserted in the same microsecond by two service processes are on the same page."""
        limit = min(request.limit, MAX_ROWS // WINDOW - 1)
        deadline = Deadline.after(request.timeout_s)
        expression = self._expression(request.filter_, deadline=deadline) if request.filter_ else ""
        if request.truncated:
            expression = both(expression, "truncated == 1")
        after, among = request.after_row, heads_among(expression)
        rows, last = next(self.table.windows(among, ["row", "id"], by="arrival", after=after, wanted=limit + 1))
        heads = [row["row"] for row in sorted(rows, key=lambda row: (row["arrival"], row["id"]))]
        total = self.table.count(among) if expression else None
        documents: list[StoredDocument] = []
        chars = 0
        for part in parts_of(heads, DOCUMENTS_A_CALL):
            found = self._documents_of(part)
            in_order = [found[head] for head in part if head in found]
            for _, group in groupby(in_order, key=lambda document: document.row):
                together = list(group)
                chars += sum(map(chars_of, together))
                if documents and (len(documents) + len(together) > limit or chars > request.max_chars):
                    return Page(documents, next_row=documents[-1].row, total=total)
                documents += together
        return Page(documents, next_row=None if last == LATEST else last, total=total)

    def counts(
        self, fields: Sequence[str], *, most_values: int, filter_: Filter | None = None, timeout_s: float | None = None
    ) -> tuple[int, dict[str, Facet]]:
        """Values are counted of the first MAX_READ documents that match."""
        deadline = Deadline.after(timeout_s)
        expression = heads_among(self._expression(filter_, deadline=deadline) if filter_ else "")
        count = self.table.count(expression)
        if not fields:
            return count, {}
        heads = [row["row"] for row in self.table.rows(expression, ["row"], limit=MAX_READ)]
        with closing(FieldsInMemory(deadline)) as reader:
            self._load(reader, heads)
            is_counted = count <= MAX_READ
            facets = {field: reader.facet(field, most_values=most_values) for field in fields}
        return count, {field: Facet(facet.counts, facet.is_cut, is_counted) for field, facet in facets.items()}

    def search_all(
        self, queries: Sequence[Query], *, top_k: int, filter_: Filter | None = None, options: ResultOptions = DEFAULTS
    ) -> list[Matches]:
        """Of many results, a document deleted before its text was read is left out.

        Raises: InvalidInput: `top_k` is more than Milvus gives.
        """
        expression = ""
        if filter_:  # {} selects everything
            expression = self._expression(filter_, deadline=Deadline.after(options.timeout_s))
        return MilvusSearch(self.table, self.keywords, expression, top_k=top_k, options=options).run(queries)

    def _delete(self, heads: Sequence[str]) -> int:
        """Remove documents with all their rows, heads first: without them the others count for nothing."""
        stored = rows_of_documents(self.table, heads, PLACE, is_latest=True)
        rows = sorted((row for rows in stored.values() for row in rows), key=lambda row: row["number"])
        self._remove([row["row"] for row in rows])
        self.keywords.remove(heads)
        return sum(row["number"] == 0 for row in rows)

    def _remove(self, rows: Sequence[str]) -> None:
        for part in parts_of(rows, IDS_A_CALL):
            self.table.delete(listed("row", part))

    def _documents_of(self, heads: Sequence[str], *, is_latest: bool = False) -> dict[str, StoredDocument]:
        documents: dict[str, StoredDocument] = {}
        for part in parts_of(list(dict.fromkeys(heads)), DOCUMENTS_A_CALL):
            for row in self.table.rows(listed("row", part), FIELDS, is_latest=is_latest, limit=len(part)):
                documents[row["row"]] = to_document(row)
        return documents

    def _expression(self, filter_: Filter, *, deadline: Deadline, is_latest: bool = False) -> str:
        """Return the expression for the documents that match a filter now.

        Raises: InvalidInput: the filter is malformed, or the metadata of too many documents would have to be read.
        """
        rows = to_expression(filter_)
        if not rows.unsure:
            return rows.sure
        unsure = [
            row["row"]
            for row in self.table.rows(heads_among(rows.unsure), ["row"], is_latest=is_latest, limit=MAX_READ + 1)
        ]
        if len(unsure) > MAX_READ:
            raise InvalidInput(
                f"the filter has 'contains', or a range with two bounds within lists, and more than {MAX_READ} "
                "documents may match, the most whose metadata are read where Milvus keeps them (CROSSLET_INDEX): "
                "narrow it by other fields, or send 'in' with the values"
            )
        with closing(FieldsInMemory(deadline)) as reader:
            heads = self._load(reader, unsure, is_latest=is_latest)
            matching = [heads[row] for row in reader.matching(to_condition(filter_)).tolist()]
        return f"({rows.sure} or {listed('head', matching)})" if matching else rows.sure

    def _load(self, reader: FieldsInMemory, heads: Sequence[str], *, is_latest: bool = False) -> list[str]:
        """Add the fields of documents to the reader. Return the heads by row. Raises: InvalidInput: the time is up."""
        loaded: list[str] = []
        for part in parts_of(heads, METADATA_A_CALL):
            if reader.deadline.is_over:
                raise reader.deadline.exceeded("reading the metadata takes", "send a narrower filter")
            fields = ["row", "id", "metadata"]
            for row in self.table.rows(listed("row", part), fields, is_latest=is_latest, limit=len(part)):
                reader.add(len(loaded), row["id"], row["metadata"])
                loaded.append(row["row"])
        return loaded
