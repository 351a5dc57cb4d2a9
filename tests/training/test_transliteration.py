import random
import unicodedata

from tests.training.names import NAMES, SYLLABLES, cyrillic
from training.corpora.transliteration import Transliterator, has_sound, sounding_alike

LINKS = {(name.lower(), cyrillic(name)): 2 for name in NAMES}
EITHER = {(name, other.replace("е", "э") if "v" in name else other): 1 for name, other in LINKS}  # Cyrillic's other "e"


def translations(count: int) -> list[tuple[str, str]]:
    """Words that do not sound alike."""
    draw = random.Random(1)
    words = [
        ("".join(draw.choices(SYLLABLES, k=3)), cyrillic("".join(draw.choices(SYLLABLES, k=3)))) for _ in range(count)
    ]
    return list(dict.fromkeys(words))


def test_words_that_sound_alike_are_found_among_many_that_do_not() -> None:
    others = translations(1_000)
    found = set(sounding_alike([*LINKS, *others]))
    assert len(found & set(LINKS)) >= 0.98 * len(LINKS)
    assert len(found - set(LINKS)) <= 0.02 * len(others)


def test_a_name_is_written_by_its_sound() -> None:
    """Two letters that stand for one, too; the likeliest form first."""
    transliterator = Transliterator(LINKS, ["mandela", "shalimar"])
    assert next(iter(transliterator.spellings("mandela", 3))) == "мандела"
    assert next(iter(transliterator.spellings("shalimar", 1))) == "шалимар"


def test_the_likelier_spelling_is_first() -> None:
    spellings = Transliterator(EITHER, ["mandela"]).spellings("mandela", 3)
    assert list(spellings)[:2] == ["мандела", "мандэла"]
    assert spellings["мандела"] == 1
    assert spellings["мандэла"] < 1
    assert list(Transliterator(EITHER, ["mandela"]).spellings("mandela", 1)) == ["мандела"]


def test_a_name_with_a_letter_that_was_never_seen_is_not_written() -> None:
    assert Transliterator(LINKS, ["qatar", "mandela"]).spellings("qatar", 5) == {}


def test_a_spelling_may_differ_at_the_beginning_of_a_long_name() -> None:
    transliterator = Transliterator(EITHER, ["medularonitu"])
    assert list(transliterator.spellings("medularonitu", 3))[:2] == ["медуларониту", "мэдуларониту"]


def test_what_seldom_stands_for_a_word_is_not_learnt_from() -> None:
    """Each name's Cyrillic form is one of ten counterparts, or the name one of forty."""
    seldom = LINKS | {(name, f"слово{number}"): 2 for name, _ in LINKS for number in range(9)}
    assert Transliterator(seldom, ["mandela"]).spellings("mandela", 3) == {}
    back = LINKS | {("the", other): 50 for _, other in LINKS}
    assert Transliterator(back, ["mandela"]).spellings("mandela", 3) == {}


def test_what_is_taught_by_too_little_is_not_used() -> None:
    few = dict(list(LINKS.items())[:100])
    assert Transliterator(few, ["mandela"]).spellings("mandela", 3) == {}
    assert Transliterator({}, ["mandela"]).spellings("mandela", 3) == {}


def test_latin_letters_are_not_put_into_latin_ones() -> None:
    same = {(name.lower(), name.lower().replace("k", "c").replace("a", "á")): 1 for name in NAMES}
    assert Transliterator(same, ["mandela"]).spellings("mandela", 3) == {}


def test_korean_syllables_are_put_together() -> None:
    hangul = {"n": "ᄂ", "m": "ᄆ", "k": "ᄏ", "t": "ᄐ", "b": "ᄇ", "d": "ᄃ", "r": "ᄅ", "s": "ᄉ"}
    vowels = {"a": "ᅡ", "e": "ᅦ", "i": "ᅵ", "o": "ᅩ", "u": "ᅮ"}
    syllables = [f"{onset}{vowel}" for onset in hangul for vowel in vowels]

    def korean(name: str) -> str:
        return unicodedata.normalize("NFC", "".join({**hangul, **vowels}[letter] for letter in name))

    draw = random.Random(1)
    names = dict.fromkeys("".join(draw.choices(syllables, k=3)) for _ in range(400))
    transliterator = Transliterator({(name, korean(name)): 1 for name in names}, ["kanada"])
    assert next(iter(transliterator.spellings("kanada", 1))) == "카나다"


def test_what_has_a_sound() -> None:
    assert has_sound("Obama")
    assert not any(map(has_sound, ["Li", "2nd", "Zoë", "Обама", ""]))
