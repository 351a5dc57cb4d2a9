"""Searches documents in Milvus: it finds rows; they become documents, groups and orders here, by the embedded code.

B queries, D dims
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

import numpy as np

from service.documents.arrangement import Ranked, groups_of, of_enough_groups
from service.documents.document import StoredDocument, Vectors, means_by_row
from service.documents.filters import Condition, Scalar, to_condition
from service.documents.interface import Filter, Match, Matches, Passage, Query, ResultOptions
from service.documents.milvus.fields import FieldsInMemory
from service.documents.milvus.filters import both, embedded_only, first_is, to_expression
from service.documents.milvus.rows import (
    FIELDS,
    PLACE,
    MilvusRow,
    chars_of,
    head_of,
    heads_among,
    listed,
    parts_of,
    to_document,
    to_vector,
)
from service.documents.milvus.table import MilvusTable, ScoredRows
from service.documents.search import CHARS_A_NUMBER, Hit, arranged, check_chars, is_filter_alone, page_in_order
from service.documents.store.store import NARROWER, Deadline
from service.errors import InvalidInput

MAX_ROWS = 16_384  # Milvus' maximum for one answer
MAX_READ = 16_000  # documents whose ids or metadata are read to arrange, count or decide
# Rows in a call, to stay far below Milvus' message limit of 64 MB: ids only, metadata, whole documents.
IDS_A_CALL, METADATA_A_CALL, DOCUMENTS_A_CALL = 1000, 500, 200
MORE_ROWS = 4  # factor by which to ask for more, until the rows are of enough documents


class Heads:
    """The heads of documents, read for one request."""

    def __init__(self, table: MilvusTable, deadline: Deadline) -> None:
        self._table = table
        self._deadline = deadline
        self._read: dict[str, MilvusRow] = {}

    def add(self, row: MilvusRow) -> None:
        """Keep what was read of a head."""
        self._read[row["head"]] = self._read.get(row["head"], {}) | row

    def get(self, head: str) -> MilvusRow | None:
        """Return what was read of a head; None: there is no such document."""
        return self._read.get(head)

    def matching(self, expression: str) -> list[str]:
        """Return the documents that match an expression, at most one more than may be read."""
        rows = self._table.rows(heads_among(expression), PLACE, limit=MAX_READ + 1)
        for row in rows:
            self.add(row)
        return [row["head"] for row in rows]

    def require(self, heads: Iterable[str], fields: Sequence[str]) -> None:
        """Read fields of heads that were not read. Raises: InvalidInput: the time is up."""
        missing = [head for head in dict.fromkeys(heads) if not self._read.get(head, {}).keys() >= {*fields}]
        size = DOCUMENTS_A_CALL if "text" in fields else METADATA_A_CALL if "metadata" in fields else IDS_A_CALL
        for part in parts_of(missing, size):
            if self._deadline.is_over:
                raise self._deadline.exceeded("reading what matches takes", NARROWER)
            for row in self._table.rows(listed("row", part), fields, limit=len(part)):
                self.add(row)


class MilvusSearch:
    """The searches of one request."""

    def __init__(self, table: MilvusTable, expression: str, *, top_k: int, options: ResultOptions) -> None:
        """expression: of the filter; empty: every document."""
        self._table = table
        self._expression = expression
        self._top_k = top_k
        self._options = options
        self._deadline = Deadline.after(options.timeout_s)
        self._heads = Heads(table, self._deadline)
        self._fields: FieldsInMemory = _Fields(table, expression, self._deadline)
        self._has_metadata = bool(options.group_by or options.sort)  # in `_fields`
        self._head_of: list[str] = []  # by the row in `_fields`
        self._row_of: dict[str, int] = {}
        self._documents: dict[str, StoredDocument] = {}
        self._vectors: dict[str, Vectors] = {}
        self._chars = 0

    def run(self, queries: Sequence[Query]) -> list[Matches]:
        """Make one search a query. Their first tries are one call.

        Raises: InvalidInput: something is asked that Milvus lacks, or too much.
        """
        _check(queries, self._top_k)
        self._has_metadata |= any(query.prefer is not None for query in queries)
        try:
            if any(map(is_filter_alone, queries)):
                return [self._listed(query) for query in queries]
            vectors_BD = np.asarray([query.vector_D for query in queries], np.float32)
            asked = min(self._top_k + 1 + any(query.without is not None for query in queries), MAX_ROWS)
            fields = self._fields_with(len(queries) * asked)
            hits_B = self._table.search(vectors_BD, fields=fields, limit=asked, expression=self._expression)
            return [self._found(query, hits, asked) for query, hits in zip(queries, hits_B, strict=True)]
        finally:
            self._fields.close()

    def _fields_with(self, rows: int) -> list[str]:
        """Return the fields to read of so many rows: a document's too, if the answer stays small."""
        if rows > DOCUMENTS_A_CALL:
            return [*PLACE, "id"]
        return self._wanted

    @property
    def _wanted(self) -> list[str]:
        unwanted = {"text": not self._options.text, "metadata": not (self._options.metadata or self._has_metadata)}
        return [name for name in FIELDS if not unwanted.get(name)]

    def _found(self, query: Query, hits: ScoredRows, asked: int) -> Matches:
        nearest_of: dict[str, MilvusRow] = {}  # the nearest row of each document

        def best(depth: int, among: str) -> Ranked:
            first = (hits, asked) if depth == self._top_k and among == self._expression else None
            return self._nearest(query, depth, among, first, nearest_of)

        def candidates(among: str) -> Ranked:
            field = self._options.group_by
            if field is None:
                return best(self._top_k, among)
            return of_enough_groups(self._fields, field, partial(best, among=among), wanted=self._top_k)

        dense = candidates(self._expression)
        found = [Hit(score, row, dense_rank=rank) for rank, (score, row) in enumerate(dense, 1)]
        preferred = np.empty(0, np.int64)
        if query.prefer is not None:
            wanted: Filter = {query.prefer.field: {"in": [*query.prefer.values]}}
            found += [Hit(score, row) for score, row in candidates(both(self._expression, to_expression(wanted).sure))]
            preferred = self._fields.matching(to_condition(wanted))
        page = arranged(self._fields, found, self._options, top_k=self._top_k, prefer=query.prefer, preferred=preferred)
        return Matches(self._matches(page, query, nearest_of))

    def _nearest(
        self,
        query: Query,
        depth: int,
        among: str,
        first: tuple[ScoredRows, int] | None,
        nearest_of: dict[str, MilvusRow],
    ) -> Ranked:
        """Return the nearest documents, ties by id. Ask again while rows are of too few, or the last one may tie.

        first: rows that were found, and how many were asked for.
        """
        wanted = depth + (query.without is not None)
        vector_BD = np.asarray([query.vector_D], np.float32)
        hits, asked = first or (None, min(wanted + 1, MAX_ROWS))
        while True:
            if hits is None:
                fields = self._fields_with(asked)
                (hits,) = self._table.search(vector_BD, fields=fields, limit=asked, expression=among)
            score_of = self._documents_of(hits, nearest_of)
            scores = list(score_of.values())
            is_enough = len(scores) > wanted and scores[wanted] < scores[wanted - 1]
            if is_enough or len(hits) < asked or asked == MAX_ROWS:
                break
            hits, asked = None, min(MORE_ROWS * asked, MAX_ROWS)
        own = None if query.without is None else head_of(query.without)
        ids = {head: nearest_of[head]["id"] for head in score_of}
        order = sorted(score_of, key=lambda head: (-score_of[head], ids[head]))[:wanted]
        order = [head for head in order if head != own][:depth]
        self._arrange_later(order, ids)
        # Rounding may leave a cosine just above 1.
        return [(min(max(score_of[head], -1.0), 1.0), self._row_of[head]) for head in order]

    def _documents_of(self, hits: ScoredRows, nearest_of: dict[str, MilvusRow]) -> dict[str, float]:
        """Return the score of each document of the rows found, best first.

        A row of another revision than its head is of an earlier text, or of a put that did not end.
        """
        for _, row in hits:
            if row["number"] == 0:
                self._heads.add(row)
        self._heads.require((row["head"] for _, row in hits), PLACE)
        score_of: dict[str, float] = {}
        for score, row in hits:
            head = self._heads.get(row["head"])
            if head is None or head["revision"] != row["revision"]:
                continue
            best = score_of.setdefault(row["head"], score)
            known = nearest_of.setdefault(row["head"], row)
            if score == best and row["number"] < known["number"]:
                nearest_of[row["head"]] = row  # of equal passages the first
        return score_of

    def _arrange_later(self, heads: Sequence[str], ids: dict[str, str]) -> None:
        """Add documents to those that can be arranged."""
        new = [head for head in heads if head not in self._row_of]
        if self._has_metadata:
            self._heads.require(new, [*PLACE, "metadata"])
        for head in new:
            self._row_of[head] = len(self._head_of)
            self._head_of.append(head)
            known = self._heads.get(head) or {}
            self._fields.add(self._row_of[head], ids[head], known.get("metadata", {}) if self._has_metadata else {})

    def _listed(self, query: Query) -> Matches:
        """Return the page of all documents that match the filter: in order, ties by id."""
        heads = self._heads.matching(self._expression)
        if len(heads) > MAX_READ:
            raise InvalidInput(
                f"more than {MAX_READ} documents match, the most that are sorted without a query where Milvus keeps "
                "them (CROSSLET_INDEX): send a narrower filter, or list documents by GET /documents?filter="
            )
        self._heads.require(heads, [*PLACE, "id"])
        ids = {head: row["id"] for head in heads if (row := self._heads.get(head)) is not None and "id" in row}
        self._fields.close()
        self._fields = FieldsInMemory(self._deadline)  # has all that match: groups are counted there
        self._arrange_later(list(ids), ids)
        rows, total = page_in_order(self._fields, None, self._options, top_k=self._top_k)
        matches = Matches(self._matches([Hit(0.0, row) for row in rows], query, {}))
        matches.total = total
        return matches

    def _matches(self, hits: Sequence[Hit], query: Query, nearest_of: dict[str, MilvusRow]) -> list[Match]:
        """Read the documents of hits; those deleted meanwhile are left out.

        Raises: InvalidInput: the documents have too many characters.
        """
        options = self._options
        self._read([self._head_of[hit.row] for hit in hits])
        known = [hit for hit in hits if self._head_of[hit.row] in self._documents]
        groups = {}
        if options.group_by is not None:
            groups = groups_of(self._fields, options.group_by, [hit.row for hit in known], condition=None)
        matches = []
        for hit in known:
            head = self._head_of[hit.row]
            document, row = self._documents[head], nearest_of.get(head)
            passage = None
            if row is not None and options.text and options.passage and row["number"] < len(document.passages):
                start, stop = document.passages[row["number"]]
                passage = Passage(document.text[start:stop], start, stop)
            matches.append(
                Match(
                    None if is_filter_alone(query) else hit.score,
                    document,
                    hit.dense_rank,
                    passage=passage,
                    vector_D=self._vectors.get(head),
                    group=groups.get(hit.row),
                    preference=hit.preference,
                    words={} if options.words else None,  # of keywords, which a search by vectors has none of
                )
            )
        return matches

    def _read(self, heads: Sequence[str]) -> None:
        options = self._options
        missing = [head for head in heads if head not in self._documents]
        self._heads.require(missing, self._wanted)
        for head in missing:
            row = self._heads.get(head) or {}
            if row.keys() >= {*self._wanted}:
                document = to_document(row)
                self._chars += chars_of(document, text=options.text, metadata=options.metadata)
                check_chars(self._chars, options)
                self._documents[head] = document
        if options.vector:
            for head, vector_D in vectors_of(
                self._table, [head for head in missing if head in self._documents]
            ).items():
                self._chars += CHARS_A_NUMBER * len(vector_D)
                check_chars(self._chars, options)
                self._vectors[head] = vector_D


