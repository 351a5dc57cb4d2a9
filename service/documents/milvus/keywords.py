"""Keywords of documents in Milvus: it finds candidates by their terms, which score here as embedded documents do.

How rare terms are, and which ones a word may stand for, each service counts in a temporary file of its own, from the
documents' texts: its own changes at once, others' after a second. Of more than MAX_COUNTED documents it counts the
newest, a sample.

N documents
"""

import sqlite3
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np
import orjson

from service.documents.document import Document, Rows
from service.documents.filters import fields_of
from service.documents.keywords.index import LANGUAGE_FIELD, KeywordHits, KeywordIndex, LookUp, Plan
from service.documents.keywords.terms import document_terms
from service.documents.milvus.rows import (
    LENGTH,
    MAX_ROWS,
    MilvusRow,
    Sparse,
    heads_among,
    listed,
    number_of,
    occurrences,
    parts_of,
)
from service.documents.milvus.table import WINDOW, MilvusTable
from service.documents.store.schema import DEFAULT, FIELDS
from service.errors import NotReady, ServiceError

CANDIDATES = 500  # of a search, at least
MORE_CANDIDATES = 4  # times the results that are wanted
MAX_COMPLETIONS = 512  # terms of Milvus for a single character, which all that begin with it count as
MAX_COUNTED = 100_000  # documents
TEXTS_A_CALL = 200
TEXT_FIELDS = ["row", "text", "metadata", "arrival", "revision"]
HEADS_WANTED = MAX_ROWS // WINDOW
INTERVAL_S = 1.0  # between looks for what others changed
PATIENCE_S = 1.0  # that a search waits for them
OVERLAP_US = 10_000_000  # how far the clocks of services may be apart

COUNTED = "SELECT head, revision FROM counted"
LAST = "\U0010ffff"  # sorts after the characters of terms
TABLES = f"""
CREATE TABLE counted (
    head TEXT PRIMARY KEY, row INTEGER NOT NULL UNIQUE, revision INTEGER NOT NULL, terms BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE collections (collection INTEGER PRIMARY KEY, documents INTEGER NOT NULL);
INSERT INTO collections VALUES ({DEFAULT}, 0);
{FIELDS}"""  # noqa: S608 - constants


@dataclass(frozen=True)
class WantedTerms:
    """What a query looks up in Milvus. numbers: of the terms of each look-up.  mean_length: of documents, in terms."""

    plan: Plan
    numbers: list[list[int]]
    mean_length: float

    def weights(self) -> Sparse:
        """Return the sparse vector to search with."""
        weights: Sparse = {}
        for one, numbers in zip(self.plan.look_ups, self.numbers, strict=True):
            weights |= {number: max(weights.get(number, 0.0), one.weight * one.idf) for number in numbers}
        return weights

    def hits(self, terms_N: Sequence[Sparse], rows_N: Rows) -> KeywordHits:
        """Score documents by the sparse vectors of their terms. rows_N: their numbers for the caller."""
        places: dict[int, list[int]] = {}
        for place, numbers in enumerate(self.numbers):
            for number in numbers:
                places.setdefault(number, []).append(place)
        pairs: list[tuple[int, int, int]] = []
        for row, terms in zip(rows_N.tolist(), terms_N, strict=True):
            times: Counter[int] = Counter()
            for number in places.keys() & terms.keys():
                for place in places[number]:
                    times[place] += occurrences(terms, number)
            pairs += [(place, row, count) for place, count in times.items()]
        place_P, row_P, times_P = np.array(pairs, np.int64).reshape(-1, 3).T
        length_of = dict(zip(rows_N.tolist(), (terms[LENGTH] / self.mean_length for terms in terms_N), strict=True))
        return self.plan.hits(
            place_P, row_P, times_P, lambda rows: np.array([length_of[row] for row in rows.tolist()], np.float64)
        )


