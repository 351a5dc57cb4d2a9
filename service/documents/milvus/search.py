"""Searches documents in Milvus: it finds rows; they become documents, groups and orders here, by the embedded code.

B queries, D dims
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from service.documents.arrangement import Ranked
from service.documents.document import Rows, StoredDocument, Vectors, means_by_row
from service.documents.filters import Condition, Scalar, caseless, field_rows, to_condition
from service.documents.interface import Matches, Passage, Query, ResultOptions
from service.documents.keywords.index import KeywordHits
from service.documents.milvus.filters import both, first_is, to_expression
from service.documents.milvus.keywords import MilvusKeywords
from service.documents.milvus.rows import (
    FIELDS,
    MAX_ROWS,
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
from service.documents.search import (
    CHARS_A_NUMBER,
    DEPTH,
    Contents,
    Hit,
    Results,
    best_passage,
    candidates_of,
    check_chars,
    is_filter_alone,
)
from service.documents.store.schema import DEFAULT
from service.documents.store.schema import FIELDS as FIELDS_TABLE
from service.documents.store.store import NARROWER, NO_DEADLINE, Deadline, FieldReader
from service.errors import InvalidInput

MAX_READ = 16_000  # documents whose ids or metadata are read to arrange, count or decide
# Rows in a call, to stay far below Milvus' message limit of 64 MB: ids only, metadata, whole documents.
IDS_A_CALL, METADATA_A_CALL, DOCUMENTS_A_CALL = 1000, 500, 200
MORE_ROWS = 4  # factor by which to ask for more, until the rows are of enough documents


class FieldsInMemory(FieldReader):
    """The fields of documents from Milvus in SQLite, in memory: the embedded code filters, orders and counts them."""

    def __init__(self, deadline: Deadline = NO_DEADLINE) -> None:
        super().__init__(sqlite3.connect(":memory:", check_same_thread=False), DEFAULT, deadline)
        self._connection.create_function("caseless", 1, caseless, deterministic=True)  # of filters
        columns = "row INTEGER PRIMARY KEY, collection INTEGER NOT NULL, id TEXT NOT NULL"
        self._connection.executescript(f"CREATE TABLE documents ({columns});{FIELDS_TABLE}")

    def add(self, row: int, id_: str, metadata: Mapping[str, object]) -> None:
        """Add a document."""
        self._connection.execute("INSERT INTO documents VALUES (?, ?, ?)", (row, DEFAULT, id_))
        fields = ((DEFAULT, *field, row) for field in field_rows(metadata))
        self._connection.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)", fields)

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()


class Heads(dict[str, MilvusRow]):
    """What was read of the heads of documents for one request."""

    def __init__(self, table: MilvusTable, deadline: Deadline) -> None:
        super().__init__()
        self._table = table
        self._deadline = deadline

    def add(self, row: MilvusRow) -> None:
        """Keep what was read of a head."""
        self[row["head"]] = self.get(row["head"], {}) | row

    def matching(self, expression: str) -> list[str]:
        """Return the documents that match an expression, at most one more than may be read."""
        rows = self._table.rows(heads_among(expression), PLACE, limit=MAX_READ + 1)
        for row in rows:
            self.add(row)
        return [row["head"] for row in rows]

    def require(self, heads: Iterable[str], fields: Sequence[str]) -> None:
        """Read fields of heads that were not read. Raises: InvalidInput: the time is up."""
        missing = [head for head in dict.fromkeys(heads) if not self.get(head, {}).keys() >= {*fields}]
        size = DOCUMENTS_A_CALL if "text" in fields else METADATA_A_CALL if "metadata" in fields else IDS_A_CALL
        for part in parts_of(missing, size):
            if self._deadline.is_over:
                raise self._deadline.exceeded("reading what matches takes", NARROWER)
            for row in self._table.rows(listed("row", part), fields, limit=len(part)):
                self.add(row)


class MilvusSearch:
    """The searches of one request."""

    def __init__(
        self, table: MilvusTable, keywords: MilvusKeywords, expression: str, *, top_k: int, options: ResultOptions
    ) -> None:
        """expression: of the filter; empty: every document."""
        self._table = table
        self._keywords = keywords
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
        self._stored: dict[str, list[MilvusRow]] = {}
        self._chars = 0

    def run(self, queries: Sequence[Query]) -> list[Matches]:
        """Make one search a query. Their first tries are one call.

        Raises: InvalidInput: something is asked that Milvus lacks, or too much.
        """
        self._check(queries)
        self._has_metadata |= any(query.prefer is not None for query in queries)
        try:
            if any(map(is_filter_alone, queries)):
                return [self._listed(query) for query in queries]
            if any(query.vector_D is None for query in queries):
                return [self._found(query, [], 0) for query in queries]
            vectors_BD = np.asarray([query.vector_D for query in queries], np.float32)
            asked = min(self._depth(queries[0]) + 1 + any(query.without is not None for query in queries), MAX_ROWS)
            fields = self._fields_with(len(queries) * asked)
            hits_B = self._table.search(vectors_BD, fields=fields, limit=asked, expression=self._expression)
            return [self._found(query, hits, asked) for query, hits in zip(queries, hits_B, strict=True)]
        finally:
            self._fields.close()

    @cached_property
    def _searched(self) -> int:
        """The number of documents that match the filter."""
        return self._table.count(heads_among(self._expression))

    def _check(self, queries: Sequence[Query]) -> None:
        """Raises: InvalidInput: something is wanted that Milvus lacks."""
        if any(query.words is not None for query in queries):
            self._table.check_terms()
        if self._top_k > MAX_ROWS:
            raise InvalidInput(
                f"top_k is {self._top_k}; the limit is {MAX_ROWS} where Milvus keeps the documents (CROSSLET_INDEX)"
            )

    def _fields_with(self, rows: int) -> list[str]:
        """Return the fields to read of so many rows: a document's too, if the answer stays small."""
        if rows > DOCUMENTS_A_CALL:
            return [*PLACE, "id"]
        return self._wanted

    @property
    def _wanted(self) -> list[str]:
        unwanted = {"text": not self._options.text, "metadata": not (self._options.metadata or self._has_metadata)}
        return [name for name in FIELDS if not unwanted.get(name)]

    def _depth(self, query: Query) -> int:
        """Return how many results of each kind are looked for: more where both are fused, or the nearest compared."""
        is_deep = query.words is not None or self._options.compared > 0
        return max(self._top_k, DEPTH) if is_deep and query.vector_D is not None else self._top_k

    def _found(self, query: Query, hits: ScoredRows, asked: int) -> Matches:
        """Find the documents of one query. hits: the nearest rows, and how many were asked for."""
        nearest_of: dict[str, MilvusRow] = {}  # the nearest row of each document
        prefer, among, wanted = query.prefer, [self._expression], self._depth(query)
        if prefer is not None:
            among.append(both(self._expression, to_expression(prefer.filter_).sure))

        def best(depth: int, among: str) -> Ranked:
            first = (hits, asked) if asked and depth == wanted and among == self._expression else None
            return self._nearest(query, depth, among, first, nearest_of)

        dense = (
            None if query.vector_D is None else candidates_of(self._fields, best, among, self._options, wanted=wanted)
        )
        return self._results(query, nearest_of).fused(
            dense,
            None if query.words is None else self._by_words(query.words, query, among),
            preferred=np.empty(0, np.int64) if prefer is None else self._fields.matching(to_condition(prefer.filter_)),
            cosines_of=partial(self._cosines, nearest_of),
            searched=lambda: self._searched,
            text_of=self._text,
            vectors_of=self._vectors_of_passages,
        )

    def _results(self, query: Query, nearest_of: dict[str, MilvusRow]) -> Results:
        read = partial(self._read, query, nearest_of)
        return Results(self._fields, query, self._options, self._top_k, None, read)

    def _by_words(self, words: str, query: Query, among: Sequence[str]) -> KeywordHits:
        """Find documents by their terms. among: expressions; the first is of all."""
        wanted = self._keywords.wanted(words, typing=query.typing)
        fields = [*PLACE, "id", *(["metadata"] if self._has_metadata else [])]
        found: dict[str, MilvusRow] = {}
        is_complete = True
        for expression in among:
            rows, is_all = self._keywords.find(wanted, fields=fields, among=expression, top_k=self._depth(query))
            is_complete &= is_all or expression != among[0]
            found |= {row["head"]: row for row in rows}
        for row in found.values():
            self._heads.add(row)
        self._arrange_later(list(found), {head: row["id"] for head, row in found.items()})
        rows_N = np.array([self._row_of[head] for head in found], np.int64)
        hits = wanted.hits([row["terms"] for row in found.values()], rows_N)
        return replace(hits, is_complete=hits.is_complete and is_complete)

    def _cosines(
        self, nearest_of: dict[str, MilvusRow], rows: Collection[int], vector_D: Vectors
    ) -> tuple[Rows, Vectors]:
        """Return the rows that exist, with the cosine of each one's best passage."""
        heads = [self._head_of[row] for row in sorted(rows)]
        cosines: dict[int, float] = {}
        for head, rows_P in self._passages_of(heads).items():
            cosine_P = np.einsum("pd,d->p", np.stack([to_vector(row) for row in rows_P]), vector_D)
            cosines[self._row_of[head]] = float(cosine_P.max())
            nearest_of[head] = rows_P[int(cosine_P.argmax())]
        return np.array(list(cosines), np.int64), np.array(list(cosines.values()), np.float32)

    def _passages_of(self, heads: Sequence[str]) -> dict[str, list[MilvusRow]]:
        """Return the rows of documents with their vectors; each is read once for all queries of the request."""
        missing = [head for head in heads if head not in self._stored]
        read = rows_of_documents(self._table, missing, [*PLACE, "vector"]) if missing else {}
        self._stored |= {head: current(read.get(head, [])) for head in missing}
        return {head: self._stored[head] for head in heads if self._stored[head]}

    def _text(self, row: int) -> str:
        self._heads.require([self._head_of[row]], [*PLACE, "text"])
        return str((self._heads.get(self._head_of[row]) or {}).get("text", ""))

    def _vectors_of_passages(self, rows: Sequence[int]) -> tuple[Rows, Vectors]:
        """Return each passage's row and vector, by row, then as in the document."""
        heads = [self._head_of[row] for row in sorted(rows)]
        passages_of = self._passages_of(heads)
        kept = [(self._row_of[head], row) for head in heads for row in passages_of.get(head, [])]
        vectors_PD = np.stack([to_vector(row) for _, row in kept]) if kept else np.empty((0, 0), np.float32)
        return np.array([row for row, _ in kept], np.int64), vectors_PD

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
        return self._results(query, {}).in_order()

    def _passages(
        self, hits: Sequence[Hit], query: Query, nearest_of: dict[str, MilvusRow], by_words: KeywordHits
    ) -> dict[int, Passage]:
        """Return the best passage of each document that has several: by vectors alone the nearest row."""
        passages: dict[int, Passage] = {}
        split = {
            self._head_of[hit.row]: hit for hit in hits if self._documents[self._head_of[hit.row]].passages
        }  # by head
        if query.words is None:
            for head, hit in split.items():
                document, row = self._documents[head], nearest_of.get(head)
                if row is not None and row["number"] < len(document.passages):
                    start, stop = document.passages[row["number"]]
                    passages[hit.row] = Passage(document.text[start:stop], start, stop)
            return passages
        for head, kept in self._passages_of([*split]).items():
            document, hit = self._documents[head], split[head]
            if len(kept) == len(document.passages):
                has_words = query.vector_D is None or hit.keywords_rank is not None
                terms = by_words.terms if has_words else {}
                vectors_PD = np.stack([to_vector(row) for row in kept])
                passages[hit.row] = best_passage(document.text, document.passages, vectors_PD, query.vector_D, terms)
        return passages

    def _read(
        self, query: Query, nearest_of: dict[str, MilvusRow], hits: Sequence[Hit], by_words: KeywordHits
    ) -> Contents:
        """Read the documents of hits; some may be deleted meanwhile.

        Raises: InvalidInput: the documents have too many characters.
        """
        options, head_of_row = self._options, {hit.row: self._head_of[hit.row] for hit in hits}
        missing = [head for head in head_of_row.values() if head not in self._documents]
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
        documents = {row: self._documents[head] for row, head in head_of_row.items() if head in self._documents}
        vectors = {row: self._vectors[head] for row, head in head_of_row.items() if head in self._vectors}
        passages = {}
        if options.text and options.passage and not is_filter_alone(query):
            passages = self._passages([hit for hit in hits if hit.row in documents], query, nearest_of, by_words)
        return Contents(documents, vectors, passages)


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
