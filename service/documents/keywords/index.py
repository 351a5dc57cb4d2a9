"""BM25 over the terms of documents: one FTS5 table a collection, in the store's own file. Knows SQL; opens no file.

The tables are contentless: they hold terms and row numbers, no text. Whoever changes a document tells the text it had.
"""

import math
import sqlite3
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.terms import document_terms, query_terms
from service.documents.protocol import Rows

K1 = 1.2  # FTS5's, which cannot be set; its b is 0.75
LEAST_IDF = 1e-6  # FTS5's, of a term in more than half of the documents
MAX_TERMS = 64  # of a query that are looked up, the first ones
MAX_POSTINGS = 20_000  # documents of all terms together that are scored; the rarest terms go first

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeywordHits:
    """rows: int64, of documents with a term of the query.  scores: float64, in (0, 1), in the same order.

    A score is the document's BM25 as a share of what no document can exceed: that of every term, endlessly often. So
    queries compare; a term that no document has counts, too.
    """

    rows: Rows
    scores: Scores

    @classmethod
    def none(cls) -> "KeywordHits":
        """No document has a term."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float64))


class KeywordIndex:
    """The terms of one collection, over a connection to its store; satisfies no seam: SQLite is the truth as well."""

    def __init__(self, connection: sqlite3.Connection, collection: int) -> None:
        self._connection = connection
        self._collection = int(collection)
        self.table = f"keywords_{self._collection}"

    def create(self, *, schema: str = "main") -> None:
        """Make the table. `ascii` splits at spaces and changes nothing: terms have neither capitals nor signs."""
        options = "terms, content = '', tokenize = 'ascii'"
        self._connection.execute(f"CREATE VIRTUAL TABLE {schema}.{self.table} USING fts5({options})")

    def remake(self) -> None:
        """Make the table and what is in it anew, whatever the disk made of it."""
        self._connection.execute(f"DROP TABLE {self.table}")
        self.create()
        self.fill()

    def add(self, row: int, text: str) -> None:
        """Enter a document that is not in it."""
        insert = f"INSERT INTO {self.table} (rowid, terms) VALUES (?, ?)"  # noqa: S608 - a number of ours
        self._connection.execute(insert, (row, _joined(text)))

    def remove(self, row: int, text: str) -> None:
        """Take a document out. text: exactly what it was entered with."""
        delete = f"INSERT INTO {self.table} ({self.table}, rowid, terms) VALUES ('delete', ?, ?)"  # noqa: S608
        self._connection.execute(delete, (row, _joined(text)))

    def fill(self) -> None:
        """Enter every document of the collection anew, whatever is in it."""
        self.clear()
        query = "SELECT row, CAST(text AS BLOB) FROM documents WHERE collection = ? ORDER BY row"
        for row, text in self._connection.execute(query, (self._collection,)):
            self.add(row, text.decode(errors="replace"))  # damaged on disk: reading the document will say so

    def clear(self) -> None:
        """Take every document out."""
        self._connection.execute(f"INSERT INTO {self.table} ({self.table}) VALUES ('delete-all')")  # noqa: S608

    def optimize(self) -> None:
        """Merge the table into one piece, without what was deleted."""
        self._connection.execute(f"INSERT INTO {self.table} ({self.table}) VALUES ('optimize')")  # noqa: S608

    def search(self, query: str, *, condition: Condition | None = None) -> KeywordHits:
        """The documents that have a term of the query and that the filter selects, in no order.

        At most MAX_TERMS terms are looked up. The commonest are left out where all together are in more than
        MAX_POSTINGS documents; of a term alone the first so many count.
        """
        terms = self._chosen(query)
        if not any(terms.values()):
            return KeywordHits.none()
        where, values = ("", ()) if condition is None else (f" AND {condition.sql}", condition.values)
        # `+`: rows are compared after the match, never looked up one by one.
        select = f"SELECT +rowid AS row, bm25({self.table}) FROM {self.table} WHERE {self.table} MATCH ?{where} LIMIT ?"  # noqa: S608
        match = " OR ".join(terms)
        found = self._connection.execute(
            f"{FILTERABLE} {select}", (self._collection, match, *values, MAX_POSTINGS)
        ).fetchall()
        documents = int(self._one("SELECT documents FROM collections WHERE collection = ?", self._collection))
        most = (K1 + 1) * sum(_idf(count, documents) for count in terms.values())
        rows = np.fromiter((row for row, _ in found), np.int64, len(found))
        return KeywordHits(rows, np.fromiter((-score / most for _, score in found), np.float64, len(found)))

    def _chosen(self, query: str) -> dict[str, int]:
        """Terms in FTS5's words, each with how many documents have it: the rarest that fit into MAX_POSTINGS."""
        terms = [f'"{term}"{" *" * is_start}' for term, is_start in query_terms(query).items()][:MAX_TERMS]
        chosen: dict[str, int] = {}
        room = MAX_POSTINGS
        for count, term in sorted((self._count(term), term) for term in terms):
            room -= count
            if chosen and room < 0:
                break
            chosen[term] = count
        return chosen

    def _count(self, term: str) -> int:
        """How many documents have it; of more than MAX_POSTINGS one more than that."""
        documents = f"SELECT 1 FROM {self.table} WHERE {self.table} MATCH ? LIMIT ?"  # noqa: S608
        return int(self._one(f"SELECT count(*) FROM ({documents})", term, MAX_POSTINGS + 1))  # noqa: S608

    def _one(self, query: str, *values: object) -> int:
        found: tuple[int] = self._connection.execute(query, values).fetchone()
        return found[0]


def _joined(text: str) -> str:
    return " ".join(document_terms(text))


def _idf(count: int, documents: int) -> float:
    """How much a term tells: Robertson and Spärck Jones, as FTS5 has it."""
    return max(LEAST_IDF, math.log((documents - count + 0.5) / (count + 0.5)))
