"""Folds text for keyword search: spellings of one word become one. Knows Unicode; knows no terms.

Sources of the tables: UTR 30 is Unicode's technical report 30 as Lucene has it (analysis/icu/src/data/utr30); other
names are classes of Lucene (analysis/common); the vocabulary is the model's (training/vocabulary).
"""

import re
import unicodedata
from functools import cache

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
