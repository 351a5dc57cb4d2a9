"""Terms of a collection that a word may stand for: with typos, completed, in another form, or of which it is a part.

Candidates come from two indexes of the distinct terms: their order, which gives beginnings, and their trigrams. A word
with one edit has its first or its last half intact, or its middle transposed; with two, one of three parts. So the
candidates hold every term within the distance, up to the limits, and are then compared one by one.
"""

import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import orjson

from service.documents.keywords.terms import MAX_TERM_CHARS, has_digit, marked

MOST_WEIGHT = 0.9  # of a term that is nearly the word
NEARNESS = 0.5  # exponent of the share of characters that agree
SHORTEST_WITH_EDITS = 4  # characters of a word
SHORTEST_WITH_TWO = 8
SHORTEST_PART, SHORTEST_PART_OF_CODE = 4, 3  # of a longer word
SHORTEST_WITHIN = 5  # that may be in the middle
SHORTEST_STEM = 3
LONGEST_ENDING = 4  # of a word in another form
FORMS_LOOKED_AT = 16  # a stem takes some 50 microseconds
CACHED_STEMS = 4096
NEAR_TERMS = 8  # for a word
COMPLETIONS = 32  # of the last word while it is typed
MOST_LOOKED_AT = 5_000  # terms for each part of a word: a collection may have a million that begin alike
LAST = "\U0010ffff"  # sorts after the characters of terms
LANGUAGES = {  # whose stems Snowball knows, by ISO code
    **{"ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english"},
    **{"es": "spanish", "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish"},
    **{"hi": "hindi", "hu": "hungarian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nl": "dutch"},
    **{"no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish"},
    **{"tr": "turkish"},
}
PREFIXES = {  # of forms of a word
    "ar": ("", "ال", "وال", "فال", "بال", "كال", "لل", "و", "ف", "ب", "ل", "ك"),
    "id": ("", "ber", "di", "ter", *(start + end for start in ("me", "pe") for end in ("", "m", "n", "ng", "ny"))),
}
_ARTICLE = re.compile("(?:[وفبك]?ال|لل)(?=.{3})")  # of Arabic; Snowball keeps some endings behind it
# Scripts in which most of what is written is in one language, by the first of their 256 code points.
SCRIPTS = {0x0300: "el", 0x0400: "ru", 0x0600: "ar", 0x0900: "hi"}
LATIN = LANGUAGES.keys() - {*SCRIPTS.values()}  # those in Latin script

_STEMMING = threading.Lock()  # a stemmer keeps the word that it is at


@dataclass(frozen=True)
class Vocabulary:
    """The distinct terms of a collection. table: the terms.  trigrams: a table of FTS5, of each, as `marked`."""

    connection: sqlite3.Connection
    table: str
    trigrams: str

    def near(self, word: str) -> dict[str, float]:
        """Return up to NEAR_TERMS terms that a word without documents may stand for, with weights below 1."""
        weights: dict[str, float] = {}
        most = most_edits(word)
        for term in set(self._within(word, most)) if most else ():
            if (distance := edits(word, term, most)) <= most:
                # Another digit is another part; digits in another order are a slip.
                is_other = has_digit(word) and len(word) == len(term) and sorted(word) != sorted(term)
                weights[term] = weight_of(max(len(word), len(term)), distance + is_other)
        for term in self._with_part(word):
            weights[term] = max(weights.get(term, 0), weight_of(len(term), len(term) - len(word)))
        for term in self._parts_of(word):
            weights[term] = max(weights.get(term, 0), weight_of(len(word), len(word) - len(term)))
        weights.pop(word, None)
        return nearest(weights, NEAR_TERMS)

    def completions(self, start: str) -> dict[str, float]:
        """Return up to COMPLETIONS terms that begin with what was typed, the shortest, with weights below 1."""
        terms = f"SELECT term FROM {self.table} WHERE term > ? AND term < ? LIMIT {MOST_LOOKED_AT}"  # noqa: S608
        query = f"SELECT term FROM ({terms}) ORDER BY length(term), term LIMIT {COMPLETIONS}"  # noqa: S608
        shortest = self._terms(query, start, start + LAST)
        return {term: weight_of(len(term), len(term) - len(start)) for term in shortest}

    def forms(self, word: str, language: str) -> dict[str, float]:
        """Return terms with a word's stem in one of LANGUAGES, with weights below 1."""
        stem = stem_of(language, word)
        kept = stem[: max(SHORTEST_STEM, len(stem) - 1)]  # its last letter may stand for another: batteri, battery
        prefixes = PREFIXES.get(language, ("",))
        if language not in PREFIXES:
            kept = next(kept[:end] for end in range(len(kept), -1, -1) if word.startswith(kept[:end]))
        parts = {kept, kept[language == "id" :]}  # memukul is of pukul
        starts = [prefix + part for prefix in prefixes for part in parts if len(part) >= SHORTEST_STEM]
        longest = len(word) + LONGEST_ENDING + max(map(len, prefixes))
        terms = list({term for start in starts for term in self._beginning(start, len(start), longest)})
        terms = sorted(terms, key=lambda term: (stem[1:] not in term, abs(len(term) - len(word)), term))
        terms = terms[: FORMS_LOOKED_AT * min(2, len(prefixes))]
        return {term: MOST_WEIGHT for term in terms if term != word and stem_of(language, term) == stem}

    def _within(self, word: str, most: int) -> Iterator[str]:
        """Yield every term within one or two edits of a word, and others."""
        shortest, longest = len(word) - most, len(word) + most
        first = len(word) // (most + 1)
        yield from self._beginning(word[:first], shortest, longest)
        if most == 1:
            yield from self._ending(word[first:], shortest, longest)
            yield from self._existing([_transposed(word, first)])
            return
        last = (len(word) + first) // 2
        yield from self._having(_trigrams(word[first:last]), shortest, longest)
        yield from self._ending(word[last:], shortest, longest)
        for border in (first, last):  # a transposition that two parts share leaves one edit
            yield from self._within(_transposed(word, border), 1)

    def _with_part(self, word: str) -> Iterator[str]:
        """Yield terms that a word is a part of: a short word of no code only the beginning or the end."""
        is_code = has_digit(word)
        if len(word) < (SHORTEST_PART_OF_CODE if is_code else SHORTEST_PART):
            return
        yield from self._beginning(word, len(word) + 1, MAX_TERM_CHARS)
        for term in self._having(_trigrams(word), len(word) + 1, MAX_TERM_CHARS):
            if word in term if is_code or len(word) >= SHORTEST_WITHIN else term.endswith(word):
                yield term

    def _parts_of(self, word: str) -> list[str]:
        """Return the terms that a word begins or ends with."""
        shortest = SHORTEST_PART_OF_CODE if has_digit(word) else SHORTEST_PART
        starts = [word[:end] for end in range(shortest, len(word))]
        ends = [word[start:] for start in range(1, len(word) - shortest + 1)]
        return self._existing([*starts, *ends])

    def _beginning(self, start: str, shortest: int, longest: int) -> list[str]:
        terms = f"SELECT term FROM {self.table} WHERE term >= ? AND term < ? LIMIT {MOST_LOOKED_AT}"  # noqa: S608
        query = f"SELECT term FROM ({terms}) WHERE length(term) BETWEEN ? AND ?"  # noqa: S608
        return self._terms(query, start, start + LAST, shortest, longest)

    def _ending(self, end: str, shortest: int, longest: int) -> list[str]:
        """Return the terms of some lengths that have every trigram of an end of two characters or more."""
        ends = " OR ".join(_trigrams(marked(end[-2:], length)) for length in range(shortest, longest + 1))
        return self._having(f"{_trigrams(end)} AND ({ends})" if len(end) > 2 else ends, shortest, longest)

    def _having(self, trigrams: str, shortest: int, longest: int) -> list[str]:
        numbers = f"SELECT rowid FROM {self.trigrams} WHERE {self.trigrams} MATCH ? LIMIT {MOST_LOOKED_AT}"  # noqa: S608
        query = f"SELECT term FROM {self.table} WHERE number IN ({numbers}) AND length(term) BETWEEN ? AND ?"  # noqa: S608
        return self._terms(query, trigrams, shortest, longest)

    def _existing(self, terms: Iterable[str]) -> list[str]:
        query = f"SELECT term FROM {self.table} WHERE term IN (SELECT value FROM json_each(?))"  # noqa: S608
        return self._terms(query, orjson.dumps([*terms]).decode())

    def _terms(self, query: str, *values: object) -> list[str]:
        return [term for (term,) in self.connection.execute(query, values)]


