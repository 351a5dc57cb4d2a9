import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.keywords.terms import MAX_TERM_CHARS, document_terms, occurring, query_terms

# A few characters of each kind, so that texts share terms.
FEW = st.text(st.sampled_from("ab1-. \u0939\u093f茶绿ｱßḍ\u0323"), max_size=30)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Error code E4, again: E4!", ["error", "code", "e4", "again", "e4"]),
        ("Ärger, été, Łódź, STRASSE straße", ["arger", "ete", "lodz", "strasse", "strasse"]),
        ("İstanbul ISTANBUL ışık", ["istanbul", "istanbul", "isik"]),
        ("Ёлка Й", ["елка", "и"]),
        ("كِتَابٌ أحمد كتـــاب", ["كتاب", "احمد", "كتاب"]),
        ("हिन्दी की क़लम।", ["हिन्दी", "की", "कलम"]),  # whole words, with their vowel signs
        ("绿茶好", ["绿茶", "茶好", "好"]),
        ("ﾊﾝｶｸ と ABC", ["ハン", "ンカ", "カク", "ク", "と", "abc"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요", "요"]),
        ("kettle WK-1702", ["kettle", "wk", "1702", "wk1702"]),
        ("e-mail", ["e", "mail"]),  # no digit: no code
        ("foo_bar\x00\ud800 ", ["foo", "bar"]),
        ("", []),
    ],
)
def test_the_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert document_terms(text) == terms


@pytest.mark.parametrize("written", ["wk1702", "WK-1702", "wk.1702", "WK/1702"])
def test_a_code_is_found_however_it_is_separated(written: str) -> None:
    assert "wk1702" in query_terms(written)
    assert "wk1702" in document_terms(written)


def test_a_lone_character_is_the_beginning_of_a_term() -> None:
    assert query_terms("茶") == {"茶": True}
    assert any(term.startswith("茶") for term in document_terms("绿茶"))


@given(st.text(st.characters(), max_size=60))
def test_every_text_has_terms_that_one_space_separates_and_finds_itself(text: str) -> None:
    terms = document_terms(text)
    for term in terms:
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert not any(char.isascii() and not (char.isdigit() or char.islower()) for char in term)
    for term, is_start in query_terms(text).items():
        assert any(found.startswith(term) if is_start else found == term for found in terms)


@given(query=FEW, text=FEW, repeats=st.sampled_from([1, 40]))
def test_the_terms_that_occur_are_those_that_both_have(query: str, text: str, repeats: int) -> None:
    text *= repeats  # words of more than 64 characters, too
    terms = set(document_terms(text))
    assert occurring(query_terms(query), text) == [
        term
        for term, is_start in query_terms(query).items()
        if term in terms or (is_start and any(found.startswith(term) for found in terms))
    ]


def test_looking_for_a_word_within_one_long_word_takes_one_step() -> None:
    started_at = time.process_time()
    assert occurring(query_terms("a aa aaa"), "a" * 1_000_000) == []
    assert occurring({"a" * MAX_TERM_CHARS: False}, "a" * 1_000_000) == ["a" * MAX_TERM_CHARS]
    assert time.process_time() - started_at < 1


def test_a_long_word_is_cut_and_so_still_finds_itself() -> None:
    assert document_terms("x" * 5000) == ["x" * MAX_TERM_CHARS] == list(query_terms("x" * 5000))
