"""Cuts texts into terms for keyword search. Knows Unicode; knows no index.

Folded: case, width, and accents of Latin, Greek and Cyrillic, Arabic vowel marks, the dot below in Devanagari.
zh ja ko th: character bigrams, as Lucene's CJKBigramFilter makes them; there is no dictionary.
Codes: WK-1702 is also wk1702.
"""

import re
import unicodedata

RULES = f"1-{unicodedata.unidata_version}"  # version of these rules, and of Unicode
MAX_TERM_CHARS = 64
# Thai, kana, Han, Hangul: words are not separated by spaces, or take endings.
_UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003134f"
# \w lacks the vowel signs of Devanagari and its relatives.
_LETTERS = rf"(?:[^\W_{_UNSPACED}]+|[\u0900-\u0963\u0966-\u0dff]+)"
_RUN = re.compile(rf"([{_UNSPACED}]+)|({_LETTERS}+)")  # two groups: a run of unspaced characters, or a word
_WORD = re.compile(rf"{_LETTERS}+")
_CODE = re.compile(r"(?<![a-z0-9])[a-z0-9]+(?:[-./][a-z0-9]+)+")
_SEPARATOR = re.compile(r"[-./]")
_DIGIT = re.compile(r"[0-9]")
# Combining accents; marks and the lengthener of Arabic; the dot below of Devanagari.
_DROPPED = re.compile(r"[\u0300-\u036f\u0640\u064b-\u065f\u0670\u093c]+")
_NOT_ACCENTED = {"ı": "i", "ł": "l", "đ": "d", "ø": "o", "æ": "ae", "œ": "oe"}  # noqa: RUF001 - letters of their own


def document_terms(text: str) -> list[str]:
    """Return the terms of a document, repeats included; none is empty or has a space.

    A run of unspaced characters also gives its last one, so that each character begins a term.
    """
    folded = _folded(text)
    terms: list[str] = []
    for unspaced, word in _RUN.findall(folded):
        if word:
            terms.append(word[:MAX_TERM_CHARS])
        else:
            terms += [unspaced[start : start + 2] for start in range(len(unspaced))]
    return terms + _codes(folded)


def query_terms(text: str) -> dict[str, bool]:
    """Return the distinct terms of a query; True: only a prefix of a term, a single unspaced character."""
    folded = _folded(text)
    terms: dict[str, bool] = {}
    for unspaced, word in _RUN.findall(folded):
        if word:
            terms[word[:MAX_TERM_CHARS]] = False
        else:
            starts = range(max(1, len(unspaced) - 1))
            terms |= {unspaced[start : start + 2]: len(unspaced) == 1 for start in starts}
    return terms | dict.fromkeys(_codes(folded), False)


def occurring(terms: dict[str, bool], text: str) -> list[str]:
    """Return those of a query's terms that `document_terms` gives of a text, without cutting all of it."""
    folded = _folded(text)
    codes = set(_codes(folded)) if any(map(_DIGIT.search, terms)) else set()
    return [term for term in terms if (term in folded and _is_whole(term, folded)) or term in codes]


def _is_whole(term: str, folded: str) -> bool:
    """Return whether a term that occurs in a text is a word there, or part of a run of unspaced characters."""
    start = folded.find(term)
    while start >= 0:
        word = _WORD.match(folded, start)
        if word is None:
            return True  # unspaced
        begins = start == 0 or not _WORD.match(folded, start - 1)
        if begins and len(term) == min(word.end() - start, MAX_TERM_CHARS):
            return True
        start = folded.find(term, word.end())  # behind the word: a term has no end of one and beginning of another
    return False


def _codes(folded: str) -> list[str]:
    """Return the words with digits and separators, without the separators."""
    codes = (_SEPARATOR.sub("", found) for found in _CODE.findall(folded))
    return [code for code in codes if len(code) <= MAX_TERM_CHARS and _DIGIT.search(code)]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    folded = unicodedata.normalize("NFKC", _DROPPED.sub("", decomposed).casefold())
    for letter, plain in _NOT_ACCENTED.items():  # a tenth of the time of str.translate
        folded = folded.replace(letter, plain)
    return folded
