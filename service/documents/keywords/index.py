"""BM25 over the terms of documents: a few tables a collection, in the store's own file. Knows SQL; opens no file.

keywords_N    FTS5: the terms of each document
vocabulary_N  the distinct terms that words may be completed to, or corrected to
trigrams_N    FTS5: the trigrams of these

The tables of FTS5 are contentless: they hold terms and numbers, no text. To remove a document, pass the text it had.
"""

import math
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson

from service.documents.document import Rows
from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.near import SHORTEST_PART_OF_CODE, Vocabulary, marked
from service.documents.keywords.terms import document_terms, has_digit, query_terms, typed_terms

K1 = 1.2  # FTS5's, which cannot be set; its b is 0.75
LEAST_IDF = 1e-6  # FTS5's, of a term in more than half of the documents
MAX_TERMS = 64  # of a query: codes and the rarest are looked up
MAX_POSTINGS = 20_000  # documents to score, summed over the terms; the rarest terms go first
MAX_NEAR_WORDS = 8  # of a query: other terms are looked up for codes and the longest
MAX_NEAR_POSTINGS = 5_000  # documents to score by these, summed; the nearest terms go first
MAX_UNWRITTEN = 20_000  # terms in memory


@dataclass(frozen=True)
class KeywordHits:
    """rows: int64, of documents with a term of the query.  scores: float64, in (0, 1), in the same order.

    A score is BM25 divided by its upper bound, that of a document with every term infinitely often. So scores of
    different queries are comparable. A term that no document has raises the bound, too.

    terms: those of the query and those that they stand for, as `query_terms` gives them.
    weights: of those that were looked up, the rarer the more.
    """

    rows: Rows
    scores: npt.NDArray[np.float64]
    terms: Mapping[str, bool]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class LookUp:
    """A term to score documents by. word: of the query, which the term is, or may stand for.  match: in FTS5's syntax.

    idf: of the term.  weight: of its BM25.
    """

    word: str
    match: str
    idf: float
    term: str
    weight: float = 1


