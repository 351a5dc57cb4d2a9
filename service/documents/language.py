"""Tells the language of a query: by its script, or by the n-grams of its words. Unsure, it tells none."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache

from service.documents.interface import Preference
from service.documents.keywords.near import base_language
from service.documents.keywords.simplified import SIMPLIFIED, TRADITIONAL
from service.documents.language_table import TABLE
from service.documents.names import PREFERENCE

LATIN = ("cs", "de", "en", "es", "fr", "id", "it", "nl", "pl", "pt", "tr", "vi")
ALPHABET = string.ascii_letters + string.digits + "+-"  # the weights in the table, from the least to the greatest
READ_CHARS = 300
SURE = 8  # by how much the sum of a language's weights exceeds the next one's; 8 are a factor of e

_WORD = re.compile(r"[^\W\d_]+")
# A character of the first three says as much as several letters, so that a foreign name beside it changes nothing.
_SCRIPTS = {
    "kana": (r"\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff", 3),
    "han": (r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff", 3),
    "hangul": (r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3", 3),
    "arabic": (r"\u0620-\u064a\u066e-\u06d3", 1),
    "devanagari": (r"\u0904-\u0939\u0958-\u0961", 1),
    "cyrillic": (r"\u0400-\u052f", 1),
    "latin": (r"A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u024f\u1e00-\u1eff", 1),
}
_CHARACTERS = {name: (re.compile(f"[{ranges}]"), weight) for name, (ranges, weight) in _SCRIPTS.items()}
_OF_SCRIPT = {"kana": "ja", "hangul": "ko", "arabic": "ar", "devanagari": "hi", "cyrillic": "ru"}
# Letters of Persian and Urdu, of Ukrainian, Belarusian, Serbian and Macedonian, of Marathi.
_OTHER_LANGUAGES = re.compile("[پچژگکیٹڈڑںےہۃіїєґўђјљњћџѓќѕळІЇЄҐЎЂЈЉЊЋЏЃЌЅ]")
_SIMPLIFIED, _TRADITIONAL = ("Hans", "CN", "SG"), ("Hant", "TW", "HK", "MO")  # in codes of Chinese


def language_of(text: str) -> str | None:
    """Return the ISO code of a text's language, `zh_Hant` for Traditional Chinese. None: unsure, or not the model's."""
    text = unicodedata.normalize("NFKC", text[:READ_CHARS])
    share = {name: weight * len(pattern.findall(text)) for name, (pattern, weight) in _CHARACTERS.items()}
    if share["kana"]:
        share["kana"] += share.pop("han")
    script = max(share, key=lambda name: share[name])
    if not share[script] or _OTHER_LANGUAGES.search(text):
        return None
    if script == "han":
        chars = _CHARACTERS["han"][0].findall(text)
        if all(0xA1 <= char.encode("euc_jp", "replace")[0] < 0xD0 for char in chars):  # level 1 of JIS X 0208
            return None  # Japanese writes all of them, too
        simplified = sum(char in SIMPLIFIED and char not in TRADITIONAL for char in text)
        return "zh_Hant" if sum(map(TRADITIONAL.__contains__, text)) > simplified else "zh"
    return _OF_SCRIPT.get(script) or _by_n_grams(text)


def preference(language: str, field: str = "lang", weight: float = PREFERENCE) -> Preference:
    """Return the preference for documents in a language, by any code of it: of German also `de-AT` and `de_AT`."""
    base = base_language(language)
    parts: tuple[str, ...] = ("",)
    if base == "zh":
        is_traditional = any(part.lower() in re.split("[-_]", language.lower()) for part in _TRADITIONAL)
        parts = _TRADITIONAL if is_traditional else _SIMPLIFIED
        parts = (*parts, *map(str.lower, parts))
    return Preference(field, base, weight, tuple(f"{base}{sign}{part}" for sign in "-_" for part in parts))


def n_grams(text: str) -> Iterator[str]:
    """Yield the n-grams of words: up to three characters, and longer at their beginning and their end."""
    for word in _WORD.findall(text.lower()):
        marked = f"_{word}_"
        for size in (1, 2, 3):
            yield from (marked[at : at + size] for at in range(len(marked) - size + 1))
        yield from (marked[:size] for size in (4, 5) if len(marked) >= size)
        if len(marked) > 5:
            yield marked[-4:]


def _by_n_grams(text: str) -> str | None:
    total = [0] * len(LATIN)
    for gram, count in Counter(n_grams(text)).items():
        if (weights := _weights().get(gram)) is not None:
            total = [sum_ + count * weight for sum_, weight in zip(total, weights, strict=True)]
    best, next_ = sorted(total, reverse=True)[:2]
    return LATIN[total.index(best)] if best - next_ >= SURE else None


@cache
def _weights() -> dict[str, list[int]]:
    entries = TABLE.split()
    return {entry[: -len(LATIN)]: [*map(ALPHABET.index, entry[-len(LATIN) :])] for entry in entries}
