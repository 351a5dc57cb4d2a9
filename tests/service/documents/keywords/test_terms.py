import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.keywords.terms import (
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    MAX_TERM_CHARS,
    document_terms,
    occurring,
    query_terms,
)

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
    ],
)
def test_the_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert document_terms(text) == terms


@pytest.mark.parametrize("written", ["wk1702", "WK.1702", "WK/1702", *(f"WK{dash}1702" for dash in DASHES)], ids=ascii)
def test_a_code_is_found_however_it_is_separated(written: str) -> None:
    assert "wk1702" in query_terms(written)
    assert "wk1702" in document_terms(written)


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


@pytest.mark.parametrize("text", ["F-16/F-18", "(F-16.Next one", "A/F-16", "F-16/B"])
def test_a_code_beside_a_slash_or_point_is_one_of_its_own(text: str) -> None:
    assert "f16" in document_terms(text)


@pytest.mark.parametrize("written", ["型-12", "型12", "型‑１２"])
def test_a_code_of_unspaced_characters_divides_anyway(written: str) -> None:
    assert document_terms(written) == ["型", "12"]


@pytest.mark.parametrize("text", ["1.10", "11.0", "1/10", "11/0", "1.1.0", "192.168.1.10", "1 10", "1,10"])
def test_numbers_are_not_joined_over_points_and_slashes(text: str) -> None:
    assert "110" not in document_terms(text)


@pytest.mark.parametrize(
    "text",
    [
        *("10,000", "10 000", "10\xa0000", "10\u202f000", "10'000", "10’000", "١٠٬٠٠٠"),
        *("约10,000人", "10,000.50", "(10,000)"),
    ],
)
def test_thousands_are_one_number(text: str) -> None:
    assert "10000" in document_terms(text)
    assert "10000" in query_terms(text)


@pytest.mark.parametrize("text", ["1,234,567", "1 234 567"])
def test_groups_of_thousands_are_one_number(text: str) -> None:
    assert "1234567" in document_terms(text)


@pytest.mark.parametrize(
    "text", ["10,00", "10,0000", "2019 300", "1.234,567", "10, 000", "10\n000", "A10 000", "12,34,567"]
)
def test_other_digits_are_no_thousands(text: str) -> None:
    assert [term for term in document_terms(text) if len(term) > 4] == []


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


@given(st.text(st.characters(), max_size=60) | TEXTS)
def test_composed_and_decomposed_texts_have_the_same_terms(text: str) -> None:
    composed, decomposed = (document_terms(unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    assert composed == decomposed


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


def test_words_that_are_not_long_are_terms_as_they_are() -> None:
    assert document_terms("x" * MAX_TERM_CHARS) == ["x" * MAX_TERM_CHARS]


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
