import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.keywords import highlights as highlights_module
from service.documents.keywords.highlights import words_in
from service.documents.keywords.terms import document_terms, fold, query_terms


def marked(text: str, query: str) -> list[str]:
    return [text[start:stop] for start, stop, _ in words_in(text, query_terms(query))]


@pytest.mark.parametrize(
    ("text", "query", "words"),
    [
        ("Die Straße, die STRASSE.", "strasse", ["Straße", "STRASSE"]),
        ("Un e\u0301le\u0300ve, un élève", "eleve", ["e\u0301le\u0300ve", "élève"]),
        ("ｹﾄﾙを買う", "ケトル", ["ｹﾄ", "ﾄﾙ"]),
        ("我想買一個綠茶杯。", "绿茶", ["綠茶"]),
        ("我想买一个绿茶杯。", "綠茶", ["绿茶"]),
        ("我买茶。", "茶", ["茶"]),
        ("새로운 주전자를 샀습니다.", "주전자", ["주전", "전자"]),
        ("الطبيب يعمل في المُسْتَشْفَى الكبير", "المستشفى", ["المُسْتَشْفَى"]),
        ("हिन्दी में", "हिंदी", ["हिन्दी"]),
        ("Мы нарядили ёлку", "елку", ["ёлку"]),
        ("Error (WK-1702), wk1702!", "wk1702", ["WK-1702", "wk1702"]),
        ("for 10,000 or 10'000 or 10000", "10000", ["10,000", "10'000", "10000"]),
        ("kostet 10 000 Euro, 10\xa0000\u202f€ (10\u202f000.)", "10000", ["10 000", "10\xa0000", "10\u202f000"]),
        ("1\xa0234\u202f567 1 2345, 10 0000, 10 000km", "1234567 12345 100000 000", ["1\xa0234\u202f567"]),
        ("10,000mAh, 10 000km, ₹1,00,000", "10000 100000", ["10,000", "10 000", "1,00,000"]),
        (" ".join(["123"] * 300), "123", ["123"] * 100),
        ("F-16/F-18", "f16", ["F-16"]),
        ("in C++ and C", "C++", ["C++"]),
        ("ﬁnd the ofﬁce", "office find", ["ﬁnd", "ofﬁce"]),
        ("a kettlebell", "kettle", []),
        ("", "kettle", []),
    ],
)
def test_words_are_found_as_they_are_written(text: str, query: str, words: list[str]) -> None:
    assert marked(text, query) == words


@given(text=st.text(st.sampled_from("aé茶杯주 -.1Ｗkß\u0301\u200c한स्ते"), max_size=30))
def test_places_fold_to_their_terms(text: str) -> None:
    terms = {term for term in document_terms(text) if len(term) > 1}
    for start, stop, term in words_in(text, terms):
        assert 0 <= start < stop <= len(text)
        assert term in {*document_terms(text[start:stop]), fold(text[start:stop])}


@given(text=st.text(st.sampled_from("aé茶買주가 -1Ｗß\u0301\u200c한स्तेผู้\u1100\u1161ﾞカ①²ﬁ़ँ\u0640☆½"), max_size=80))
def test_places_do_not_depend_on_where_parts_are_cut(text: str) -> None:
    terms = document_terms(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(highlights_module, "SHORT", 500)
        whole = words_in(text, terms)
    assert words_in(text, terms) == whole


@pytest.mark.parametrize("text", ["กา", "カナ", "가나", "綠買", "é-1"])
def test_a_long_part_is_folded_few_times(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []
    monkeypatch.setattr(highlights_module, "fold", lambda part: folded.append(part) or fold(part))
    part = (text * 250)[:500]
    assert words_in(part, document_terms(part))
    assert sum(map(len, folded)) < 20 * len(part)


def test_a_text_has_a_limited_number_of_places() -> None:
    assert len(words_in("kettle " * 1000, {"kettle"})) == highlights_module.MOST_WORDS


@pytest.mark.parametrize("text", ["茶" * 200_000, "a-1-" * 50_000, "é" * 200_000, "\u0301" * 200_000, "1" * 200_000])
def test_no_text_takes_long(text: str) -> None:
    start = time.monotonic()
    words_in(text, {"茶杯", "a1", "e", "1"})
    assert time.monotonic() - start < 5
