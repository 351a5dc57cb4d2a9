"""Draws documents of a store, and makes queries of their openings. Measures nothing.

S sampled documents
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from service.documents.document import Rows, Span
from service.documents.store.store import Snapshot

BATCH = 512
OPENING_CHARS = 60
LEAST_CHARS = 8  # a shorter text has no opening that says something


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
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    drawn = [document for part in _batches(chosen.tolist()) for document, _ in snapshot.fetch(part)]
    drawn.sort(key=lambda document: document.row)
    spans = {row: found for part in _batches(chosen.tolist()) for row, found in snapshot.spans_of(part).items()}
    return Sample(
        np.array([document.row for document in drawn], np.int64),
        [document.id for document in drawn],
        [document.text for document in drawn],
        [spans[document.row] for document in drawn],
        [language_of(document.metadata, document.text, field=field) for document in drawn],
    )


def languages_of(snapshot: Snapshot, rows: Sequence[int], *, field: str) -> dict[int, str]:
    """Return the language of each row."""
    return {
        document.row: language_of(document.metadata, document.text, field=field)
        for part in _batches(rows)
        for document, _ in snapshot.fetch(part)
    }


def opening(text: str) -> str:
    """Return the first half of a text, at most OPENING_CHARS, to the end of a word; "" if it is too short."""
    text = " ".join(text.split())
    if len(text) < LEAST_CHARS:
        return ""
    cut = text[: min(OPENING_CHARS, len(text) // 2)]
    whole, _, _ = cut.rpartition(" ")
    return whole if len(whole) > len(cut) // 2 else cut


def _batches(rows: Sequence[int]) -> list[Sequence[int]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def language_of(metadata: Mapping[str, object], text: str, *, field: str) -> str:
    """Return the value of the metadata field; without one, the script with most letters: `Latin script`."""
    value = metadata.get(field)
    return value if isinstance(value, str) and value else f"{script_of(text)} script"


def script_of(text: str) -> str:
    """Return `Latin`, `Cyrillic`, `Han`, `Kana`, .. by the Unicode names of the letters; `no` without letters."""
    found = Counter(unicodedata.name(char, "no").split()[0].capitalize() for char in text[:LOOKED_AT] if char.isalpha())
    if found.keys() & KANA:
        return "Kana"
    script = found.most_common(1)[0][0] if found else "no"
    return "Han" if script == HAN else script


def grouped(languages: Iterable[str]) -> list[str]:
    """Return the languages to tell apart, most frequent first, OTHER last if there are others."""
    counts = Counter(languages).most_common()
    named = [name for name, count in counts[:MOST] if count >= LEAST_DOCUMENTS]
    return named if len(named) == len(counts) else [*named, OTHER]