class _Fields(FieldsInMemory):
    """The fields of the documents that were read. How many have a value, Milvus counts among all that match."""

    def __init__(self, table: MilvusTable, expression: str, deadline: Deadline) -> None:
        super().__init__(deadline)
        self._table = table
        self._expression = expression

    def count_by_first_value(
        self, field: str, values: Collection[Scalar], condition: Condition | None
    ) -> dict[Scalar, int]:
        """Count the documents with each first value that match the filter."""
        counts: dict[Scalar, int] = {}
        for kind, value in values:
            if self.deadline.is_over:
                raise self.deadline.exceeded("counting groups takes", "send a smaller top_k")
            counts[kind, value] = self._table.count(heads_among(both(self._expression, first_is(field, kind, value))))
        return counts


def vectors_of(table: MilvusTable, heads: Sequence[str]) -> dict[str, Vectors]:
    """Return each document's vector; of several passages their mean."""
    vectors: dict[str, Vectors] = {}
    for head, rows in rows_of_documents(table, heads, [*PLACE, "vector"]).items():
        if kept := current(rows):
            vectors_PD = np.stack([to_vector(row) for row in kept])
            vectors[head] = means_by_row(np.zeros(len(kept), np.int64), vectors_PD)[0]
    return vectors


def current(rows: Sequence[MilvusRow]) -> list[MilvusRow]:
    """Return a document's rows in order, without those of another revision than its head."""
    revisions = [row["revision"] for row in rows if row["number"] == 0]
    kept = [row for row in rows if row["revision"] in revisions]
    return sorted(kept, key=lambda row: row["number"])