class KeywordIndex:
    """The keywords of one collection, in its store, over the given connection. After changes call `flush`."""

    def __init__(self, connection: sqlite3.Connection, collection: int) -> None:
        self._connection = connection
        self._collection = int(collection)
        self.table, vocabulary, trigrams = tables(self._collection)
        self._vocabulary = Vocabulary(connection, vocabulary, trigrams)
        self._added: set[str] = set()
        self._removed: set[str] = set()

    def create(self, *, schema: str = "main") -> None:
        """Create the tables. `ascii` splits at spaces and changes nothing: terms have neither capitals nor accents."""
        keywords, vocabulary, trigrams = (f"{schema}.{table}" for table in tables(self._collection))
        for statement in (
            f"CREATE VIRTUAL TABLE {keywords} USING fts5(terms, content = '', tokenize = 'ascii')",
            f"CREATE TABLE {vocabulary} (number INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE)",
            f"CREATE VIRTUAL TABLE {trigrams} USING fts5(term, content = '', columnsize = 0, detail = 'none', "
            "tokenize = 'trigram case_sensitive 1')",
        ):
            self._connection.execute(statement)

    @property
    def is_temporary(self) -> bool:
        """Whether this connection has the tables in memory, in place of the store's."""
        return bool(self._number("SELECT count(*) FROM temp.sqlite_schema WHERE name = ?", self.table))

    def drop(self) -> None:
        """Remove the tables, even if they are damaged."""
        for table in tables(self._collection):
            self._connection.execute(f"DROP TABLE {table}")

    def remake(self) -> None:
        """Rebuild the tables, even if they are damaged."""
        self.drop()
        self.create()
        self.fill()

    def add(self, row: int, text: str) -> None:
        """Add a document that the tables lack."""
        terms = document_terms(text)
        insert = f"INSERT INTO {self.table} (rowid, terms) VALUES (?, ?)"  # noqa: S608 - a number of ours
        self._connection.execute(insert, (row, " ".join(terms)))
        self._note(terms, self._added, self._removed)

    def remove(self, row: int, text: str) -> None:
        """Remove a document. text: exactly what it was added with."""
        terms = document_terms(text)
        delete = f"INSERT INTO {self.table} ({self.table}, rowid, terms) VALUES ('delete', ?, ?)"  # noqa: S608
        self._connection.execute(delete, (row, " ".join(terms)))
        self._note(terms, self._removed, self._added)

    def fill(self) -> None:
        """Replace the contents by all documents of the collection."""
        for table in (self.table, self._vocabulary.trigrams):
            self._command(table, "delete-all")
        self._connection.execute(f"DELETE FROM {self._vocabulary.table}")  # noqa: S608
        query = "SELECT row, CAST(text AS BLOB) FROM documents WHERE collection = ? ORDER BY row"
        for row, text in self._connection.execute(query, (self._collection,)):
            self.add(row, text.decode(errors="replace"))  # damaged on disk: reading the document will report it
        self.flush()

    def flush(self) -> None:
        """Bring the vocabulary in step with the documents added and removed, in the same transaction."""
        vocabulary, trigrams = self._vocabulary.table, self._vocabulary.trigrams
        there = f"SELECT 1 FROM {self.table} WHERE {self.table} MATCH '\"' || value || '\"'"  # noqa: S608
        unused = f"SELECT value FROM json_each(?) WHERE NOT EXISTS ({there})"  # noqa: S608
        gone = {term for (term,) in self._connection.execute(unused, (_listed(self._removed),))}
        delete = f"DELETE FROM {vocabulary} WHERE term IN (SELECT value FROM json_each(?)) RETURNING number, term"  # noqa: S608
        old = [(number, marked(term, len(term))) for number, term in self._connection.execute(delete, (_listed(gone),))]
        remove = f"INSERT INTO {trigrams} ({trigrams}, rowid, term) VALUES ('delete', ?, ?)"  # noqa: S608
        self._connection.executemany(remove, old)
        values = "SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING RETURNING number, term"
        insert = f"INSERT INTO {vocabulary} (term) {values}"
        listed = _listed((self._added | self._removed) - gone)
        new = [(number, marked(term, len(term))) for number, term in self._connection.execute(insert, (listed,))]
        self._connection.executemany(f"INSERT INTO {trigrams} (rowid, term) VALUES (?, ?)", new)  # noqa: S608
        self._added, self._removed = set(), set()

    def optimize(self) -> None:
        """Merge each table into one piece, without what was deleted."""
        for table in (self.table, self._vocabulary.trigrams):
            self._command(table, "optimize")

    def _note(self, terms: list[str], last: set[str], before: set[str]) -> None:
        """Note the last change of terms. before: terms whose last change was the opposite."""
        noted = {term for term in terms if len(term) >= SHORTEST_PART_OF_CODE}
        last |= noted
        before -= noted
        if len(last) + len(before) > MAX_UNWRITTEN:
            self.flush()

    def _command(self, table: str, name: str) -> None:
        self._connection.execute(f"INSERT INTO {table} ({table}) VALUES (?)", (name,))  # noqa: S608

    def search(self, query: str, *, condition: Condition | None = None, typing: bool = False) -> KeywordHits:
        """Find the documents that have a term of the query and match the filter, unordered.

        Looks up at most MAX_TERMS terms: those that documents have before those that none has, then codes, then the
        rarest. Leaves out the commonest if all together are in more than MAX_POSTINGS documents. Of a single term, the
        first MAX_POSTINGS documents count.

        A word that no document has may stand for others (`Vocabulary.near`).  typing: so may the last word, for all
        that begin with it. What a document scores by these for a word is less than any scores by the word itself.
        """
        words = query_terms(query)
        counts = self._chosen(words)
        documents = self._number("SELECT documents FROM collections WHERE collection = ?", self._collection)
        idf = {word: _idf(count, documents) for word, count in counts.items()}
        known = [
            LookUp(word, f'"{word}"{" *" * words[word]}', idf[word], word) for word, count in counts.items() if count
        ]
        exact = self._scored(known, condition, MAX_POSTINGS)
        least = dict.fromkeys(counts, math.inf)
        for place, _, score in exact:
            least[known[place].word] = min(least[known[place].word], score)
        near = self._near(words, counts, typed_terms(query) if typing else [], documents)
        best: dict[tuple[str, int], float] = {}
        for place, row, score in self._scored(near, condition, MAX_NEAR_POSTINGS):
            word, weight = near[place].word, near[place].weight
            scaled = weight * min(least[word], score * min(1, idf[word] / near[place].idf))
            best[word, row] = max(best.get((word, row), 0), scaled)
        scores = [(known[place].word, row, score) for place, row, score in exact]
        scores += [(word, row, score) for (word, row), score in best.items()]
        row_S = np.fromiter((row for _, row, _ in scores), np.int64, len(scores))
        score_S = np.fromiter((score for *_, score in scores), np.float64, len(scores))
        rows, place_S = np.unique(row_S, return_inverse=True)
        bound = (K1 + 1) * sum(idf.values())
        terms = words | {look_up.term: False for look_up in near}
        weights = {look_up.term: look_up.weight * look_up.idf for look_up in [*near, *known]}
        return KeywordHits(rows, np.bincount(place_S, score_S, len(rows)) / bound, terms, weights)

    def _scored(self, look_ups: list[LookUp], condition: Condition | None, most: int) -> list[tuple[int, int, float]]:
        """Return the place of a look-up, a row that it finds, and its BM25 there, for up to `most` of them."""
        if not look_ups:
            return []
        where, wanted = ("", ()) if condition is None else (f" AND {condition.sql}", condition.values)
        # `+`: rows are compared after the match, never looked up one by one.
        columns = f"key, +{self.table}.rowid AS row, -bm25({self.table})"
        select = f"SELECT {columns} FROM json_each(?) CROSS JOIN {self.table} WHERE {self.table} MATCH json_each.value"  # noqa: S608
        matches = orjson.dumps([look_up.match for look_up in look_ups]).decode()
        values = (self._collection, matches, *wanted, most)
        return self._connection.execute(f"{FILTERABLE} {select}{where} LIMIT ?", values).fetchall()

    def _chosen(self, words: Mapping[str, bool]) -> dict[str, int]:
        """Return the terms to look up, with their document counts."""
        count = {word: self._count(f'"{word}"{" *" * is_start}') for word, is_start in words.items()}
        best = sorted(words, key=lambda word: (not count[word], not has_digit(word), count[word]))[:MAX_TERMS]
        chosen: dict[str, int] = {}
        room = MAX_POSTINGS
        for word in sorted(best, key=lambda word: (count[word], word)):
            room -= count[word]
            if chosen and room < 0:
                break
            chosen[word] = count[word]
        return chosen

    def _near(
        self, words: Mapping[str, bool], counts: Mapping[str, int], typed: Sequence[str], documents: int
    ) -> list[LookUp]:
        """Return the terms that words stand for, the nearest first."""
        unknown = [word for word, count in counts.items() if not count and not words[word]]
        unknown = sorted(unknown, key=lambda word: (not has_digit(word), -len(word)))[:MAX_NEAR_WORDS]
        near = {(word, term): weight for word in unknown for term, weight in self._vocabulary.near(word).items()}
        for word in counts.keys() & typed:
            near |= {(word, term): weight for term, weight in self._vocabulary.completions(word).items()}
        look_ups: list[LookUp] = []
        room = MAX_NEAR_POSTINGS
        for (word, term), weight in sorted(near.items(), key=lambda item: (-item[1], item[0])):
            count = self._count(f'"{term}"')
            if count <= room:
                room -= count
                match = f'"{term}" NOT "{word}"' if counts[word] else f'"{term}"'
                look_ups.append(LookUp(word, match, _idf(count, documents), term, weight))
        return look_ups

    def _count(self, term: str) -> int:
        """Count the documents that have a term, up to MAX_POSTINGS + 1."""
        documents = f"SELECT 1 FROM {self.table} WHERE {self.table} MATCH ? LIMIT ?"  # noqa: S608
        return self._number(f"SELECT count(*) FROM ({documents})", term, MAX_POSTINGS + 1)  # noqa: S608

    def _number(self, query: str, *values: object) -> int:
        return int(self._connection.execute(query, values).fetchone()[0])


def _idf(count: int, documents: int) -> float:
    """Inverse document frequency: Robertson and Spärck Jones, as in FTS5."""
    return max(LEAST_IDF, math.log((documents - count + 0.5) / (count + 0.5)))


def tables(collection: int) -> list[str]:
    """Return the names of a collection's tables."""
    return [f"{name}_{collection}" for name in ("keywords", "vocabulary", "trigrams")]


def _listed(terms: Collection[str]) -> str:
    """Return the value for `json_each`. Terms in order are faster to look up."""
    return orjson.dumps(sorted(terms)).decode()
