"""Cuts texts into terms for keyword search: folds spellings of one word into one, then finds words, codes and numbers.

Thai, Chinese, Japanese, Korean and their like: character bigrams, as Lucene's CJKBigramFilter makes them; there is no
dictionary. Codes: WK-1702 is also wk1702. Numbers: 10,000 is also 10000.

Sources of the tables: UTR 30 is Unicode's technical report 30 as Lucene has it (analysis/icu/src/data/utr30); other
names are classes of Lucene (analysis/common); the vocabulary is the model's (training/vocabulary).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from service.documents.keywords.simplified import SIMPLIFIED, TRADITIONAL
from service.invisible import INVISIBLE

# Scripts without spaces between words, or (Hangul) with endings: letters and marks, no punctuation and no symbols.
UNSPACED = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf"  # Thai, Lao
    r"\u1000-\u103f\u1050-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Myanmar
    r"\u1780-\u17d3\u17d7\u17dc\u17dd\u1950-\u19cf\u1a20-\u1a7c\uaa80-\uaadd"  # Khmer, Tai
    r"\u1100-\u11ff\ua960-\ua97c\uac00-\ud7fb"  # Hangul
    r"\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001b000-\U0001b167"  # kana, but no \u30fb
    r"\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    # Han, with its iteration mark, closing mark and zero
    r"\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c\u3400-\u4dbf\u4e00-\u9fff\ufa0e-\ufa29\U00020000-\U000323af"
)

# Arabic lengthener, alone and below vowel marks (ArabicNormalizer); enclosing marks. They part runs of other marks.
ENCLOSING = r"\u0640\ufcf2-\ufcf4\ufe71\ufe77\ufe79\ufe7b\ufe7d\ufe7f\u0488\u0489\u1abe\u20dd-\u20e0\u20e2-\u20e4"
_REMOVED = re.compile(f"[{INVISIBLE}{ENCLOSING}]")
_ASCII_REMOVED = bytes([*range(9), *range(14, 32), 127])
_ASCII_LOWER = bytes(range(256)).lower()
_NON_JOINER = "\u200c"
# Within a word of a cursive script it divides (PersianCharFilter); elsewhere it is invisible.
_CURSIVE = r"\u0600-\u077f\u07c0-\u07ff\u0860-\u08ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc"
_DIVIDING = re.compile(rf"(?<=[{_CURSIVE}]){_NON_JOINER}++(?=[{_CURSIVE}])")

# Of what NFKD writes out: signs that are no part of the word or number beside them, and numbers raised behind a number.
_RAISED = r"\xb2\xb3\xb9\u2070-\u209c"
_TRADE_MARKS = "\u2120\u2122"
_APART = re.compile(
    rf"[{_RAISED}\xbc-\xbe\u2116{_TRADE_MARKS}\u2121\u213b\u2150-\u215f\u2189\u2460-\u249b\u24ea]"
    rf"(?:(?<![{_RAISED}])|(?<=\d.))"
)

# Signs and symbols, among them every combining mark.
_SIGN = r"[^\w\s\x00-\x7f]"
_MARKS = re.compile(rf"({_SIGN}{_SIGN}{{29}}){_SIGN}+")  # a pattern that begins with a set is found faster

# A letter and a mark that are another letter of its alphabet.
_OWN_LETTERS = {
    "\u0438\u0306": "\u0439",  # Russian short i. Yo is ye, and stress is dropped: RussianLightStemFilter
    "\u0443\u0306": "\u045e",  # Belarusian short u
    "\u0456\u0308": "\u0457",  # Ukrainian yi
    "\u0433\u0301": "\u0453",  # Macedonian gje, kje
    "\u043a\u0301": "\u045c",
    "\u06d5\u0654": "\u0647",  # Persian heh with yeh above, as heh: PersianNormalizer
}
_ACCENTS = (
    r"\u0300-\u036f\u0483-\u0487\u1ab0-\u1abd\u1abf-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u20e1\u20e5-\u20f0\u302a-\u302f"
    r"\ufe20-\ufe2f"  # all but the last of these lines: UTR 30
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # points of Hebrew
    r"\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0898-\u089f"
    r"\u08ca-\u08e1\u08e3-\u08ff"  # vowel marks of Arabic
    r"\u093c"  # dot below of Devanagari: HindiNormalizer
)
_DROPPED = re.compile(f"[{_ACCENTS}][{_ACCENTS}]*")
_LETTERS = {
    # Dashes and minuses, quotes: UTR 30. As ASCII, most texts in Latin script take the short way.
    **dict.fromkeys("\u02d7\u058a\u05be\u1400\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e17\u2e1a", "-"),
    **dict.fromkeys("\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\U00010d6e\U00010ead", "-"),
    **dict.fromkeys("\u2018\u2019\u02b9\u02bb\u02bc\u02bd\u02be\u02bf", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    # Latin letters that NFKD leaves whole: UTR 30
    **{"\u00e6": "ae", "\u00f0": "d", "\u00f8": "o", "\u00fe": "th", "\u0111": "d", "\u0127": "h", "\u0131": "i"},
    **{"\u0138": "q", "\u0142": "l", "\u014b": "n", "\u0153": "oe", "\u0167": "t"},
    # Arabic yeh without dots, teh marbuta as heh: ArabicNormalizer; alef wasla: the vocabulary
    **{"\u0649": "\u064a", "\u0629": "\u0647", "\u0671": "\u0627"},
    # Persian yeh, kaf; Urdu heh: PersianNormalizer, but not its yeh barree, another letter in Urdu
    **{"\u06cc": "\u064a", "\u06a9": "\u0643", "\u06c1": "\u0647"},
    "\u0901": "\u0902",  # Devanagari candrabindu as anusvara: HindiNormalizer
}
_FOLDED = re.compile(rf"[\d{''.join(_LETTERS)}{TRADITIONAL}]")
# Devanagari nasals before a stop, as anusvara: the vocabulary; HindiNormalizer folds na before any consonant.
_NASAL = re.compile(
    "[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u0918\u091a-\u091d\u091f-\u0922\u0924-\u0927\u092a-\u092d])"
)

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


def fold(text: str) -> str:
    """Return a text with one spelling of each word: NFKC, lower case, without accents and invisible characters."""
    if text.isascii():
        return _with_names(text.encode().translate(_ASCII_LOWER, _ASCII_REMOVED).decode())
    visible = _REMOVED.sub("", text)
    if _NON_JOINER in visible:
        visible = _DIVIDING.sub(" ", visible).replace(_NON_JOINER, "")
    visible = _APART.sub(_apart, visible)
    folded = unicodedata.normalize("NFKD", cut_marks(visible)).casefold()
    for parts, letter in _OWN_LETTERS.items():
        folded = folded.replace(parts, letter)
    folded = _DROPPED.sub("", folded)
    if not folded.isascii():
        folded = _FOLDED.sub(_plain, folded)
    if not folded.isascii():
        if "\u094d" in folded:
            folded = _NASAL.sub("\u0902", folded)
        folded = unicodedata.normalize("NFKC", folded)  # nothing since NFKD has made a run of marks longer
    return _with_names(folded)


def cut_marks(text: str) -> str:
    """Cut runs of combining marks at 30: `unicodedata.normalize` sorts a run in the square of its length.

    For search terms and keys only: runs of other signs are cut, too. 30 is that of Unicode's stream-safe text.
    """
    text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")  # the two marks that `re` takes for letters
    return _MARKS.sub(r"\1", text)


def _apart(found: re.Match[str]) -> str:
    char = found[0]
    if char in _TRADE_MARKS:
        return " "
    return f" {char} " if _APART.fullmatch(char) else f" {char}"  # alone, what is raised is behind no number


def _plain(found: re.Match[str]) -> str:
    char = found[0]
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return _LETTERS.get(char) or _simplified()[ord(char)]


@cache
def _simplified() -> str:
    """A character at each place up to the last of Han: itself, or what it is in simplified Chinese. 80 kB."""
    characters = list(map(chr, range(0xA000)))
    for traditional, simplified in zip(TRADITIONAL, SIMPLIFIED, strict=True):
        characters[ord(traditional)] = simplified
    return "".join(characters)


def _with_names(text: str) -> str:
    if "+" in text or "#" in text or "\u266f" in text:
        text = _named().sub(lambda found: f"{found[1]}{'plusplus' if found[2] else 'sharp'} ", text)
    return _dotnet().sub("dotnet ", text) if ".net" in text else text


@cache
def _named() -> re.Pattern[str]:
    """C++, C# and their like, which would be a letter."""
    return re.compile(rf"(?<![^\W{UNSPACED}])([a-z])(?:(\+\+)(?!\+)|[#\u266f](?![^\W\d_{UNSPACED}]))")


@cache
def _dotnet() -> re.Pattern[str]:
    """.NET, which would be a net."""
    return re.compile(rf"(?<![^\W{UNSPACED}])\.net(?![^\W{UNSPACED}])")
