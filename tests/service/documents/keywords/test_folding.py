"""Folding: one spelling of a word, in time that grows with the text."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from service.documents.keywords import terms
from service.documents.keywords.simplified import SIMPLIFIED, TRADITIONAL
from service.documents.keywords.terms import ENCLOSING, cut_marks, document_terms, fold
from service.invisible import INVISIBLE
from training.vocabulary.tokenizer import dropping_invisible

ALL = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
VOCABULARY = normalizers.Sequence(dropping_invisible())


@pytest.mark.parametrize(
    "spellings",
    [
        ["naïve", "naïve", "NAIVE"],
        ["reið", "reid"],
        ["þing", "Þing", "thing"],
        ["Ħamrun", "hamrun"],
        ["Ŧ", "t"],
        ["ŋ", "n"],
        ["œuvre", "ŒUVRE", "oeuvre"],
        ["đường", "Đường", "duong"],  # Vietnamese
        ["ışık", "IŞIK", "isik"],  # Turkish
        ["İzmir", "izmir", "IZMIR"],
        ["Straße", "STRASSE", "STRAẞE"],  # German
        ["žluťoučký kůň", "zlutoucky kun"],  # Czech
        ["łódź", "lodz"],  # Polish
        ["ĳsland", "ijsland"],  # Dutch
        ["ёлка", "ЁЛКА", "елка"],  # Russian
        ["за́мок", "замок"],
        ["Άλφα", "αλφα"],  # Greek
        ["كِتَاب", "كتـــاب", "كتاب"],  # Arabic: vowel marks, lengthener
        ["ٱلله", "الله"],
        ["على", "علي"],
        ["مكتبة", "مكتبه"],
        ["أحمد", "احمد"],
        ["کتاب", "كتاب"],  # Persian letters
        ["ایران", "ايران"],
        ["خانۀ", "خانه"],
        ["ﻛﺘﺎﺏ", "كتاب"],  # presentation forms
        ["हिन्दी", "हिंदी"],  # Hindi: a nasal before its class
        ["पञ्च", "पंच"],
        ["गङ्गा", "गंगा"],
        ["घण्टा", "घंटा"],
        ["सम्बन्ध", "संबंध"],
        ["माँ", "मां"],
        ["क़लम", "क़लम", "कलम"],
        ["資料庫", "资料库"],  # Chinese
        ["臺灣", "台灣", "台湾"],
        ["ｹﾄﾙ", "ケトル"],  # Japanese
        ["ガラス", "ｶﾞﾗｽ", "ガラス"],
        ["佐々木", "佐々木"],
        ["한국", "한국"],  # Korean, NFD
        ["ㅋㅋ", "ᄏᄏ"],
        ["น้ำ", "น้ํา"],  # Thai
        ["שָׁלוֹם", "שלום"],  # Hebrew
        ["٤٨١٢٠", "۴۸۱۲۰", "४८१२०", "๔๘๑๒๐", "４８１２０", "48120"],
    ],
)
def test_spellings_of_a_word_are_one(spellings: list[str]) -> None:
    assert {fold(spelling) for spelling in spellings} == {fold(spellings[0])}


@pytest.mark.parametrize(
    "words",
    [
        ["май", "маи"],  # Russian short i
        ["мў", "му"],
        ["їжа", "іжа"],
        ["ќе", "ке"],
        ["لڑکی", "لڑکے"],  # Urdu: a girl, a boy's
        ["म", "न"],
        ["जन्म", "जंम"],  # no stop follows
        ["은", "는"],
        ["か", "が"],
    ],
)
def test_different_words_stay_apart(words: list[str]) -> None:
    assert len({fold(word) for word in words}) == len(words)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("5½", "5 1 2"),
        ("2½-Zimmer", "2 1 2 zimmer"),
        ("10²", "10 2"),
        ("10⁻¹⁶", "10 16"),
        ("2024¹", "2024 1"),  # a footnote
        ("m² H₂O x¹⁰", "m2 h2o x10"),
        ("№5", "no 5"),
        ("℡5", "tel 5"),
        ("Foo™ Bar℠", "foo bar"),
        ("①② ①abc", "1 2 1 abc"),
    ],
)
def test_what_is_written_out_joins_no_number_or_name(text: str, folded: str) -> None:
    assert document_terms(text) == folded.split()


@pytest.mark.parametrize("mark", "'\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u2019")
def test_letters_that_stand_for_apostrophes_divide(mark: str) -> None:
    """Uzbek, Hawaiian, Ukrainian, and Arabic in Latin letters."""
    assert document_terms(f"o{mark}zbek Hawai{mark}i") == ["o", "zbek", "hawai", "i"]


def test_the_vocabulary_removes_the_same_invisible_characters() -> None:
    written = [char for char in ALL if unicodedata.category(char) not in ("Cn", "Co", "Lo")]
    for first, chars, last in (("a", ALL, "b"), ("م", written, "م"), ("क", written, "क")):
        text = "\n".join(first + char + last for char in chars if char not in "\u200c\u200d")
        assert re.sub(f"[{INVISIBLE}]", "", text) == VOCABULARY.normalize_str(text)


def test_a_joiner_that_the_vocabulary_removes_divides_no_word() -> None:
    letters = [char for char in ALL if char.isalpha()][::9]
    for joiner in "\u200c\u200d":
        words = [char + joiner + char for char in letters]
        gone = [word for word in words if VOCABULARY.normalize_str(word) != word]
        assert len(gone) > 10_000
        assert [word for word in gone if fold(word) != fold(word.replace(joiner, ""))] == []


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_a_joiner_in_devanagari_divides_no_word(joiner: str) -> None:
    assert fold(f"क्{joiner}ष") == fold("क्ष")


def test_a_persian_non_joiner_divides_as_a_space_does() -> None:
    assert fold("می\u200cخواهم") == fold("می\u200c\u00ad\u200cخواهم") == fold("می خواهم")


def test_simplified_characters_are_final_and_of_han() -> None:
    assert not set(TRADITIONAL) & set(SIMPLIFIED)
    assert len(TRADITIONAL) == len(SIMPLIFIED) == len(set(TRADITIONAL))
    assert max(TRADITIONAL + SIMPLIFIED) < "\ua000"
    assert min(TRADITIONAL + SIMPLIFIED) >= "\u3400"


ANY = st.text(st.characters(), max_size=30)
# Characters that folding treats in some way, so that they meet.
SOME = st.text(
    st.sampled_from(
        "aA1Iıßẞæ.-+#c\u0301\u0306\u0323\u0345иеiǰ\u200c\u200d\u00ad\u0640مى\u0654ۀन\u094dकँ\u093c資发가\u1100\u1161か\uff9eﾊ½Ⅳﬁ\u0e33\ufe71٣②"
    ),
    max_size=12,
)


@given(ANY | SOME)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(ANY | SOME)
def test_composed_and_decomposed_texts_fold_alike(text: str) -> None:
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert fold(composed) == fold(decomposed)


@pytest.mark.parametrize("upper", [char for char in ALL if len(char.lower()) == 1 and char.lower() != char][::40])
def test_capitals_fold_as_small_letters(upper: str) -> None:
    assert fold(upper) == fold(upper.lower())


def test_every_mark_that_is_sorted_is_cut() -> None:
    sorted_marks = [char for char in ALL if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])]
    assert len(sorted_marks) > 800
    assert [char for char in sorted_marks if len(cut_marks(char * 40)) != 30] == []


def test_nothing_is_dropped_that_parts_two_runs_of_marks() -> None:
    removed = re.compile(f"[{INVISIBLE}{ENCLOSING}]")
    kept = [char for char in ALL if not removed.match(char) and unicodedata.category(char) != "Cn"]
    assert [char for char in kept if removed.search(unicodedata.normalize("NFKD", char))] == []
    assert [char for char in kept if terms._ACCENT_RUN.match(char) and not unicodedata.combining(char)] == []


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0301" * 50_000 + "\u0316" * 50_000,
        "\uff9e" * 50_000 + "\u0316" * 50_000,
        "\u0f73\u0316" * 50_000,
        "\u05bf\u05b0\u00ad" * 33_000,
        ("\u05bf" * 30 + "\u0640" + "\u05b0" * 30 + "\ufe71") * 1_600,
        "ب\u200c\u200c" * 33_000,
        "\u1112\u1161\u11a8" * 33_000,
        "\ufdfa" * 20_000,
        "- " * 50_000,
        "a-" * 50_000,
        "1 000 " * 16_000,
        "1." * 50_000,
        "c++" * 33_000,
        "\U00010080" * 100_000,
        "न\u094d" * 50_000,
    ],
    ids=lambda text: f"{ord(text[0]):x}-{ord(text[-1]):x}",
)
def test_hostile_text_takes_no_square_of_its_length(text: str) -> None:
    started_at = time.process_time()
    document_terms(text)
    assert time.process_time() - started_at < 2
