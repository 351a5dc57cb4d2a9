"""Folding, one spelling of a word; terms of documents and queries; both in time that grows with the text."""

import re
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from service.documents.keywords import terms as rules
from service.documents.keywords.simplified import SIMPLIFIED, TRADITIONAL
from service.documents.keywords.terms import (
    ENCLOSING,
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    MAX_TERM_CHARS,
    cut_marks,
    document_terms,
    fold,
    occurring,
    query_terms,
)
from service.invisible import INVISIBLE
from training.vocabulary.tokenizer import dropping_invisible

ALL = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
VOCABULARY = normalizers.Sequence(dropping_invisible())

# A few characters of each kind, so that texts share terms.
FEW = st.text(
    st.sampled_from("abc10-./, '+#\u2011\u00ad\u0939\u093f\u094d茶绿ｱßḍ\u0323\u200c\u0645資๑ກ٣й"), max_size=30
)
PIECES = [
    *("WK-1702", "10 000", "1.10", "C++", "c#", ".net", "टाटा-१२", "型-12", "ГОСТ‑5781"),
    *("می\u200cخواهم", "佐々木", " "),
]
TEXTS = FEW | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
DASHES = [
    char
    for char in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(char) == "Pd" or char in "\u2212\u207b\u208b\u00ad\u2043\u02d7"
]


SPELLINGS = [
    # Latin letters
    *("naïve naïve NAIVE", "reið reid", "þing Þing thing", "Ħamrun hamrun", "Ŧ t", "ŋ n", "œuvre ŒUVRE oeuvre"),
    *("đường Đường duong", "ışık IŞIK isik", "İzmir izmir IZMIR", "Straße STRASSE STRAẞE"),
    *("žluťoučký zlutoucky", "kůň kun", "łódź lodz", "ĳsland ijsland"),
    # Russian, Greek
    *("ёлка ЁЛКА елка", "за́мок замок", "Άλφα αλφα"),
    # Arabic and Persian: vowel marks, lengthener, letters, presentation forms
    *("كِتَاب كتـــاب كتاب", "ٱلله الله", "على علي", "مكتبة مكتبه", "أحمد احمد", "کتاب كتاب", "ایران ايران"),
    *("خانۀ خانه", "ﻛﺘﺎﺏ كتاب"),
    # Hindi: a nasal before its class, joiners
    "क्ष क्\u200cष क्\u200dष",
    *("हिन्दी हिंदी", "पञ्च पंच", "गङ्गा गंगा", "घण्टा घंटा", "सम्बन्ध संबंध", "माँ मां", "क़लम क़लम कलम"),
    # Chinese
    *("資料庫 资料库", "臺灣 台灣 台湾"),
    # Japanese
    *("ｹﾄﾙ ケトル", "ガラス ｶﾞﾗｽ ガラス", "佐々木 佐々木"),
    # Korean, Thai, Hebrew, digits
    *("한국 한국", "ㅋㅋ ᄏᄏ", "น้ำ น้ํา", "שָׁלוֹם שלום", "٤٨١٢٠ ۴۸۱۲۰ ४८१२० ๔๘๑๒๐ ４８１２０ 48120"),
]

DIFFERENT_WORDS = [
    ["май", "маи"],  # Russian short i
    ["мў", "му"],
    ["їжа", "іжа"],
    ["ќе", "ке"],
    ["لڑکی", "لڑکے"],  # Urdu: a girl, a boy's
    ["म", "न"],
    ["जन्म", "जंम"],  # no stop follows
    ["은", "는"],
    ["か", "が"],
]


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_spellings_of_a_word_are_one(spellings: str) -> None:
    assert len({fold(spelling) for spelling in spellings.split()}) == 1


