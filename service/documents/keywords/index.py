"""BM25 over the terms of documents: a few tables a collection, in the store's own file. Knows SQL; opens no file.

keywords_N    FTS5: the terms of each document
vocabulary_N  the distinct terms that words may be completed to, or corrected to
trigrams_N    FTS5: the trigrams of these

The tables of FTS5 are contentless: they hold terms and numbers, no text. To remove a document, pass the text it had.
"""

import math
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson

from service.documents.document import Rows
from service.documents.filters import FILTERABLE, Condition
from service.documents.keywords.hangul import completions, is_syllable, keys
from service.documents.keywords.near import (
    COMPLETIONS,
    LAST,
    LATIN,
    Vocabulary,
    base_language,
    language_of,
    nearest,
    weight_of,
)
from service.documents.keywords.terms import (
    SHORTEST_LISTED,
    document_terms,
    has_digit,
    marked,
    query_terms,
    typed_terms,
)
from service.errors import Damaged

K1, B = 1.2, 0.75  # of BM25
LEAST_IDF = 1e-6  # of a term in more than half of the documents
MAX_TERMS = 64  # of a query: codes and the rarest are looked up
MAX_POSTINGS = 20_000  # documents to score, summed over the terms; the rarest terms go first
MAX_TYPED_POSTINGS = 3_000  # the same of a query that is being typed: its answer is soon replaced
MAX_COUNTED = 400_000  # documents to count, summed, to tell the rarest if all terms are in too many; tens of ms
MAX_NEAR_WORDS = 8  # of a query: other terms are looked up for codes and the longest
MAX_NEAR_POSTINGS = 5_000  # documents to score by these, summed; the nearest terms go first
MAX_OCCURRENCES = 200_000  # of terms in documents, summed; long documents have a common word often
PLACE_BITS = 10  # of a term among those that are looked up
DAMAGED = "the keywords are damaged on the disk; `crosslet index repair` makes them anew"
NO_ROWS = np.empty(0, np.int64)
MAX_UNWRITTEN = 20_000  # terms in memory
LANGUAGE_FIELD = "lang"  # of the metadata
DOCUMENTS_ASKED = 20  # for their languages
MAX_LANGUAGES = 100  # of a collection
MAX_INFLECTED = 4  # of a query's words: the longest
MAX_STEMS = 24  # of these words, each in the languages it may be of
MOST_HANGUL = 200  # beginnings of terms to choose from
MAX_MADE = 32  # tables for reading occurrences, each of one collection, that a connection keeps
MADE = "SELECT name FROM temp.sqlite_schema WHERE name GLOB 'occurrences_*' ORDER BY rowid"
EXISTING = """
WITH RECURSIVE there (term) AS (
    SELECT (SELECT substr(term, 1, ?3) FROM {0} WHERE term >= ?1 AND term < ?2 LIMIT 1)
    UNION ALL
    SELECT (SELECT substr(term, 1, ?3) FROM {0} WHERE term >= there.term || char(1114111) AND term < ?2 LIMIT 1)
    FROM there WHERE there.term IS NOT NULL
)
SELECT term FROM there WHERE term IS NOT NULL LIMIT ?4
"""  # the beginnings of terms in a range, each once, without reading all their occurrences
COMMONEST = "GROUP BY value ORDER BY count(*) DESC, value LIMIT 2"
DISTINCT = """
WITH RECURSIVE listed (value) AS (
    SELECT min(value) FROM fields WHERE collection = ?1 AND key = ?2 AND kind = 'string'
    UNION ALL
    SELECT (
        SELECT min(value) FROM fields
        WHERE collection = ?1 AND key = ?2 AND kind = 'string' AND value > listed.value
    )
    FROM listed WHERE value IS NOT NULL
)
SELECT value FROM listed WHERE value IS NOT NULL LIMIT ?3
"""


@dataclass(frozen=True)
class KeywordHits:
    """rows: int64, of documents with a term of the query.  scores: float64, in (0, 1), in the same order.

    A score is BM25 divided by its upper bound, that of a document with every term infinitely often. So scores of
    different queries are comparable. A term that no document has raises the bound, too.

    evidence: for fusion, in [0, 1). What a word adds to the score is multiplied by its rarity: its idf, as a share of
    that of a word in one document. So a code counts in full, and what most documents of a language have counts little.
    The sum is multiplied by the square of the share of the query that the document has, in idf x rarity: one word of
    many says little.

    shares: float64, of the query's idf, that documents have.
    terms: those of the query and those that they stand for, as `query_terms` gives them.
    weights: of those that were looked up, the rarer the more.
    is_complete: whether all were, to the end.
    """

    rows: Rows
    scores: npt.NDArray[np.float64]
    evidence: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]
    terms: Mapping[str, bool]
    weights: Mapping[str, float]
    is_complete: bool = True

    def of_score(self, least: float | None) -> Rows:
        """Return the rows with a score, or a higher one; None: all."""
        return self.rows if least is None else self.rows[self.scores >= least]


