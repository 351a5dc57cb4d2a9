"""Hangul while it is typed: what the last syllable may become, by the keys of the common keyboard (KS X 5002)."""

INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = [*"ㅏㅐㅑㅒㅓㅔㅕㅖㅗ", "ㅗㅏ", "ㅗㅐ", "ㅗㅣ", *"ㅛㅜ", "ㅜㅓ", "ㅜㅔ", "ㅜㅣ", *"ㅠㅡ", "ㅡㅣ", "ㅣ"]
AFTER_RIEUL = [f"ㄹ{letter}" for letter in "ㄱㅁㅂㅅㅌㅍㅎ"]
FINALS = ["", *"ㄱㄲ", "ㄱㅅ", "ㄴ", "ㄴㅈ", "ㄴㅎ", *"ㄷㄹ", *AFTER_RIEUL, *"ㅁㅂ", "ㅂㅅ", *"ㅅㅆㅇㅈㅊㅋㅌㅍㅎ"]
FIRST, OF_INITIAL = 0xAC00, len(VOWELS) * len(FINALS)  # Unicode orders syllables by initial, vowel, final
FIRST_INITIAL = 0x1100  # of the letters alone, as `fold` writes them


def is_syllable(char: str) -> bool:
    """Return whether a character is a Hangul syllable or its initial alone."""
    return 0 <= ord(char) - FIRST < len(INITIALS) * OF_INITIAL or 0 <= ord(char) - FIRST_INITIAL < len(INITIALS)


def keys(text: str) -> str:
    """Return the keys that type syllables and initials."""
    return "".join(map(_keys, text))


def completions(term: str) -> list[list[str]]:
    """Return what a term of one or two syllables may become with further keys: lists, each in the order of its terms.

    A final may become the initial of a syllable that follows: 핫 of 하세.
    """
    before, last = term[:-1], term[-1]
    typed = _keys(last)
    siblings = _beginning(typed[0])
    lists = [[before + char for char in siblings if _keys(char).startswith(typed)]]
    open_ = next((char for char in siblings if _keys(char) == typed[:-1]), None)
    if open_ is not None and typed[-1] in INITIALS:
        lists.append([open_ + char for char in _beginning(typed[-1])])
        if before:
            lists.append([before + open_])
    return lists


def _keys(char: str) -> str:
    if ord(char) < FIRST:
        return INITIALS[ord(char) - FIRST_INITIAL]
    initial, rest = divmod(ord(char) - FIRST, OF_INITIAL)
    vowel, final = divmod(rest, len(FINALS))
    return f"{INITIALS[initial]}{VOWELS[vowel]}{FINALS[final]}"


def _beginning(initial: str) -> list[str]:
    """Return the syllables with an initial."""
    start = FIRST + INITIALS.index(initial) * OF_INITIAL
    return list(map(chr, range(start, start + OF_INITIAL)))