@pytest.mark.parametrize("words", DIFFERENT_WORDS)
def test_different_words_stay_apart(words: list[str]) -> None:
    assert len({fold(word) for word in words}) == len(words)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Error code E4, again: E4!", ["error", "code", "e4", "again", "e4"]),
        ("Ärger, été, Łódź, STRASSE straße", ["arger", "ete", "lodz", "strasse", "strasse"]),
        ("İstanbul ISTANBUL ışık", ["istanbul", "istanbul", "isik"]),
        ("Ёлка Й", ["елка", "й"]),
        ("كِتَابٌ أحمد كتـــاب", ["كتاب", "احمد", "كتاب"]),
        ("हिन्दी की क़लम।", ["हिंदी", "की", "कलम"]),  # whole words, with their vowel signs
        ("绿茶好", ["绿茶", "茶好", "好"]),
        ("ﾊﾝｶｸ と ABC", ["ハン", "ンカ", "カク", "ク", "と", "abc"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요", "요"]),
        ("kettle WK-1702", ["kettle", "wk", "1702", "wk1702"]),
        ("e-mail", ["e", "mail"]),  # no digit: no code
        ("foo_bar\x00\ud800 ", ["foo", "bar"]),
        ("佐々木〆二〇", ["佐々", "々木", "木〆", "〆二", "二〇", "〇"]),
        ("ジョン・スミス", ["ジョ", "ョン", "ン", "スミ", "ミス", "ス"]),  # the dot divides
        ("ພາສາ", ["ພາ", "າສ", "ສາ", "າ"]),  # Lao
        ("re\u00adset pass\u200bword a\ufe0fb re\x00ad", ["reset", "password", "ab", "read"]),
        ("C++, C#, F# and C.", ["cplusplus", "csharp", "fsharp", "and", "c"]),
        ("用C++写", ["用", "cplusplus", "写"]),
        ("C++11 C♯", ["cplusplus", "11", "csharp"]),
        (".NET asp.net, example.net", ["dotnet", "asp", "net", "example", "net"]),
        ("# C\nword# item#12 see #1 a#b **c**", ["c", "word", "item", "12", "see", "1", "a", "b", "c"]),
        ("", []),
        ("x" * MAX_TERM_CHARS, ["x" * MAX_TERM_CHARS]),
        ("5½", ["5", "1", "2"]),
        ("2½-Zimmer", ["2", "1", "2", "zimmer"]),
        ("10²", ["10", "2"]),
        ("10⁻¹⁶", ["10", "16"]),
        ("2024¹", ["2024", "1"]),  # a footnote
        ("m² H₂O x¹⁰", ["m2", "h2o", "x10"]),
        ("№5", ["no", "5"]),
        ("℡5", ["tel", "5"]),
        ("Foo™ Bar℠", ["foo", "bar"]),
        ("①② ①abc", ["1", "2", "1", "abc"]),
        *((written, ["型", "12"]) for written in ("型-12", "型12", "型‑１２")),
        # Letters that stand for apostrophes in Uzbek, Hawaiian, Ukrainian, and Arabic in Latin letters
        *(
            (f"o{mark}zbek Hawai{mark}i", ["o", "zbek", "hawai", "i"])
            for mark in "'\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u2019"
        ),
    ],
)
def test_the_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert document_terms(text) == terms


@pytest.mark.parametrize(
    ("term", "texts"),
    [
        ("wk1702", ["wk1702", "WK.1702", "WK/1702", *(f"WK{dash}1702" for dash in DASHES)]),
        ("f16", ["F-16/F-18", "(F-16.Next one", "A/F-16", "F-16/B"]),
        ("10000", ["10,000", "10 000", "10\xa0000", "10\u202f000", "10'000", "10’000", "١٠٬٠٠٠"]),
        ("10000", ["约10,000人", "10,000.50", "(10,000)"]),
        ("1234567", ["1,234,567", "1 234 567", "12,34,567", "१२,३४,५६७"]),
        ("100000", ["₹1,00,000", "1,00,000/-", "१,००,००० रुपये"]),
    ],
)
def test_a_code_or_number_is_one_term_however_it_is_separated(term: str, texts: list[str]) -> None:
    assert [text for text in texts if term not in document_terms(text) or term not in query_terms(text)] == []


NOT_THOUSANDS = ["10,00", "10,0000", "2019 300", "1.234,567", "10, 000", "10\n000", "A10 000"]
NOT_THOUSANDS += ["1,00,000,000", "12,34,56", "123,45,678", "1,00 000", "5,10,100,1000"]


