"""Names, made up of syllables, and how Russian would write them: a text to learn transliteration from."""

from itertools import product

ONSETS = ["b", "d", "k", "l", "m", "n", "r", "s", "t", "v"]
VOWELS = ["a", "e", "i", "o", "u"]
SYLLABLES = [f"{onset}{vowel}" for onset, vowel in product(ONSETS, VOWELS)]
NAMES = [
    f"{SYLLABLES[i]}{SYLLABLES[(7 * i + step) % 50]}{end}".capitalize()
    for step, end in enumerate(["n", "rd", "ka", "shan", "l"])
    for i in range(50)
]
CYRILLIC = {
    "sh": "ш", "a": "а", "b": "б", "d": "д", "e": "е", "i": "и", "k": "к", "l": "л", "m": "м", "n": "н", "o": "о",
    "r": "р", "s": "с", "t": "т", "u": "у", "v": "в",
}  # fmt: skip


def cyrillic(name: str) -> str:
    """Lower case."""
    name = name.lower()
    for latin, letter in CYRILLIC.items():
        name = name.replace(latin, letter)
    return name
