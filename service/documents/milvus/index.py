"""Documents in a Milvus: the promises of the embedded collection, kept by another process. Knows no HTTP.

Nothing that a promise needs is kept here between calls: any number of service processes may share one Milvus.
N documents, D dims, B queries
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import TypeVar

import numpy as np
import orjson

from service.documents.filters import has_nested_field
from service.documents.milvus.connection import MilvusConnection, ScoredRows
from service.documents.milvus.filters import to_expression
from service.documents.milvus.rows import FIELDS, MilvusRow, ids_expression, is_storable_id, to_document, to_row
from service.documents.protocol import Vectors
from service.documents.results import EVERYTHING, Match, Shown
from service.documents.store.store import Document, Page, StoredDocument
from service.errors import InvalidInput

MAX_ROWS = 16_384  # Milvus gives no more in one answer
# Rows a call, so that no message comes near Milvus' 64 MB: ids alone, whole documents, and what is written of them.
IDS_A_CALL, DOCUMENTS_A_CALL, ROWS_A_CALL = 1000, 200, 128
LATEST = 2**63 - 1

T = TypeVar("T")


class MilvusIndex:
    """Documents and their vectors in one collection of a Milvus; satisfies `DocumentIndex`."""

    backend = "milvus"
    size_bytes = 0  # the vectors are in Milvus' memory, not in this process

    def __init__(self, connection: MilvusConnection) -> None:
        self._milvus = connection
        self._last_us = 0  # a clock that is set back must not make this process's revisions go back

    def close(self) -> None:
        """Close the connection."""
        self._milvus.close()

    @property
    def recall(self) -> float | None:
        """1 on milvus-lite, which compares with every vector; a server chooses its index, and nobody measured it."""
        return 1.0 if self._milvus.is_exact else None

    def __len__(self) -> int:
        return self._milvus.count()

    def check_room(self, ids: Sequence[str]) -> None:
        """Milvus alone knows its room: it refuses the write."""

    def put(self, documents: Sequence[Document], vectors_ND: Vectors) -> int:
        """Insert or replace documents, by id; gives the revision of the change, microseconds of this machine's clock.

        Raises: InvalidInput: Milvus cannot hold one of them; nothing was changed.  IndexUnavailable: as many calls as
                were answered are kept; the same put again completes it.
        """
        known = {row["id"]: row for row in self._rows_of([one.id for one in documents], ["id", "arrival", "revision"])}
        # Whatever this machine's clock says, the revision of a document grows.
        seen = max((row["revision"] for row in known.values()), default=0)
        revision = max(time.time_ns() // 1000, self._last_us + 1, seen + 1)
        rows = [
            to_row(
                document,
                np.asarray(vector_D, np.float32),
                position=position,
                arrival=known[document.id]["arrival"] if document.id in known else revision + position,
                revision=revision,
            )
            for position, (document, vector_D) in enumerate(zip(documents, vectors_ND, strict=True))
        ]
        self._last_us = revision + len(rows)
        for part in _parts(rows, ROWS_A_CALL):
            self._milvus.upsert(part)
        return revision

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id; gives how many there were."""
        return self._delete([row["id"] for row in self._rows_of(ids, ["id"])])

    def delete_matching(self, filter_: Mapping[str, object], *, filter_s: float | None = None) -> int:
        """Remove the documents that a filter selects; gives how many there were. Milvus has a limit of its own.

        Raises: InvalidInput: the filter is empty or malformed.
        """
        expression, deleted = self._expression(filter_), 0
        while rows := self._milvus.rows(expression, ["id"], limit=MAX_ROWS):
            deleted += self._delete([row["id"] for row in rows])
        return deleted

    def get(self, id_: str) -> StoredDocument | None:
        """One document by its id."""
        return next((to_document(row) for row in self._rows_of([id_], FIELDS)), None)

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

        Of those that the filter selects. Documents that arrived in the same microsecond, at two service processes, are
        on the same page.
        """
        limit = min(limit, MAX_ROWS // 10 - 1)
        selected = f"{self._expression(filter_)} and " if filter_ else ""
        heads, last_arrival = self._next(after_row, limit + 1, selected)
        total = self.count(filter_) if filter_ else None
        documents: list[StoredDocument] = []
        chars = 0
        for _, group in groupby(self._in_order(heads), key=lambda document: document.row):
            together = list(group)
            chars += sum(map(_chars_of, together))
            if documents and (len(documents) + len(together) > limit or chars > max_chars):
                return Page(documents, next_row=documents[-1].row, total=total)
            documents += together
        return Page(documents, next_row=last_arrival, total=total)

    def count(self, filter_: Mapping[str, object] | None = None, *, filter_s: float | None = None) -> int:
        """How many documents a filter selects."""
        return self._milvus.count(self._expression(filter_) if filter_ else "")

    def search(self, vector_D: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None) -> list[Match]:
        """The `top_k` nearest documents that the filter selects: by score, ties by id.

        Raises: InvalidInput: the filter is malformed.
        """
        return self.search_all(vector_D[None], top_k=top_k, filter_=filter_)[0]

    def search_all(
        self,
        vectors_BD: Vectors,
        *,
        top_k: int,
        filter_: Mapping[str, object] | None = None,
        shown: Shown = EVERYTHING,
    ) -> list[list[Match]]:
        """One search a vector; of many results, a document deleted before its text was read is left out.

        Raises: InvalidInput: the filter is malformed, `top_k` is more than Milvus gives, or what is found has too many
                characters.
        """
        if top_k > MAX_ROWS:
            raise InvalidInput(
                f"top_k is {top_k}; the limit is {MAX_ROWS} where Milvus keeps the documents (CROSSLET_INDEX)"
            )
        expression = self._expression(filter_) if filter_ else ""  # {} selects everything
        asked = min(top_k + 1, MAX_ROWS)  # one more: shows whether the last one ties with the next
        # A strong read waits for Milvus' clock: one call where the texts fit into its answer, two where they may not.
        wanted = [name for name in FIELDS if getattr(shown, name, True)]
        fields = wanted if asked * len(vectors_BD) <= DOCUMENTS_A_CALL else ["id"]
        vectors_BD = np.asarray(vectors_BD, np.float32)
        found_B = self._milvus.search(vectors_BD, fields=fields, limit=asked, expression=expression)
        best_B = [
            shown.cut(self._best(hits, vector_D, top_k, expression))
            for hits, vector_D in zip(found_B, vectors_BD, strict=True)
        ]
        rows = {row["id"]: row for best in best_B for _, row in best}
        heads = [id_ for id_, row in rows.items() if "arrival" not in row]
        documents: dict[str, StoredDocument] = {}
        chars = 0
        for row in chain((row for row in rows.values() if "arrival" in row), self._rows_of(heads, wanted)):
            document = documents[row["id"]] = to_document(row)
            chars += _chars_of(document)
            shown.check(chars)
        return [
            [Match(score, documents[row["id"]]) for score, row in best if row["id"] in documents] for best in best_B
        ]

    def _best(self, hits: ScoredRows, vector_D: Vectors, top_k: int, expression: str) -> ScoredRows:
        """The first `top_k` by score and id; asks again while more than were given may tie with the last of them."""
        asked = top_k + 1
        while len(hits) >= asked and hits[-1][0] == hits[top_k - 1][0] and asked < MAX_ROWS:
            asked = min(2 * asked, MAX_ROWS)
            (hits,) = self._milvus.search(vector_D[None], fields=["id"], limit=asked, expression=expression)
        best = sorted(hits, key=lambda hit: (-hit[0], hit[1]["id"]))[:top_k]
        return [(min(max(score, -1.0), 1.0), row) for score, row in best]  # rounding may leave a cosine just above 1

    def _delete(self, ids: Sequence[str]) -> int:
        for part in _parts(ids, IDS_A_CALL):
            self._milvus.delete(ids_expression(part))
        return len(ids)

    def _rows_of(self, ids: Sequence[str], fields: Sequence[str]) -> Iterator[MilvusRow]:
        """The rows of the ids that exist, each once, in no particular order."""
        storable = [id_ for id_ in dict.fromkeys(ids) if is_storable_id(id_)]
        for part in _parts(storable, DOCUMENTS_A_CALL if {"text", "metadata"} & {*fields} else IDS_A_CALL):
            yield from self._milvus.rows(ids_expression(part), fields, limit=len(part))

    def _in_order(self, ids: Sequence[str]) -> Iterator[StoredDocument]:
        """Documents in the order of their ids; read as they are asked for."""
        for part in _parts(ids, DOCUMENTS_A_CALL):
            found = {row["id"]: to_document(row) for row in self._rows_of(part, FIELDS)}
            yield from (found[id_] for id_ in part if id_ in found)

    def _expression(self, filter_: Mapping[str, object]) -> str:
        expression = to_expression(filter_)
        if not self._milvus.has_paths and has_nested_field(filter_):
            raise InvalidInput(
                f"the filter names a field with a dot, but an earlier release made collection {self._milvus.name}, "
                "without nested fields: drop it in Milvus and load the documents again (docs/guide/milvus.md)"
            )
        return expression

    def _next(self, after: int, wanted: int, selected: str) -> tuple[list[str], int | None]:
        """Ids of the documents that arrived next, at least `wanted` if so many are left, and the arrival of the last.

        None for that: there are no others after them.  selected: an expression to begin with, or nothing.

        Milvus orders no rows: the window of arrivals is narrowed until it holds few enough to be ordered here.
        """
        most, low, high = 10 * wanted, after, LATEST
        while True:
            window = f"{selected}arrival > {after} and arrival <= "
            rows = self._milvus.rows(f"{window}{high}", ["id", "arrival"], limit=most)
            rows.sort(key=lambda row: (row["arrival"], row["id"]))
            if len(rows) < most or high - low <= 1:
                return [row["id"] for row in rows], None if high == LATEST else high
            high = rows[wanted - 1]["arrival"]  # any rows show that `wanted` had arrived by then
            middle = (low + high) // 2
            if self._milvus.count(f"{window}{middle}") >= wanted:
                high = middle
            else:
                low = middle


def _chars_of(document: StoredDocument) -> int:
    return len(document.text) + len(orjson.dumps(document.metadata))


def _parts(values: Sequence[T], size: int) -> Iterator[list[T]]:
    remaining: Iterable[T] = iter(values)
    while part := list(islice(remaining, size)):
        yield part