@dataclass(frozen=True)
class LookUp:
    """A term to score documents by. word: of the query, which the term is, or may stand for.

    idf: of the term.  weight: of its BM25.  is_start: whether all terms that begin with it count as it.
    """

    word: str
    term: str
    idf: float
    weight: float = 1
    is_start: bool = False


@dataclass(frozen=True)
class Plan:
    """What is looked up for a query, and how documents score by what is found.

    words: the terms of the query, as `query_terms` gives them.  idf: of those that are looked up.
    known: these terms, as far as documents have them.  near: terms that they stand for.
    rarest: the idf of a term in one document.  is_complete: whether all words are looked up.
    """

    words: Mapping[str, bool]
    idf: Mapping[str, float]
    known: Sequence[LookUp]
    near: Sequence[LookUp]
    rarest: float
    is_complete: bool

    @property
    def look_ups(self) -> list[LookUp]:
        """All of them, in the order of their places."""
        return [*self.known, *self.near]

    def hits(
        self,
        place_P: npt.NDArray[np.int64],
        row_P: Rows,
        times_P: npt.NDArray[np.int64],
        lengths_of: Callable[[Rows], npt.NDArray[np.float64]],
    ) -> KeywordHits:
        """Score documents. P: pairs of a term and a document that has it.

        Args:   place_P: of the term among `look_ups`.  row_P: of the document.  times_P: how often it has the term.
                lengths_of: how many terms documents have, as shares of the mean.
        """
        look_ups, idf = self.look_ups, self.idf
        rows, at_P = np.unique(row_P, return_inverse=True)
        length_P = lengths_of(rows)[at_P]
        score_P = times_P * (K1 + 1) / (times_P + K1 * (1 - B + B * length_P))
        score_P *= np.array([one.idf for one in look_ups])[place_P]
        least = {one.word: score_P[place_P == place].min(initial=math.inf) for place, one in enumerate(self.known)}
        word_idf_T = np.array([idf[one.word] for one in look_ups])
        idf_T = np.array([min(idf[one.word], one.idf) for one in look_ups])
        # Less than the least of the word itself, and for a rare term no more than for the word.
        most = [one.weight * least.get(one.word, math.inf) for one in self.near]
        most_T = np.array([math.inf] * len(self.known) + most)
        scale_T = np.array([one.weight * min(1, idf[one.word] / one.idf) for one in look_ups])
        score_P = np.minimum(score_P * scale_T[place_P], most_T[place_P])
        number_of = {word: number for number, word in enumerate(idf)}
        word_T = np.array([number_of[one.word] for one in look_ups], np.int64)
        best_P = _best_of_each(row_P << PLACE_BITS | word_T[place_P], score_P)
        place_P, at_P, score_P = place_P[best_P], at_P[best_P], score_P[best_P]
        rarity_T = np.minimum(1, idf_T / self.rarest)
        total = sum(idf.values())
        share_N = np.bincount(at_P, (word_idf_T * rarity_T)[place_P], len(rows)) / total
        return KeywordHits(
            rows,
            np.bincount(at_P, score_P, len(rows)) / ((K1 + 1) * total),
            np.bincount(at_P, score_P * rarity_T[place_P], len(rows)) / ((K1 + 1) * total) * share_N**2,
            np.bincount(at_P, word_idf_T[place_P], len(rows)) / total,
            terms={**self.words} | {one.term: one.is_start for one in self.near},
            weights={one.term: one.weight * one.idf for one in [*self.near, *self.known]},
            is_complete=self.is_complete and len(rows) < MAX_POSTINGS and times_P.sum() < MAX_OCCURRENCES,
        )


