"""Names the language of a document: by its metadata, else by its script. Guesses no language from words."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

OTHER = "other"
MOST = 20  # languages told apart; the rest are OTHER
LEAST_DOCUMENTS = 20  # of a language that has figures of its own
LOOKED_AT = 400  # characters of a text
KANA = {"Hiragana", "Katakana"}  # one of them tells Japanese from Chinese, whatever else there is
HAN = "Cjk"


def language_of(metadata: Mapping[str, object], text: str, *, field: str) -> str:
    """The value of the metadata field; without one, the script with most letters: `Latin script`."""
    value = metadata.get(field)
    return value if isinstance(value, str) and value else f"{script_of(text)} script"


def script_of(text: str) -> str:
    """`Latin`, `Cyrillic`, `Han`, `Kana`, .. after the Unicode names of the letters; `no` without letters."""
    found = Counter(unicodedata.name(char, "no").split()[0].capitalize() for char in text[:LOOKED_AT] if char.isalpha())
    if found.keys() & KANA:
        return "Kana"
    script = found.most_common(1)[0][0] if found else "no"
    return "Han" if script == HAN else script


def grouped(languages: Iterable[str]) -> list[str]:
    """The languages to tell apart, most frequent first, OTHER last if there are others."""
    counts = Counter(languages).most_common()
    named = [name for name, count in counts[:MOST] if count >= LEAST_DOCUMENTS]
    return named if len(named) == len(counts) else [*named, OTHER]
