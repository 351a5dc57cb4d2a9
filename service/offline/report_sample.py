"""Draws documents of a store, makes queries of their words, and finds the exact nearest documents of each.

Q queries, S sampled documents, K nearest, N documents of a batch, P their passages
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.documents.document import Rows, Span, Vectors
from service.documents.store.store import Snapshot
from service.model.passages import sentences
from service.offline.mining import Neighbours

COMPARED = 64  # documents at once, which may have hundreds of passages each
LEAST_CHARS = 8  # a shorter sentence makes no query
MOST_WORDS, CLAUSE_CHARS = 5, 12  # of a query
UNSPACED_CHARS = 12  # where words are longer on average, no spaces part them
PUNCTUATION = "".join(char for char in map(chr, range(0x3100)) if unicodedata.category(char).startswith("P"))
CLAUSE_END = re.compile("[\u3001\u3002\uff01\uff0c\uff1f]")
OTHER = "other"
MOST = 20  # languages told apart; the rest are OTHER
LEAST_DOCUMENTS = 20  # of a language that has figures of its own
LOOKED_AT = 400  # characters of a text
KANA = {"Hiragana", "Katakana"}  # one of them tells Japanese from Chinese, whatever else there is
HAN = "Cjk"


@dataclass(frozen=True)
class Sample:
    """Drawn documents. rows_S: ascending.  spans: of their passages.  languages: as `language_of` names them."""

    rows_S: Rows
    ids: list[str]
    texts: list[str]
    spans: list[Sequence[Span]]
    languages: list[str]


def draw(snapshot: Snapshot, *, most: int, field: str) -> Sample:
    """Draw at most `most` documents, the same ones for the same store.

    Raises: Damaged: a checksum differs.
    """
    rows = snapshot.rows()
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:most]).tolist()
    drawn = sorted((document for document, _ in snapshot.fetch(chosen)), key=lambda document: document.row)
    spans = snapshot.spans_of(chosen)
    return Sample(
        np.array([document.row for document in drawn], np.int64),
        [document.id for document in drawn],
        [document.text for document in drawn],
        [spans[document.row] for document in drawn],
        [language_of(document.metadata, document.text, field=field) for document in drawn],
    )


def languages_of(snapshot: Snapshot, rows: Sequence[int], *, field: str) -> dict[int, str]:
    """Return the language of each row."""
    drawn = (document for document, _ in snapshot.fetch(rows))
    return {document.row: language_of(document.metadata, document.text, field=field) for document in drawn}


def made_query(text: str, rarity: Mapping[str, int]) -> str:
    """Return what somebody might type to find a text: the rarest words of a sentence in its middle, in their order.

    Where no spaces part words: the beginning of its longest clause.  "": the text is too short.

    rarity: as `rarity_of` counts them.
    """
    parts = [part for start, stop in sentences(text) if len(part := text[start:stop].strip()) >= LEAST_CHARS]
    if not parts:
        return ""
    sentence = parts[len(parts) // 2]  # beginnings are alike, and titles easy
    found = words_of(sentence)
    if len(found) * UNSPACED_CHARS < len(sentence):
        return max(CLAUSE_END.split(sentence), key=len)[:CLAUSE_CHARS]
    kept = min(MOST_WORDS, max(2, len(found) // 2))
    rarest = sorted(range(len(found)), key=lambda place: (rarity[found[place].casefold()], -len(found[place])))[:kept]
    return " ".join(found[place] for place in sorted(rarest))


def rarity_of(texts: Iterable[str]) -> Counter[str]:
    """Return how many texts have each word, case-folded."""
    return Counter(word for text in texts for word in {word.casefold() for word in words_of(text)})


def words_of(text: str) -> list[str]:
    """Return what spaces part, without the punctuation around it."""
    return [word for part in text.split() if (word := part.strip(PUNCTUATION))]


def language_of(metadata: Mapping[str, object], text: str, *, field: str) -> str:
    """Return the value of the metadata field; without one, the script with most letters: `Latin script`."""
    value = metadata.get(field)
    return value if isinstance(value, str) and value else f"{script_of(text)} script"


def script_of(text: str) -> str:
    """Return `Latin`, `Cyrillic`, `Han`, `Kana`, .. by the Unicode names of the letters; `no` without letters."""
    scripts = Counter(
        unicodedata.name(char, "no").split()[0].capitalize() for char in text[:LOOKED_AT] if char.isalpha()
    )
    if scripts.keys() & KANA:
        return "Kana"
    script = scripts.most_common(1)[0][0] if scripts else "no"
    return "Han" if script == HAN else script


def grouped(languages: Iterable[str]) -> list[str]:
    """Return the languages to tell apart, most frequent first, OTHER last if there are others."""
    counts = Counter(languages).most_common()
    named = [name for name, count in counts[:MOST] if count >= LEAST_DOCUMENTS]
    return named if len(named) == len(counts) else [*named, OTHER]


def scores_of(snapshot: Snapshot, rows: Sequence[int], query_QD: Vectors) -> Iterator[tuple[Rows, Vectors]]:
    """Yield some rows that exist, ascending, and each query's score with a row's best passage, (Q, N)."""
    for start in range(0, len(rows), COMPARED):
        row_P, vectors_PD = snapshot.vectors_of_documents(rows[start : start + COMPARED])
        rows_N, first_N = np.unique(row_P, return_index=True)
        yield rows_N, np.maximum.reduceat(query_QD @ vectors_PD.T, first_N, axis=1)


def exact_nearest(snapshot: Snapshot, query_QD: Vectors, k: int, *, advance: Callable[[int], object]) -> Neighbours:
    """Compare every query with every passage. Where there are fewer than k: row -1, cosine -inf.

    Memory: Q scores for each passage of 64 documents.  advance: called with the number of further documents compared.
    """
    scores_QK = np.full((len(query_QD), k), -np.inf, np.float32)
    rows_QK = np.full((len(query_QD), k), -1, np.int64)
    for rows_N, scores_QN in scores_of(snapshot, snapshot.rows().tolist(), query_QD):
        scores_QN = np.concatenate([scores_QK, scores_QN], axis=1)
        rows_QN = np.concatenate([rows_QK, np.broadcast_to(rows_N, (len(query_QD), len(rows_N)))], axis=1)
        best_QK = np.argpartition(-scores_QN, k - 1, axis=1)[:, :k]
        scores_QK, rows_QK = np.take_along_axis(scores_QN, best_QK, 1), np.take_along_axis(rows_QN, best_QK, 1)
        advance(len(rows_N))
    order_QK = np.argsort(-scores_QK, axis=1, kind="stable")
    return Neighbours(np.take_along_axis(scores_QK, order_QK, 1), np.take_along_axis(rows_QK, order_QK, 1))