def rows_of_documents(
    table: MilvusTable, heads: Sequence[str], fields: Sequence[str], *, is_latest: bool = False
) -> dict[str, list[MilvusRow]]:
    """Return all rows of documents, those of other revisions too. fields: PLACE and others."""
    found: dict[str, list[MilvusRow]] = {}
    size = DOCUMENTS_A_CALL if {"text", "vector"} & {*fields} else IDS_A_CALL
    for part in parts_of(list(dict.fromkeys(heads)), size):
        rows = table.rows(listed("head", part), fields, is_latest=is_latest, limit=MAX_ROWS)
        if len(rows) == MAX_ROWS and len(part) > 1:  # there may be others
            rows = []
            for half in (part[::2], part[1::2]):
                found |= rows_of_documents(table, half, fields, is_latest=is_latest)
        for row in rows:
            found.setdefault(row["head"], []).append(row)
    return found


def _check(queries: Sequence[Query], top_k: int) -> None:
    """Raises: InvalidInput: something is wanted that Milvus lacks."""
    if any(query.typing for query in queries):
        raise embedded_only("typing is for keywords, which are kept", "leave typing out")
    if any(query.words is not None for query in queries):
        raise embedded_only("keywords are kept", 'leave mode out, or send "dense"')
    if top_k > MAX_ROWS:
        raise InvalidInput(
            f"top_k is {top_k}; the limit is {MAX_ROWS} where Milvus keeps the documents (CROSSLET_INDEX)"
        )
