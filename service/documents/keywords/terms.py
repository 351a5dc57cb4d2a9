"""Cuts texts into terms for keyword search. Knows letters and digits; knows no index.

Thai, Chinese, Japanese, Korean and their like: character bigrams, as Lucene's CJKBigramFilter makes them; there is no
dictionary. Codes: WK-1702 is also wk1702. Numbers: 10,000 is also 10000.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from service.documents.keywords.folding import UNSPACED, fold

RULES = f"2-{unicodedata.unidata_version}"  # version of these rules and of `folding`, and of Unicode
MAX_TERM_CHARS = 64  # the end of a longer word is hashed
MAX_QUERY_TERMS = 256
MAX_QUERY_CHARS = MAX_QUERY_TERMS * MAX_TERM_CHARS
_HASH_BYTES = 8
_DASH, _OTHER = "\x01", "\x02"  # stand for a dash, and for `.` or `/`, within a code; folded text has neither
_JOINED = re.compile(f"[{_DASH}{_OTHER}]")
_DIGIT = re.compile("[0-9]")  # folded text has no others
# Groups of three digits, as 10,000, 10 000, 10'000.
_THOUSANDS = re.compile(
    rf"[0-9](?<![^\W{UNSPACED}].)(?<![.,'\u066c].)[0-9]{{0,2}}([ ,'\u066c])[0-9]{{3}}(?:\1[0-9]{{3}})*(?![0-9])"
)
_UP_TO_LAST_END = re.compile(rf".*[\s{UNSPACED}]", re.DOTALL)


@dataclass(frozen=True)
class _Patterns:
    """run: two groups, of unspaced characters and of a word.  separator: one within a code."""

    run: re.Pattern[str]
    word: re.Pattern[str]
    separator: re.Pattern[str]


def document_terms(text: str) -> list[str]:
    """Return the terms of a document, repeats included; none is empty or has a space.

    A run of unspaced characters also gives its last one, so that each character begins a term.
    """
    folded = fold(text)
    terms: list[str] = []
    for unspaced, word in _runs(folded):
        if word:
            terms.append(_term(word))
        else:
            terms += [unspaced[start : start + 2] for start in range(len(unspaced))]
    return terms + _codes(folded)


def query_terms(text: str) -> dict[str, bool]:
    """Return distinct terms of a query; True: only a prefix of a term, a single unspaced character.

    Of a long query, the first MAX_QUERY_CHARS are read. Those with digits come first, codes before all; then at most
    MAX_QUERY_TERMS are left.
    """
    folded = fold(text[:MAX_QUERY_CHARS])
    if len(text) > MAX_QUERY_CHARS:
        end = _UP_TO_LAST_END.match(folded)
        folded = end[0] if end else ""  # the last word may have been cut
    terms = dict.fromkeys(_codes(folded), False)
    for unspaced, word in _runs(folded):
        if word:
            terms[_term(word)] = False
        else:
            starts = range(max(1, len(unspaced) - 1))
            terms |= {unspaced[start : start + 2]: len(unspaced) == 1 for start in starts}
    first = sorted(terms, key=lambda term: not has_digit(term))[:MAX_QUERY_TERMS]
    return {term: terms[term] for term in first}


def has_digit(term: str) -> bool:
    """Return whether a term is a code, part of one, or a number."""
    return _DIGIT.search(term) is not None


def occurring(terms: dict[str, bool], text: str) -> list[str]:
    """Return those of a query's terms that `document_terms` gives of a text, without cutting all of it."""
    folded = fold(text)
    known = set(_codes(folded)) if any(map(has_digit, terms)) else set()
    if any(len(term) == MAX_TERM_CHARS for term in terms):
        known |= {_term(word) for _, word in _runs(folded)}
    return [term for term in terms if term in known or (term in folded and _is_whole(term, folded))]


def _is_whole(term: str, folded: str) -> bool:
    """Return whether a term that occurs in a text is a word there, or part of a run of unspaced characters."""
    match = _patterns(is_ascii=folded.isascii()).word.match
    start = folded.find(term)
    while start >= 0:
        word = match(folded, start)
        if word is None:
            return True  # unspaced
        if len(term) == word.end() - start and (start == 0 or not match(folded, start - 1)):
            return True
        start = folded.find(term, word.end())  # behind the word: a term has no end of one and beginning of another
    return False


def _term(word: str) -> str:
    if len(word) <= MAX_TERM_CHARS:
        return word
    end = MAX_TERM_CHARS - 2 * _HASH_BYTES
    return word[:end] + blake2b(word[end:].encode(), digest_size=_HASH_BYTES).hexdigest()


def _codes(folded: str) -> list[str]:
    """Return the numbers without the separators of their thousands, and the words with digits without theirs."""
    if not has_digit(folded):
        return []
    codes = [number[0].replace(number[1], "") for number in _THOUSANDS.finditer(folded)]
    separator = _patterns(is_ascii=folded.isascii()).separator
    marked = separator.sub(lambda found: _DASH if found[0] == "-" else _OTHER, folded)
    for part in _parts_with_codes(marked):
        for _, word in _runs(part):
            dashed = [piece for piece in word.split(_OTHER) if _DASH in piece]  # of F-16/F-18, each
            codes += [
                _JOINED.sub("", code)
                for code in dict.fromkeys([word, *dashed])
                if _JOINED.search(code) and has_digit(code)
            ]
    return list(map(_term, codes))


def _parts_with_codes(marked: str) -> Iterator[str]:
    """Yield what stands between two spaces and has a separator of a code."""
    end = 0
    while found := _JOINED.search(marked, end):
        start = max(marked.rfind(" ", end, found.start()), end)
        end = marked.find(" ", found.start())
        end = len(marked) if end < 0 else end
        yield marked[start:end]


def _runs(folded: str) -> list[tuple[str, str]]:
    """Return the runs of unspaced characters and the words of a text; one of the two is empty."""
    return _patterns(is_ascii=folded.isascii()).run.findall(folded)


@cache
def _patterns(*, is_ascii: bool) -> _Patterns:
    """Compile the patterns. Those of ASCII are faster, and need no table of characters."""
    if is_ascii:
        letter = before = "[a-z0-9]"
        word = f"[a-z0-9{_DASH}{_OTHER}]+"
    else:
        low, high = _word_characters(0, 0xFFFF), _word_characters(0x10000, 0x1FFFF)
        letter, before = rf"[^\W_{UNSPACED}]", f"[{low}{high}]"
        # The many ranges of the higher plane are tried only where a character is of it.
        word = rf"(?:[{_DASH}{_OTHER}{low}]+|(?=[\U00010000-\U0001ffff])[{high}]+)+"
    # Not `.` or `/` between digits, as in 1.10.
    separator = rf"[-./](?={letter})(?:(?<={letter}.)|(?<={before}.))(?<![0-9][./](?=[0-9]))"
    return _Patterns(re.compile(f"([{UNSPACED}]+)|({word})"), re.compile(word), re.compile(separator))


def _word_characters(first: int, last: int) -> str:
    """Return letters, digits and combining marks, which `\\w` lacks, as ranges of a regular expression."""
    ranges: list[list[str]] = []
    for char in re.sub(f"[{UNSPACED}]", "", "".join(map(chr, range(first, last + 1)))):
        if unicodedata.category(char)[0] in "LMN":
            if ranges and ord(ranges[-1][1]) == ord(char) - 1:
                ranges[-1][1] = char
            else:
                ranges.append([char, char])
    return "".join(f"{start}-{end}" for start, end in ranges)
