"""BM25 over the terms of documents: one FTS5 table a collection, in the store's own file. Knows SQL; opens no file.

The tables are contentless: they hold terms and row numbers, no text. To remove a document, pass the text it had.
"""

import math
import sqlite3
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.documents.document import Rows
from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.terms import document_terms, has_digit, query_terms

K1 = 1.2  # FTS5's, which cannot be set; its b is 0.75
LEAST_IDF = 1e-6  # FTS5's, of a term in more than half of the documents
MAX_TERMS = 64  # of a query: codes and the rarest are looked up
MAX_POSTINGS = 20_000  # documents to score, summed over the terms; the rarest terms go first


@dataclass(frozen=True)
class KeywordHits:
    """rows: int64, of documents with a term of the query.  scores: float64, in (0, 1), in the same order.

    A score is BM25 divided by its upper bound, that of a document with every term infinitely often. So scores of
    different queries are comparable. A term that no document has raises the bound, too.
    """

    rows: Rows
    scores: npt.NDArray[np.float64]


class KeywordIndex:
    """The keywords of one collection, in its store, over the given connection."""

    def __init__(self, connection: sqlite3.Connection, collection: int) -> None:
        self._connection = connection
        self._collection = int(collection)
        self.table = f"keywords_{self._collection}"

    def create(self, *, schema: str = "main") -> None:
        """Create the table. `ascii` splits at spaces and changes nothing: terms have neither capitals nor accents."""
        options = "terms, content = '', tokenize = 'ascii'"
        self._connection.execute(f"CREATE VIRTUAL TABLE {schema}.{self.table} USING fts5({options})")

    @property
    def is_temporary(self) -> bool:
        """Whether this connection has the table in memory, in place of the store's."""
        return bool(self._number("SELECT count(*) FROM temp.sqlite_schema WHERE name = ?", self.table))

    def remake(self) -> None:
        """Rebuild the table, even if it is damaged."""
        self._connection.execute(f"DROP TABLE {self.table}")
        self.create()
        self.fill()

    def add(self, row: int, text: str) -> None:
        """Add a document that the table lacks."""
        insert = f"INSERT INTO {self.table} (rowid, terms) VALUES (?, ?)"  # noqa: S608 - a number of ours
        self._connection.execute(insert, (row, " ".join(document_terms(text))))

    def remove(self, row: int, text: str) -> None:
        """Remove a document. text: exactly what it was added with."""
        delete = f"INSERT INTO {self.table} ({self.table}, rowid, terms) VALUES ('delete', ?, ?)"  # noqa: S608
        self._connection.execute(delete, (row, " ".join(document_terms(text))))

    def fill(self) -> None:
        """Replace the contents by all documents of the collection."""
        self._command("delete-all")
        query = "SELECT row, CAST(text AS BLOB) FROM documents WHERE collection = ? ORDER BY row"
        for row, text in self._connection.execute(query, (self._collection,)):
            self.add(row, text.decode(errors="replace"))  # damaged on disk: reading the document will report it

    def optimize(self) -> None:
        """Merge the table into one piece, without what was deleted."""
        self._command("optimize")

    def _command(self, name: str) -> None:
        self._connection.execute(f"INSERT INTO {self.table} ({self.table}) VALUES (?)", (name,))  # noqa: S608

    def search(self, query: str, *, condition: Condition | None = None) -> KeywordHits:
        """Find the documents that have a term of the query and match the filter, unordered.

        Looks up at most MAX_TERMS terms: those that documents have before those that none has, then codes, then the
        rarest. Leaves out the commonest if all together are in more than MAX_POSTINGS documents. Of a single term, the
        first MAX_POSTINGS documents count.
        """
        terms = self._chosen(query)
        if not any(terms.values()):
            return KeywordHits(np.empty(0, np.int64), np.empty(0))
        where, wanted = ("", ()) if condition is None else (f" AND {condition.sql}", condition.values)
        # `+`: rows are compared after the match, never looked up one by one.
        select = f"SELECT +rowid AS row, bm25({self.table}) FROM {self.table} WHERE {self.table} MATCH ?{where} LIMIT ?"  # noqa: S608
        values = (self._collection, " OR ".join(terms), *wanted, MAX_POSTINGS)
        hits = self._connection.execute(f"{FILTERABLE} {select}", values).fetchall()
        documents = self._number("SELECT documents FROM collections WHERE collection = ?", self._collection)
        bound = (K1 + 1) * sum(_idf(count, documents) for count in terms.values())
        rows = np.fromiter((row for row, _ in hits), np.int64, len(hits))
        return KeywordHits(rows, np.fromiter((-score / bound for _, score in hits), np.float64, len(hits)))

    def _chosen(self, query: str) -> dict[str, int]:
        """Return the terms to look up, in FTS5's syntax, with their document counts."""
        terms = [f'"{term}"{" *" * is_start}' for term, is_start in query_terms(query).items()]
        count = {term: self._count(term) for term in terms}
        best = sorted(terms, key=lambda term: (not count[term], not has_digit(term), count[term]))[:MAX_TERMS]
        chosen: dict[str, int] = {}
        room = MAX_POSTINGS
        for term in sorted(best, key=lambda term: (count[term], term)):
            room -= count[term]
            if chosen and room < 0:
                break
            chosen[term] = count[term]
        return chosen

    def _count(self, term: str) -> int:
        """Count the documents that have a term, up to MAX_POSTINGS + 1."""
        documents = f"SELECT 1 FROM {self.table} WHERE {self.table} MATCH ? LIMIT ?"  # noqa: S608
        return self._number(f"SELECT count(*) FROM ({documents})", term, MAX_POSTINGS + 1)  # noqa: S608

    def _number(self, query: str, *values: object) -> int:
        return int(self._connection.execute(query, values).fetchone()[0])


def _idf(count: int, documents: int) -> float:
    """Inverse document frequency: Robertson and Spärck Jones, as in FTS5."""
    return max(LEAST_IDF, math.log((documents - count + 0.5) / (count + 0.5)))