class KeywordIndex:
    """The keywords of one collection, in its store, over the given connection. After changes call `flush`."""

    def __init__(self, connection: sqlite3.Connection, collection: int) -> None:
        self._connection = connection
        self._collection = int(collection)
        self.table, vocabulary, trigrams = tables(self._collection)
        self._occurrences = f"occurrences_{self._collection}"
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
        self.add_terms(row, document_terms(text))

    def remove(self, row: int, text: str) -> None:
        """Remove a document. text: exactly what it was added with."""
        self.remove_terms(row, document_terms(text))

    def add_terms(self, row: int, terms: list[str]) -> None:
        """Add a document by its terms."""
        insert = f"INSERT INTO {self.table} (rowid, terms) VALUES (?, ?)"  # noqa: S608 - a number of ours
        self._connection.execute(insert, (row, " ".join(terms)))
        self._note(terms, self._added, self._removed)

    def remove_terms(self, row: int, terms: list[str]) -> None:
        """Remove a document by exactly the terms that it was added with."""
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
        noted = {term for term in terms if len(term) >= SHORTEST_LISTED}
        last |= noted
        before -= noted
        if len(last) + len(before) > MAX_UNWRITTEN:
            self.flush()

    def _command(self, table: str, name: str) -> None:
        self._connection.execute(f"INSERT INTO {table} ({table}) VALUES (?)", (name,))  # noqa: S608

    def search(self, query: str, *, condition: Condition | None = None, typing: bool = False) -> KeywordHits:
        """Find the documents that have a term of the query and match the filter, unordered. See `plan`."""
        plan = self.plan(query, typing=typing)
        return plan.hits(*self._occurring(plan.look_ups, condition), self._lengths)

    def plan(self, query: str, *, typing: bool = False) -> Plan:
        """Choose what to look up for a query.

        At most MAX_TERMS terms: those that documents have before those that none has, then codes, then the rarest.
        Leaves out the commonest if all together are in more than MAX_POSTINGS documents, or MAX_TYPED_POSTINGS. Of a
        single term, the first MAX_POSTINGS documents count; of all, the first MAX_OCCURRENCES.

        A word that no document has may stand for others (`Vocabulary.near`), and is then as rare as the rarest of them.
        Any may stand for its forms.  typing: the last word stands for those that begin with it instead. What a document
        scores by these is less than what any scores by the word itself.
        """
        words = query_terms(query)
        typed = typed_terms(query) if typing else []
        counts = self._chosen(words, typed, MAX_TYPED_POSTINGS if typing else MAX_POSTINGS)
        documents = self._number("SELECT documents FROM collections WHERE collection = ?", self._collection)
        idf = {word: _idf(count, documents) for word, count in counts.items()}
        known = [LookUp(word, word, idf[word], is_start=words[word]) for word, count in counts.items() if count]
        near = self._near(words, counts, typed, documents)
        for word in {one.word for one in near if not counts[one.word]}:
            idf[word] = max(one.idf for one in near if one.word == word)
        rarest = _idf(1, max(1, documents))
        return Plan(words, idf, known, near, rarest=rarest, is_complete=len(counts) == len(words))

    def _occurring(
        self, look_ups: Sequence[LookUp], condition: Condition | None
    ) -> tuple[npt.NDArray[np.int64], Rows, npt.NDArray[np.int64]]:
        """Return the place of a look-up, a row that it finds, and how often the term is there; by row.

        Reads rows from the index itself: FTS5's `bm25` looks a document's length up anew for each term, which takes
        most of its time. One string of all rows takes a third of the time of an object each.
        """
        self._read_occurrences()
        where, wanted = ("", ()) if condition is None else (f" AND {condition.sql}", condition.values)
        found = [NO_ROWS]
        for is_start, is_term in ((False, "term = value"), (True, "term >= value AND term < value || char(1114111)")):
            terms = {place: one.term for place, one in enumerate(look_ups) if one.is_start == is_start}
            if terms:
                listed = f"SELECT key, +doc AS row FROM json_each(?) CROSS JOIN {self._occurrences} WHERE {is_term}"  # noqa: S608
                query = f"{FILTERABLE} SELECT group_concat(row << {PLACE_BITS} | key) FROM ({listed}{where} LIMIT ?)"  # noqa: S608
                values = (self._collection, orjson.dumps(terms, option=orjson.OPT_NON_STR_KEYS).decode(), *wanted)
                (numbers,) = self._connection.execute(query, (*values, MAX_OCCURRENCES)).fetchone()
                found.append(np.fromstring(numbers or "", np.int64, sep=","))
        number_P, times_P = np.unique(np.concatenate(found), return_counts=True)
        place_P = number_P & (1 << PLACE_BITS) - 1
        beyond = np.flatnonzero(place_P == 0)[MAX_POSTINGS:]  # other terms are in fewer documents
        number_P, place_P, times_P = (np.delete(array_P, beyond) for array_P in (number_P, place_P, times_P))
        return place_P, number_P >> PLACE_BITS, times_P

    def _read_occurrences(self) -> None:
        """Make the table that reads occurrences, unless this connection has it."""
        schema = "temp" if self.is_temporary else "main"
        made = [name for (name,) in self._connection.execute(MADE)]
        if self._occurrences not in made:
            for name in made[:1] if len(made) >= MAX_MADE else []:  # of a collection that may be gone
                self._connection.execute(f"DROP TABLE temp.{name}")
            create = f"CREATE VIRTUAL TABLE temp.{self._occurrences} USING fts5vocab"
            self._connection.execute(f"{create}({schema}, {self.table}, instance)")

    def _lengths(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return how many terms documents have, as shares of the mean. Raises: Damaged: FTS5's numbers are."""
        if not len(rows):
            return np.empty(0)
        sizes = f"SELECT group_concat(hex(sz), '') FROM json_each(?) CROSS JOIN {self.table}_docsize AS sizes"  # noqa: S608
        query = f"{sizes} WHERE sizes.id = value"
        (listed,) = self._connection.execute(query, (str(rows.tolist()),)).fetchone()
        size_N = _varints(listed or "")
        if len(size_N) != len(rows):
            raise Damaged(DAMAGED)
        length_N: npt.NDArray[np.float64] = size_N / self.mean_length()
        return length_N

    def mean_length(self) -> float:
        """Return how many terms a document has on average. Raises: Damaged: there is none, or FTS5's numbers are."""
        totals = f"SELECT hex(block) FROM {self.table}_data WHERE id = 1"  # noqa: S608
        total_2 = _varints(*(self._connection.execute(totals).fetchone() or [""]))  # documents, terms
        if len(total_2) != 2 or total_2.min() < 1:
            raise Damaged(DAMAGED)
        return float(total_2[1] / total_2[0])

    def _chosen(self, words: Mapping[str, bool], typed: Sequence[str], room: int) -> dict[str, int]:
        """Return the terms to look up, with their document counts: together at most `room`, of one term any.

        typed: words that may go on; no common word is looked up beside them.
        """
        limit = MAX_POSTINGS + 1
        count = {word: self._count(_match(word, words), limit) for word in words}
        best = sorted(words, key=lambda word: (not count[word], not has_digit(word), count[word]))[:MAX_TERMS]
        known = [word for word in best if count[word]]
        while len(known) > 1 and min(count[word] for word in known) == limit and 2 * limit * len(known) <= MAX_COUNTED:
            limit *= 2
            count |= {word: self._count(_match(word, words), limit) for word in known}
        chosen: dict[str, int] = {}
        for word in sorted(best, key=lambda word: (count[word], word)):
            room -= count[word]
            if room < 0 and any(there or term in typed for term, there in chosen.items()):
                break
            chosen[word] = min(count[word], MAX_POSTINGS + 1)
        return chosen

    def _near(
        self, words: Mapping[str, bool], counts: Mapping[str, int], typed: Sequence[str], documents: int
    ) -> list[LookUp]:
        """Return the terms that words stand for, the nearest first."""
        spelled = [word for word in counts if not words[word] and len(word) >= SHORTEST_LISTED]
        spelled = sorted(spelled, key=lambda word: (not has_digit(word), -len(word)))[:MAX_NEAR_WORDS]
        near: dict[tuple[str, str], float] = {}
        for word in counts.keys() & typed:
            near |= {(word, term): weight for term, weight in self._vocabulary.completions(word).items()}
            near |= {(word, term): weight for term, weight in self._hangul(word).items()}
        completed = {word for word, _ in near}
        for word in spelled:
            if not counts[word] and word not in completed:
                near |= {(word, term): weight for term, weight in self._vocabulary.near(word).items()}
        finished = [word for word in spelled if word not in typed]
        for word, language in self._in_languages(finished, counts)[:MAX_STEMS]:
            near |= {(word, term): weight for term, weight in self._vocabulary.forms(word, language).items()}
        look_ups: list[LookUp] = []
        room = MAX_NEAR_POSTINGS
        for (word, term), weight in sorted(near.items(), key=lambda item: (-item[1], item[0])):
            is_start = len(term) == 1
            count = self._count(_match(term, {term: is_start}), room + 1)
            if count <= room:
                room -= count
                look_ups.append(LookUp(word, term, _idf(count, documents), weight, is_start=is_start))
        return look_ups

    def _hangul(self, typed: str) -> dict[str, float]:
        """Return up to COMPLETIONS terms that syllables may become while they are typed, with weights below 1."""
        if not all(map(is_syllable, typed)):
            return {}
        self._read_occurrences()
        weights: dict[str, float] = {}
        for terms in completions(typed):
            values = (terms[0], terms[-1] + LAST, len(terms[0]), MOST_HANGUL)
            there = {term for (term,) in self._connection.execute(EXISTING.format(self._occurrences), values)}
            for term in there.intersection(terms) - {typed}:
                lengths = len(keys(term)), len(keys(typed))
                weights[term] = weight_of(max(lengths), abs(lengths[0] - lengths[1]))
        return nearest(weights, COMPLETIONS)

    def _in_languages(self, words: Sequence[str], counts: Mapping[str, int]) -> list[tuple[str, str]]:
        """Return the first words with the languages they may be of: what the script tells, else what documents say.

        Those are some documents with words of the query; if they say nothing, all.
        """
        letters = [word for word in words if not has_digit(word)][:MAX_INFLECTED]
        by_script = [(word, language) for word in letters if (language := language_of(word)) is not None]
        others = [word for word in letters if language_of(word) is None]
        if not others:
            return by_script
        having = " OR ".join(f'"{word}"' for word in others if counts[word]) or '""'
        rows = f"SELECT rowid FROM {self.table} WHERE {self.table} MATCH ? LIMIT {DOCUMENTS_ASKED}"  # noqa: S608
        query = f"SELECT value FROM fields WHERE row IN ({rows}) AND +key = ? AND kind = 'string' {COMMONEST}"  # noqa: S608
        said = self._connection.execute(query, (having, LANGUAGE_FIELD)).fetchall()
        if not said:
            said = self._connection.execute(DISTINCT, (self._collection, LANGUAGE_FIELD, MAX_LANGUAGES)).fetchall()
        languages = {base_language(str(value)) for (value,) in said} & LATIN
        return by_script + [(word, language) for word in others for language in sorted(languages)]

    def _count(self, term: str, most: int) -> int:
        """Count the documents that have a term, up to a number."""
        documents = f"SELECT 1 FROM {self.table} WHERE {self.table} MATCH ? LIMIT ?"  # noqa: S608
        return self._number(f"SELECT count(*) FROM ({documents})", term, most)  # noqa: S608

    def _number(self, query: str, *values: object) -> int:
        return int(self._connection.execute(query, values).fetchone()[0])


def _idf(count: int, documents: int) -> float:
    """Inverse document frequency: Robertson and Spärck Jones, as in FTS5."""
    return max(LEAST_IDF, math.log((documents - count + 0.5) / (count + 0.5)))


def _match(word: str, words: Mapping[str, bool]) -> str:
    """Return a term in FTS5's syntax."""
    return f'"{word}"{" *" * words[word]}'


def _best_of_each(key_P: npt.NDArray[np.int64], score_P: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return where the best score of each key is, by key."""
    order_P = np.argsort(key_P, kind="stable")  # fast: keys are nearly in order
    key_P, score_P = key_P[order_P], score_P[order_P]
    start_K = np.flatnonzero(np.diff(key_P, prepend=-1))
    best_K = np.maximum.reduceat(score_P, start_K) if len(start_K) else score_P
    is_best_P = score_P == np.repeat(best_K, np.diff(start_K, append=len(key_P)))
    first_K: npt.NDArray[np.intp] = order_P[is_best_P][np.diff(key_P[is_best_P], prepend=-1) > 0]
    return first_K  # of equal ones


def _varints(listed: str) -> npt.NDArray[np.int64]:
    """Return SQLite's integers of variable length from hexadecimal bytes: seven bits each, the last byte below 128."""
    byte_B = np.frombuffer(bytes.fromhex(listed), np.uint8).astype(np.int64)
    end_N = np.flatnonzero(byte_B < 128)
    byte_B = byte_B[: end_N.max(initial=-1) + 1]
    place_B = np.repeat(end_N, np.diff(end_N, prepend=-1)) - np.arange(len(byte_B))
    number_N: npt.NDArray[np.int64] = np.add.reduceat((byte_B & 127) << (7 * place_B), np.append(0, end_N + 1)[:-1])
    return number_N


def tables(collection: int) -> list[str]:
    """Return the names of a collection's tables."""
    return [f"{name}_{collection}" for name in ("keywords", "vocabulary", "trigrams")]


def _listed(terms: Collection[str]) -> str:
    """Return the value for `json_each`. Terms in order are faster to look up."""
    return orjson.dumps(sorted(terms)).decode()