@pytest.mark.parametrize(
    "text", ["1.10", "11.0", "1/10", "11/0", "1.1.0", "192.168.1.10", "1 10", "1,10", *NOT_THOUSANDS]
)
def test_other_numbers_are_not_joined(text: str) -> None:
    terms = document_terms(text)
    assert "110" not in terms
    assert [term for term in terms if len(term) > 4] == []


@pytest.mark.parametrize(
    ("separated", "joined"),
    [
        ("ГОСТ-5781", "ГОСТ5781"),
        ("Α-12", "Α12"),
        ("كتاب-12", "كتاب12"),
        ("कि-१२", "कि12"),  # with a vowel sign
        ("Ärger-4", "Ärger4"),
        ("WK-١٧٠٢", "WK1702"),
        ("製品WK-1702です", "WK1702"),
        ("𞤀𞥄-12", "𞤀𞥄12"),
        ("978-3-16-148410-0", "9783161484100"),
        ("555–1234", "5551234"),
        ("A1/B2", "A1B2"),
    ],
)
def test_a_code_of_any_script_is_also_one_term(separated: str, joined: str) -> None:
    assert [term for term in query_terms(joined) if term in document_terms(separated)] == list(query_terms(joined))


def test_a_lone_character_is_the_beginning_of_a_term() -> None:
    assert query_terms("茶") == {"茶": True}
    assert any(term.startswith("茶") for term in document_terms("绿茶"))


@given(st.text(st.characters(), max_size=60) | TEXTS)
def test_every_text_finds_itself_by_its_terms(text: str) -> None:
    terms = document_terms(text)
    for term in terms:
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert not any(char.isascii() and not (char.isdigit() or char.islower()) for char in term)
    for term, is_start in query_terms(text).items():
        assert any(found.startswith(term) if is_start else found == term for found in terms)


@given(query=TEXTS, text=TEXTS, repeats=st.sampled_from([1, 40]))
def test_the_terms_that_occur_are_those_that_both_have(query: str, text: str, repeats: int) -> None:
    query, text = query * repeats, text * repeats  # words of more than 64 characters, too
    terms = set(document_terms(text))
    assert occurring(query_terms(query), text) == [
        term
        for term, is_start in query_terms(query).items()
        if term in terms or (is_start and any(found.startswith(term) for found in terms))
    ]


def test_looking_for_a_word_within_one_long_word_takes_one_step() -> None:
    started_at = time.process_time()
    assert occurring(query_terms("a aa aaa"), "a" * 1_000_000) == []
    assert time.process_time() - started_at < 1


def test_long_words_that_differ_at_their_end_are_two_terms() -> None:
    one, other = document_terms("x" * 5000 + "y"), document_terms("x" * 5000 + "z")
    assert one == list(query_terms("x" * 5000 + "y")) != other
    assert occurring(dict.fromkeys(one, False), "an " + "x" * 5000 + "y") == one
    assert occurring(dict.fromkeys(one, False), "an " + "x" * 5000 + "z") == []


def test_codes_of_a_query_come_before_its_words() -> None:
    words = " ".join(f"word{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(400))
    terms = list(query_terms(f"{words} WK-1702"))
    assert terms[:4] == ["wk1702", "1702", "wordaa", "wordab"]
    assert len(terms) == MAX_QUERY_TERMS


@pytest.mark.parametrize("repeated", ["word ", "茶", "a-1 ", "WK-1702", "می\u200c", "x"])
def test_a_query_that_is_cut_has_terms_of_its_text(repeated: str) -> None:
    text = repeated * MAX_QUERY_CHARS
    terms = set(document_terms(text))
    assert [term for term in query_terms(text) if term not in terms] == []


def test_a_query_is_folded_only_as_far_as_it_is_read() -> None:
    query_terms("\ufdfa")
    started_at = time.process_time()
    query_terms("\ufdfa" * MAX_QUERY_CHARS)
    taken_s = time.process_time() - started_at
    started_at = time.process_time()
    query_terms("\ufdfa" * 20 * MAX_QUERY_CHARS)
    assert time.process_time() - started_at < 5 * taken_s


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
    assert [char for char in kept if rules._ACCENT_RUN.match(char) and not unicodedata.combining(char)] == []


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