class MilvusKeywords:
    """The keywords of one collection of Milvus. Thread-safe."""

    def __init__(self, table: MilvusTable) -> None:
        self._table = table
        self._lock = threading.Lock()  # of the file
        self._reader: threading.Thread | None = None
        self._checked_at = -INTERVAL_S
        self._seen = 0  # the newest revision when all were last looked at
        self._file: sqlite3.Connection | None = None  # none yet: nobody has searched
        self._index: KeywordIndex | None = None  # in the file
        self._is_sample = False  # there are more documents than are counted
        self._is_whole = False  # all are
        self._is_closed = False
        self._unknown = 0  # documents more or less than are counted, after all were looked at

    def wanted(self, query: str, *, typing: bool) -> WantedTerms:
        """Choose what to look up for a query: see `KeywordIndex.plan`."""
        self._catch_up()
        with self._counting() as (file, index):
            plan = index.plan(query, typing=typing)
            if not self._is_whole:  # a document that was not counted may have it
                uncounted = sorted(plan.idf.keys() - {one.word for one in plan.known})
                others = [LookUp(word, word, plan.rarest, is_start=plan.words[word]) for word in uncounted]
                plan = replace(plan, known=[*plan.known, *others], is_complete=False)
            numbers = [
                [*map(number_of, _completions(file, one.term) if one.is_start else [one.term])] for one in plan.look_ups
            ]
            if any(len(terms) == MAX_COMPLETIONS for terms in numbers):  # more may begin so
                plan = replace(plan, is_complete=False)
            has_words = file.execute("SELECT 1 FROM all_terms LIMIT 1").fetchone() is not None
            return WantedTerms(plan, numbers, index.mean_length() if has_words else 1.0)

    def find(
        self, wanted: WantedTerms, *, fields: Sequence[str], among: str, top_k: int
    ) -> tuple[list[MilvusRow], bool]:
        """Return the heads that have most of the terms, with `terms`; and whether these are all that have some.

        among: an expression for the documents to look at.  top_k: how many results are wanted.
        """
        weights = wanted.weights()
        if not weights:
            return [], True
        limit = min(max(MORE_CANDIDATES * top_k, CANDIDATES), MAX_ROWS)
        (found,) = self._table.search(
            [weights], fields=[*fields, "terms"], limit=limit, expression=heads_among(among), by="terms"
        )
        return [row for _, row in found], len(found) < limit

    def put(self, documents: Sequence[Document], rows: Sequence[MilvusRow]) -> None:
        """Count documents that this service has put. rows: their heads."""
        if self._file is not None:
            with self._counting():
                for document, row in zip(documents, rows, strict=True):
                    self._count(row["head"], row["arrival"], row["revision"], document.text, document.metadata)

    def remove(self, heads: Iterable[str]) -> None:
        """Count documents no longer."""
        if self._file is not None:
            with self._counting():
                for head in heads:
                    self._forget(head)

    def close(self) -> None:
        """Free the file. Blocks while Milvus answers a call."""
        self._is_closed = True
        if self._reader is not None:
            self._reader.join()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = self._index = None

    def _catch_up(self) -> None:
        """Count what others have written. What takes longer than PATIENCE_S goes on in a thread."""
        with self._lock:
            if self._reader is None or not self._reader.is_alive():
                if time.monotonic() - self._checked_at < INTERVAL_S:
                    return
                self._checked_at = time.monotonic()
                self._reader = threading.Thread(target=self._read, name="keywords of Milvus", daemon=True)
                self._reader.start()
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        with suppress(ServiceError):  # the connection has logged it; the next search tries again
            count = self._table.count(heads_among())
            there = self._read_after(self._seen - OVERLAP_US if self._seen else self._newest(count))
            with self._counting():
                unknown = self._counted() - count
            if not self._is_sample and unknown != self._unknown:  # others deleted some, or their clocks are far apart
                with self._counting() as (file, _):
                    before = {*file.execute(COUNTED)}
                there = self._read_after(0)
                with self._counting() as (file, _):
                    for head, _ in before.intersection(file.execute(COUNTED)):  # else it was put meanwhile
                        if head not in there:
                            self._forget(head)
                    self._unknown = self._counted() - len(there)
            self._seen = max([self._seen, *there.values()])
            self._is_whole = not self._is_sample

    def _read_after(self, after: int) -> dict[str, int]:
        """Count the documents of larger revisions. Return their revisions by head. Raises: NotReady: it is closed."""
        there: dict[str, int] = {}
        for rows, _ in self._table.windows(heads_among(), ["row"], by="revision", after=after, wanted=HEADS_WANTED):
            revision_of = {row["row"]: row["revision"] for row in rows}
            with self._counting():
                known = self._known([*revision_of])
            new = [head for head, revision in revision_of.items() if known.get(head) != revision]
            for part in parts_of(new, TEXTS_A_CALL):
                if self._is_closed:
                    raise NotReady("the collection is closed")
                texts = self._table.rows(listed("row", part), TEXT_FIELDS, limit=len(part))
                with self._counting():
                    for row in texts:
                        self._count(row["row"], row["arrival"], row["revision"], row["text"], row["metadata"])
            there |= revision_of
        return there

    def _newest(self, count: int) -> int:
        """Return a revision that at most MAX_COUNTED documents are after, nearly as many if there are more."""
        low, high = 0, time.time_ns() // 1000
        if count <= MAX_COUNTED:
            return low
        self._is_sample = True
        while high - low > OVERLAP_US:
            middle = (low + high) // 2
            after = self._table.count(heads_among(f"revision > {middle}"))
            low, high = (middle, high) if after > MAX_COUNTED else (low, middle)
        return high

    def _count(self, head: str, row: int, revision: int, text: str, metadata: object) -> None:
        """Count a document, unless a later state of it is."""
        if self._known([head]).get(head, -1) >= revision:
            return
        self._forget(head)
        file, index = self._opened()
        if self._counted() >= MAX_COUNTED:
            self._is_sample, self._is_whole = True, False
            return
        terms = document_terms(text)
        packed = zlib.compress(" ".join(terms).encode(), 1)
        # Another service may have put a document in the same microsecond: one of both counts.
        insert = "INSERT INTO counted VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        if file.execute(insert, (head, row, revision, packed)).rowcount:
            index.add_terms(row, terms)
            languages = fields_of(metadata).get(LANGUAGE_FIELD, ()) if isinstance(metadata, dict) else ()
            fields = [(DEFAULT, LANGUAGE_FIELD, *scalar, row) for scalar in languages]
            file.executemany("INSERT INTO fields VALUES (?, ?, ?, ?, ?)", fields)
            file.execute("UPDATE collections SET documents = documents + 1")

    def _forget(self, head: str) -> None:
        file, index = self._opened()
        query = "DELETE FROM counted WHERE head = ? RETURNING row, terms"
        for row, packed in file.execute(query, (head,)).fetchall():
            index.remove_terms(row, zlib.decompress(packed).decode().split(" "))
            file.execute("DELETE FROM fields WHERE row = ?", (row,))
            file.execute("UPDATE collections SET documents = documents - 1")

    def _known(self, heads: Sequence[str]) -> dict[str, int]:
        """Return the revisions of documents that are counted."""
        listed_heads = "SELECT value FROM json_each(?)"
        query = f"{COUNTED} WHERE head IN ({listed_heads})"
        return dict(self._opened()[0].execute(query, (orjson.dumps(heads).decode(),)).fetchall())

    def _counted(self) -> int:
        return int(self._opened()[0].execute("SELECT documents FROM collections").fetchone()[0])

    @contextmanager
    def _counting(self) -> Iterator[tuple[sqlite3.Connection, KeywordIndex]]:
        """Lend the file to one thread, and bring the vocabulary in step with what it changed."""
        with self._lock:
            file, index = self._opened()
            with file:
                yield file, index
                index.flush()

    def _opened(self) -> tuple[sqlite3.Connection, KeywordIndex]:
        if self._file is None or self._index is None:
            self._file = sqlite3.connect("", check_same_thread=False)  # on the disk, deleted when it is closed
            self._file.executescript(TABLES)
            self._index = KeywordIndex(self._file, DEFAULT)
            self._index.create()
            create = f"CREATE VIRTUAL TABLE all_terms USING fts5vocab({self._index.table}, row)"
            self._file.execute(create)
        return self._file, self._index


def _completions(file: sqlite3.Connection, start: str) -> list[str]:
    """Return the terms that begin so in most documents."""
    query = "SELECT term FROM all_terms WHERE term >= ? AND term < ? ORDER BY doc DESC, term LIMIT ?"
    return [term for (term,) in file.execute(query, (start, start + LAST, MAX_COMPLETIONS))] or [start]
