"""Cuts texts into terms for keyword search: folds spellings of one word into one, then finds words, codes and numbers.

Thai, Chinese, Japanese, Korean and their like: character bigrams, as Lucene's CJKBigramFilter makes them; there is no
dictionary. Codes: WK-1702 is also wk1702. Numbers: 10,000 is also 10000.

Sources of the tables: UTR 30 is Unicode's technical report 30 as Lucene has it (analysis/icu/src/data/utr30); other
names are classes of Lucene (analysis/common); the vocabulary is the model's (training/vocabulary).
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from service.documents.keywords.hangul import is_syllable
from service.documents.keywords.simplified import SIMPLIFIED, TRADITIONAL
from service.invisible import INVISIBLE

# Letters and marks of scripts that write no spaces between words, and of Hangul, whose words have endings.
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

# The Arabic lengthener, alone and below vowel marks (ArabicNormalizer); enclosing marks. They interrupt runs of marks.
ENCLOSING = r"\u0640\ufcf2-\ufcf4\ufe71\ufe77\ufe79\ufe7b\ufe7d\ufe7f\u0488\u0489\u1abe\u20dd-\u20e0\u20e2-\u20e4"
_REMOVED = re.compile(f"[{INVISIBLE}{ENCLOSING}]")
_ASCII_REMOVED = bytes([*range(9), *range(14, 32), 127])
_ASCII_LOWER = bytes(range(256)).lower()
_NON_JOINER = "\u200c"
# In cursive scripts it divides a word (PersianCharFilter); elsewhere it is invisible.
_CURSIVE = r"\u0600-\u077f\u07c0-\u07ff\u0860-\u08ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc"
_DIVIDER = re.compile(rf"(?<=[{_CURSIVE}]){_NON_JOINER}++(?=[{_CURSIVE}])")

# NFKD spells these out, and would join them to the word or number beside them: fractions, circled numbers, trade marks,
# and superscripts after a number. Other superscripts belong to their word.
_SUPERSCRIPTS = r"\xb2\xb3\xb9\u2070-\u209c"
_TRADE_MARKS = "\u2120\u2122"
_SPELLED_OUT = re.compile(
    rf"[{_SUPERSCRIPTS}\xbc-\xbe\u2116{_TRADE_MARKS}\u2121\u213b\u2150-\u215f\u2189\u2460-\u249b\u24ea]"
    rf"(?:(?<![{_SUPERSCRIPTS}])|(?<=\d.))"
)

# Signs and symbols, including every combining mark.
_SIGN = r"[^\w\s\x00-\x7f]"
_LONG_RUN = re.compile(rf"({_SIGN}{_SIGN}{{29}}){_SIGN}+")  # `re` searches faster for a pattern that begins with a set

# Letters that keep their mark: without it, they are other letters of the alphabet.
_MARKED_LETTERS = {
    "\u0438\u0306": "\u0439",  # Russian short i; yo becomes ye, and stress marks go (RussianLightStemFilter)
    "\u0443\u0306": "\u045e",  # Belarusian short u
    "\u0456\u0308": "\u0457",  # Ukrainian yi
    "\u0433\u0301": "\u0453",  # Macedonian gje, kje
    "\u043a\u0301": "\u045c",
    "\u06d5\u0654": "\u0647",  # Persian heh with yeh above, as heh: PersianNormalizer
}
_ACCENTS = (
    r"\u0300-\u036f\u0483-\u0487\u1ab0-\u1abd\u1abf-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u20e1\u20e5-\u20f0\u302a-\u302f"
    r"\ufe20-\ufe2f"  # the line above: UTR 30
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # points of Hebrew
    r"\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0898-\u089f"
    r"\u08ca-\u08e1\u08e3-\u08ff"  # vowel marks of Arabic
    r"\u093c"  # dot below of Devanagari: HindiNormalizer
)
_ACCENT_RUN = re.compile(f"[{_ACCENTS}][{_ACCENTS}]*")
_REPLACEMENTS = {
    # Dashes and minuses, quotes: UTR 30. Most texts in Latin script are then ASCII, which is faster.
    **dict.fromkeys("\u02d7\u058a\u05be\u1400\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e17\u2e1a", "-"),
    **dict.fromkeys("\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\U00010d6e\U00010ead", "-"),
    **dict.fromkeys("\u2018\u2019\u02b9\u02bb\u02bc\u02bd\u02be\u02bf", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    # Latin letters that NFKD does not decompose: UTR 30
    **{"\u00e6": "ae", "\u00f0": "d", "\u00f8": "o", "\u00fe": "th", "\u0111": "d", "\u0127": "h", "\u0131": "i"},
    **{"\u0138": "q", "\u0142": "l", "\u014b": "n", "\u0153": "oe", "\u0167": "t"},
    # Arabic yeh without dots, teh marbuta as heh: ArabicNormalizer; alef wasla: the vocabulary
    **{"\u0649": "\u064a", "\u0629": "\u0647", "\u0671": "\u0627"},
    # Persian yeh, kaf; Urdu heh: PersianNormalizer, without its yeh barree, which is a letter of its own in Urdu
    **{"\u06cc": "\u064a", "\u06a9": "\u0643", "\u06c1": "\u0647"},
    "\u0901": "\u0902",  # Devanagari candrabindu as anusvara: HindiNormalizer
}
_REPLACED = re.compile(rf"[\d{''.join(_REPLACEMENTS)}{TRADITIONAL}]")
# Devanagari nasals before a stop, as anusvara: the vocabulary; HindiNormalizer folds na before any consonant.
_NASAL = re.compile(
    "[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u0918\u091a-\u091d\u091f-\u0922\u0924-\u0927\u092a-\u092d])"
)

RULES = f"3-{unicodedata.unidata_version}"  # version of these rules, and of Unicode
MAX_TERM_CHARS = 64  # the end of a longer word is hashed
MAX_QUERY_TERMS = 256
MAX_QUERY_CHARS = MAX_QUERY_TERMS * MAX_TERM_CHARS
SHORTEST_LISTED = 3  # characters of a term of the vocabulary
ENDS = 0xE000  # private characters, which terms lack: the one at a term's length marks its end
MAX_CODE_WORDS = 8  # of a code whose place in a text is found
_HASH_BYTES = 8
_DASH, _DOT_OR_SLASH = "\x01", "\x02"  # stand for the separators within a code; folded text has neither
_SEPARATOR = re.compile(f"[{_DASH}{_DOT_OR_SLASH}]")
_DIGIT = re.compile("[0-9]")  # folded text has no other digits
# Numbers with groups of three digits: 10,000, 10 000, 10'000; or as in India, 1,00,000.
_GROUPED = re.compile(
    rf"[0-9](?<![^\W{UNSPACED}].)(?<![.,'\u066c].)(?:[0-9]{{0,2}}([ ,'\u066c])[0-9]{{3}}(?:\1[0-9]{{3}})*"
    r"|[0-9]?(?:,[0-9]{2})+,[0-9]{3}(?!,[0-9]))(?![0-9])"
)
_WHOLE_WORDS = re.compile(rf".*[\s{UNSPACED}]", re.DOTALL)  # up to the last place where a word ends


@dataclass(frozen=True)
class _Patterns:
    """run: unspaced characters (group 1) or a word (group 2).  separator: within a code."""

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
    """Return the distinct terms of a query. True: the term is a single unspaced character, the beginning of terms.

    Reads MAX_QUERY_CHARS. Returns at most MAX_QUERY_TERMS: codes first, then other terms with digits, then words.
    """
    folded = fold(text[:MAX_QUERY_CHARS])
    if len(text) > MAX_QUERY_CHARS:
        whole_words = _WHOLE_WORDS.match(folded)
        folded = whole_words[0] if whole_words else ""  # the last word may have been cut
    terms = dict.fromkeys(_codes(folded), False)
    for unspaced, word in _runs(folded):
        if word:
            terms[_term(word)] = False
        else:
            starts = range(max(1, len(unspaced) - 1))
            terms |= {unspaced[start : start + 2]: len(unspaced) == 1 for start in starts}
    chosen = sorted(terms, key=lambda term: not has_digit(term))[:MAX_QUERY_TERMS]
    return {term: terms[term] for term in chosen}


def typed_terms(text: str) -> list[str]:
    """Return the terms of a query that end where it ends, which may go on: `wk17` and `17` of `WK-17`."""
    if len(text) > MAX_QUERY_CHARS:
        return []
    *_, last = ["", *fold(text).split(" ")]
    joined = _patterns(is_ascii=False).separator.sub("", last)
    terms = dict.fromkeys(document_terms(last))
    return [term for term in terms if (len(term) > 1 or is_syllable(term)) and joined.endswith(term)]


def has_digit(term: str) -> bool:
    """Return whether a term is a code, part of one, or a number."""
    return _DIGIT.search(term) is not None


def occurring(terms: Mapping[str, bool], text: str) -> list[str]:
    """Return the query terms that a text has, as `document_terms` would say, without cutting all of it into terms."""
    folded = fold(text)
    computed = set(_codes(folded)) if any(map(has_digit, terms)) else set()
    if any(len(term) == MAX_TERM_CHARS for term in terms):
        computed |= {_term(word) for _, word in _runs(folded)}
    return [term for term in terms if term in computed or (term in folded and _is_term(term, folded))]


def marked(end: str, length: int) -> str:
    """Return the end of a term of some length, or all of it, as trigrams are made of it."""
    return end + chr(ENDS + length)


def places(folded: str, terms: Collection[str]) -> list[tuple[int, int, str]]:
    """Return where a folded text has terms, codes of several words included: start, stop and term, by start."""
    found = [number for number in _grouped_numbers(folded) if number[2] in terms]
    words: list[re.Match[str]] = []  # the last ones
    for run in _patterns(is_ascii=folded.isascii()).run.finditer(folded):
        if run[1]:
            for start in range(run.start(), run.end()):
                term = folded[start : min(start + 2, run.end())]
                found += [(start, start + len(part), part) for part in (term, term[0]) if part in terms][:1]
            continue
        words = [*words[1 - MAX_CODE_WORDS :], run]
        parts = [word[0] for word in words]
        joined = ["".join(parts[first:]) for first in range(len(parts))]
        found += [
            (word.start(), run.end(), term)
            for word, term in zip(words, [*joined[:-1], _term(run[0])], strict=True)
            if term in terms and (word is run or term in _codes(folded[word.start() : run.end()]))
        ]
    return sorted({*found})


def _is_term(term: str, folded: str) -> bool:
    """Return whether a string that occurs in a text is a word there, or part of a run of unspaced characters."""
    match = _patterns(is_ascii=folded.isascii()).word.match
    start = folded.find(term)
    while start >= 0:
        word = match(folded, start)
        if word is None:
            return True  # unspaced
        if len(term) == word.end() - start and (start == 0 or not match(folded, start - 1)):
            return True
        start = folded.find(term, word.end())  # no term begins within a word and ends in the next
    return False


def _term(word: str) -> str:
    if len(word) <= MAX_TERM_CHARS:
        return word
    end = MAX_TERM_CHARS - 2 * _HASH_BYTES
    return word[:end] + blake2b(word[end:].encode(), digest_size=_HASH_BYTES).hexdigest()


def _codes(folded: str) -> list[str]:
    """Return the numbers without separators of groups, and the codes without their separators."""
    if not has_digit(folded):
        return []
    codes = [digits for *_, digits in _grouped_numbers(folded)]
    separator = _patterns(is_ascii=folded.isascii()).separator
    marked = separator.sub(lambda match: _DASH if match[0] == "-" else _DOT_OR_SLASH, folded)
    for part in _parts_with_codes(marked):
        for _, word in _runs(part):
            dashed = [piece for piece in word.split(_DOT_OR_SLASH) if _DASH in piece]  # F-16/F-18 are two codes, too
            codes += [
                _SEPARATOR.sub("", code)
                for code in dict.fromkeys([word, *dashed])
                if _SEPARATOR.search(code) and has_digit(code)
            ]
    return list(map(_term, codes))


def _grouped_numbers(folded: str) -> Iterator[tuple[int, int, str]]:
    """Yield where numbers with groups of digits are, and their digits: start, stop and term."""
    for number in _GROUPED.finditer(folded):
        yield number.start(), number.end(), "".join(_DIGIT.findall(number[0]))


def _parts_with_codes(marked: str) -> Iterator[str]:
    """Yield the parts between spaces that have a separator."""
    end = 0
    while separator := _SEPARATOR.search(marked, end):
        start = max(marked.rfind(" ", end, separator.start()), end)
        end = marked.find(" ", separator.start())
        end = len(marked) if end < 0 else end
        yield marked[start:end]


def _runs(folded: str) -> list[tuple[str, str]]:
    """Return the runs of unspaced characters and the words of a text; one of the two is empty."""
    return _patterns(is_ascii=folded.isascii()).run.findall(folded)


@cache
def _patterns(*, is_ascii: bool) -> _Patterns:
    """Compile the patterns. Those for ASCII texts are faster, and need no table of characters."""
    if is_ascii:
        letter = before = "[a-z0-9]"
        word = f"[a-z0-9{_DASH}{_DOT_OR_SLASH}]+"
    else:
        low, high = _word_characters(0, 0xFFFF), _word_characters(0x10000, 0x1FFFF)
        letter, before = rf"[^\W_{UNSPACED}]", f"[{low}{high}]"
        # Try the many ranges beyond U+FFFF only for a character beyond it.
        word = rf"(?:[{_DASH}{_DOT_OR_SLASH}{low}]+|(?=[\U00010000-\U0001ffff])[{high}]+)+"
    # `.` and `/` between digits are no separators: 1.10.
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
        visible = _DIVIDER.sub(" ", visible).replace(_NON_JOINER, "")
    visible = _SPELLED_OUT.sub(_set_apart, visible)
    folded = unicodedata.normalize("NFKD", cut_marks(visible)).casefold()
    for parts, letter in _MARKED_LETTERS.items():
        folded = folded.replace(parts, letter)
    folded = _ACCENT_RUN.sub("", folded)
    if not folded.isascii():
        folded = _REPLACED.sub(_replacement, folded)
    if not folded.isascii():
        if "\u094d" in folded:
            folded = _NASAL.sub("\u0902", folded)
        folded = unicodedata.normalize("NFKC", folded)  # runs of marks are still cut: nothing since NFKD adds marks
    return _with_names(folded)


def cut_marks(text: str) -> str:
    """Cut runs of combining marks at 30, as UAX #15's Stream-Safe Text Format does. Cuts runs of other signs, too.

    `unicodedata.normalize` sorts a run in the square of its length.
    """
    text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")  # `re` takes these two marks for letters
    return _LONG_RUN.sub(r"\1", text)


def _set_apart(match: re.Match[str]) -> str:
    char = match[0]
    if char in _TRADE_MARKS:
        return " "
    return f" {char} " if _SPELLED_OUT.fullmatch(char) else f" {char}"  # a superscript after a number


def _replacement(match: re.Match[str]) -> str:
    char = match[0]
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return _REPLACEMENTS.get(char) or _simplified()[ord(char)]


@cache
def _simplified() -> str:
    """Return a string with the simplified character of each code point below U+A000 at its place. 80 kB."""
    characters = list(map(chr, range(0xA000)))
    for traditional, simplified in zip(TRADITIONAL, SIMPLIFIED, strict=True):
        characters[ord(traditional)] = simplified
    return "".join(characters)


def _with_names(text: str) -> str:
    """Spell out C++, C#, .NET and their like, which would be a letter or a word."""
    if "+" in text or "#" in text or "\u266f" in text:
        text = _languages().sub(lambda match: f"{match[1]}{'plusplus' if match[2] else 'sharp'} ", text)
    return _dotnet().sub("dotnet ", text) if ".net" in text else text


@cache
def _languages() -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W{UNSPACED}])([a-z])(?:(\+\+)(?!\+)|[#\u266f](?![^\W\d_{UNSPACED}]))")


@cache
def _dotnet() -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W{UNSPACED}])\.net(?![^\W{UNSPACED}])")
