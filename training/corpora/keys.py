"""The key of a text: what stays when case, width, spaces, and punctuation around words vary.

Two texts of one key count as the same, for leakage, repeats and equal sides. A letter, a vowel sign, a digit, a symbol
(C++, C#) or a mark inside a number (1.5, 15) makes another key.
"""

from __future__ import annotations

import re
import unicodedata

MOST_MARKS = 30  # in a row, as in Unicode's stream-safe text: normalising a run takes the square of its length
_MARK_RUN = re.compile(rf"([^\w\s!-~]{{{MOST_MARKS}}})[^\w\s!-~]++")  # of marks, and of symbols, which does no harm
_ACCENT_ALONE = re.compile("[\xa8\xaf\xb4\xb8\u02d8-\u02dd]")  # typed as an apostrophe
_RAISED = re.compile("(?<=\\d)([\xb2\xb3\xb9\xbc-\xbe\u2070-\u2089\u2150-\u215f\u2460-\u24ff])")  # 10² is not 102
# Written or left out at will: invisible characters, Hebrew points, Arabic vowel signs and tatweel, Cyrillic stress.
_OPTIONAL = re.compile(
    "[\xad\u02bb\u02bc\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]|(?<=[\u0400-\u052f])\u0301"
)
_DASH = re.compile("[\u2010-\u2015\u2212]")
_TURKISH = re.compile("[\u0131ğşİĞŞ]")  # where the dotless capital has a dotless small letter
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"((?:(?<![^\s(\[])-)?\d(?:[^\w\s]*+\d)*+)")  # with its sign, and the marks between its digits
_BETWEEN_NUMBERS = re.compile(r"(?<=\d) (?=\d)")
_SIGNS = "#%&@§‰"  # punctuation that is read aloud
_DECORATION = re.compile("[~|\u2500-\u25ff\u2669-\u266c]")  # symbols of lists, frames and subtitles


class _Kept(dict[int, str]):
    """For `str.translate`: letters, marks, digits and symbols stay; punctuation and control characters go."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        is_symbol = category[0] == "S" and category != "Sk" and not _DECORATION.match(character)
        is_kept = category[0] in "LMN" or is_symbol or character in _SIGNS
        self[code] = character if is_kept else " " if character.isspace() or category == "Ps" else ""
        return self[code]


_KEPT = _Kept()


def matching_words(text: str) -> list[str]:
    """Return the folded words of a text without the punctuation around them; of punctuation alone the text itself."""
    if not text.isascii():
        text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")  # letters that NFKC turns into marks
        text = _MARK_RUN.sub(r"\1", text)
        text = unicodedata.normalize("NFKC", _RAISED.sub(r" \1", _ACCENT_ALONE.sub("", text)))
        text = _DASH.sub("-", _OPTIONAL.sub("", text))
        if _TURKISH.search(text):
            text = text.replace("I", "\u0131").replace("İ", "i")
    text = text.casefold().replace("i\u0307", "i")
    parts = _NUMBER.split(text) if _DIGIT.search(text) else [text]
    parts[::2] = [part.translate(_KEPT) for part in parts[::2]]  # between numbers
    return "".join(parts).split() or text.split()


def key_of(words: list[str]) -> str:
    """Return the key of a text's `matching_words`: spaces stay only between numbers, as some scripts write none."""
    return _BETWEEN_NUMBERS.sub("\n", " ".join(words)).replace(" ", "")


def matching_key(text: str) -> str:
    """Return the key of a text; empty where it is blank."""
    return key_of(matching_words(text))