def _trigrams(part: str) -> str:
    """Return a query for the trigrams of three characters or more."""
    return " AND ".join(f'"{part[start : start + 3]}"' for start in range(len(part) - 2))


def base_language(code: str) -> str:
    """Return the language of a code, in lower case: of `pt-BR`, pt."""
    return re.split("[-_]", code.lower(), maxsplit=1)[0]


def language_of(word: str) -> str | None:
    """Return the language that a word's script tells; None: it tells none."""
    return SCRIPTS.get(ord(word[0]) & ~0xFF)


@lru_cache(CACHED_STEMS)
def stem_of(language: str, word: str) -> str:
    """Return the stem of a term, which has no accents: nearly all endings are known without."""
    if language == "ar" and (article := _ARTICLE.match(word)):
        word = word[article.end() :]
    with _STEMMING:
        stem: str = _stemmer(LANGUAGES[language]).stemWord(word)
    return stem


@cache
def _stemmer(name: str) -> Any:
    from snowballstemmer import stemmer  # 3 MiB, for those who say their documents' languages

    return stemmer(name)


def most_edits(word: str) -> int:
    """Return how many edits a word may be from a term; a code only one: another digit is another code."""
    if len(word) < SHORTEST_WITH_EDITS:
        return 0
    return 1 if len(word) < SHORTEST_WITH_TWO or has_digit(word) else 2


def edits(word: str, term: str, most: int) -> int:
    """Return how many characters to insert, delete, replace or swap with the next one; `most + 1`: more than `most`.

    Optimal string alignment: no character is edited twice.
    """
    start, shorter = 0, min(len(word), len(term))
    while start < shorter and word[start] == term[start]:
        start += 1
    end = 0
    while end < shorter - start and word[-1 - end] == term[-1 - end]:
        end += 1
    word, term = word[start : len(word) - end], term[start : len(term) - end]
    if not word or not term:
        return min(len(word) + len(term), most + 1)
    if most < max(1, abs(len(word) - len(term))):
        return most + 1
    if most == 1:  # nearly all candidates end here
        return 1 if len(word) == len(term) == 1 or (len(word) == 2 and word == term[::-1]) else 2
    rests = [(word[1:], term[1:]), (word[1:], term), (word, term[1:])]
    if word[:2] == term[1::-1] and len(word) > 1:
        rests.append((word[2:], term[2:]))
    return 1 + min(edits(*rest, most - 1) for rest in rests)


def _transposed(word: str, border: int) -> str:
    return word[: border - 1] + word[border] + word[border - 1] + word[border + 1 :]


def weight_of(length: int, missing: int) -> float:
    """Return the weight of a term by how many characters agree."""
    share = max(0, length - missing) / length
    return MOST_WEIGHT * math.pow(share, NEARNESS)


def nearest(weights: dict[str, float], most: int) -> dict[str, float]:
    """Return the terms with the most weight."""
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:most])
