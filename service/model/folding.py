"""Rewrites a text in the letters that a model's training text has: no words in capitals, no vowel marks.

A model of few pieces reads WINTERJACKE and كِتَابٌ letter by letter, and loses what they mean.
"""

import re

LEAST_CAPITALS = 5  # of a word: shorter ones are mostly abbreviations (NATO, US)
LEAST_IN_ROW = 8  # of words in a row
# Arabic vowel marks and tatweel, without the hamzas and the madda, which are parts of letters; the Russian stress.
MARKS = re.compile(
    "[\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
    "|(?<=[аеиоуыэюяіїєАЕИОУЫЭЮЯІЇЄ])\u0301"
)
_TWO_CAPITALS = re.compile(f"[{''.join(filter(str.isupper, map(chr, range(0x2000))))}\uff21-\uff3a]{{2}}")
_WORD = re.compile(r"\S+|[\n\r\x85\u2028\u2029]")
_ENDS = tuple(".:;!?…。！？؟۔।\n\r\x85\u2028\u2029")  # noqa: RUF001 - a row of words ends with its sentence


def folded(text: str) -> str:
    """Write words in capitals in small letters, and leave out vowel marks. Nothing else changes.

    Words in capitals that follow each other stay as they are if none has LEAST_CAPITALS and all together have fewer
    than LEAST_IN_ROW.
    """
    text = MARKS.sub("", text)
    if not _TWO_CAPITALS.search(text):  # most texts
        return text
    parts: list[str] = []
    end = 0
    for start, stop in _rows(text):
        parts += [text[end:start], _small(text[start:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def origins(text: str) -> list[int]:
    """Return where in a text each character of `folded` stands, and where the text ends."""
    left_out = {mark.start() for mark in MARKS.finditer(text)}
    return [place for place in range(len(text) + 1) if place not in left_out]


def _rows(text: str) -> list[tuple[int, int]]:
    """Return where words in capitals are that become small. Words without letters belong to any row."""
    found: list[tuple[int, int]] = []
    row: list[tuple[int, int, int]] = []  # start, stop, capitals of each word

    def close() -> None:
        if row and (max(word[2] for word in row) >= LEAST_CAPITALS or sum(word[2] for word in row) >= LEAST_IN_ROW):
            found.append((row[0][0], row[-1][1]))
        row.clear()

    for match in _WORD.finditer(text):
        word = match[0]
        if word.isupper():
            row.append((*match.span(), sum(map(str.isupper, word))))
        elif any(map(str.isalpha, word)):
            close()
        if word.endswith(_ENDS):
            close()
    close()
    return found


def _small(text: str) -> str:
    """Write a text in as many small letters. One with İ is Turkish, where I has a small letter without a dot."""
    return (text.replace("I", "\u0131").replace("İ", "i") if "İ" in text else text).lower()
