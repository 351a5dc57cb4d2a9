import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.keywords import near as near_module
from service.documents.keywords.index import KeywordIndex, tables
from service.documents.keywords.near import Vocabulary, edits, most_edits, stem_of

ALPHABETS = ["ab", "xyz", "лод", "ملك", "कमल", "αβγ", "a1", "კატ"]
WORDS = st.sampled_from(ALPHABETS).flatmap(lambda letters: st.text(letters, min_size=1, max_size=12))


def aligned(word: str, term: str) -> int:
    """Optimal string alignment, by the whole table of its definition."""
    table = [[max(row, column) for column in range(len(term) + 1)] for row in range(len(word) + 1)]
    for row in range(1, len(word) + 1):
        for column in range(1, len(term) + 1):
            table[row][column] = min(
                table[row - 1][column] + 1,
                table[row][column - 1] + 1,
                table[row - 1][column - 1] + (word[row - 1] != term[column - 1]),
            )
            if min(row, column) > 1 and word[row - 2 : row] == term[column - 2 : column][::-1]:
                table[row][column] = min(table[row][column], table[row - 2][column - 2] + 1)
    return table[-1][-1]


def vocabulary(terms: Sequence[str]) -> Vocabulary:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    index = KeywordIndex(connection, 1)
    index.create()
    index.add(1, " ".join(terms))
    index.flush()
    return Vocabulary(connection, *tables(1)[1:])


@settings(max_examples=500)
@given(word=WORDS, term=WORDS, most=st.integers(0, 3))
def test_edits_are_counted_as_the_whole_table_counts_them(word: str, term: str, most: int) -> None:
    assert edits(word, term, most) == min(aligned(word, term), most + 1)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), letters=st.sampled_from(ALPHABETS))
def test_every_term_within_the_edits_is_near(data: st.DataObject, letters: str) -> None:
    words = st.text(letters, min_size=3, max_size=11)
    terms = data.draw(st.lists(words, min_size=1, max_size=40))
    word = data.draw(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_module, "NEAR_TERMS", 1000)
        near = vocabulary(terms).near(word)
    most = most_edits(word)
    assert {term for term in terms if 0 < aligned(word, term) <= most} <= near.keys()
    assert {term for term in near if aligned(word, term) > most and word not in term and term not in word} == set()
    assert all(0 < weight < 1 for weight in near.values())


@pytest.mark.parametrize(
    ("word", "term"),
    [
        ("ketle", "kettle"),
        ("ketlte", "kettle"),
        ("waschmachien", "waschmaschine"),
        ("холодильик", "холодильник"),
        ("المستشقي", "المستشفي"),
        ("क्रिकट", "क्रिकेट"),
        ("wk1720", "wk1702"),
        ("ax441", "ax4417b"),
        ("4417", "ax4417b"),
        ("schirm", "regenschirm"),
        ("regen", "regenschirm"),
        ("wachs", "bienenwachstuch"),
        ("fietsenstalling", "stalling"),
    ],
)
def test_the_nearest_term_is_the_one_that_was_meant(word: str, term: str) -> None:
    others = ["bottle", "kitten", "waschen", "холод", "المدرسه", "क्रम", "wk1799", "bx9930c", "schrank", "regal"]
    assert next(iter(vocabulary([*others, term]).near(word))) == term


def test_a_swap_in_a_code_is_nearer_than_another_digit() -> None:
    assert list(vocabulary(["wk1722", "wk1702"]).near("wk1720")) == ["wk1702", "wk1722"]


@pytest.mark.parametrize("word", ["and", "ands", "ab", "e4", "茶杯"])
def test_short_words_stand_for_themselves(word: str) -> None:
    assert vocabulary(["ant", "abc", "e5", "茶馆", "band", "bandsaw"]).near(word) == {}


def test_completions_are_the_shortest_that_begin_so() -> None:
    terms = [f"kettle{'s' * length}" for length in range(60)]
    completions = vocabulary([*terms, "ket", "nettle"]).completions("kett")
    assert list(completions) == terms[: near_module.COMPLETIONS]
    assert list(completions.values()) == sorted(completions.values(), reverse=True)


def test_thousands_of_near_terms_cost_a_limited_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_module, "MOST_LOOKED_AT", 100)
    terms = [f"zzzz{chr(97 + first)}{chr(97 + second)}zzzz" for first in range(26) for second in range(26)]
    full = vocabulary(terms)
    assert len(full.near("zzzzzzzzzz")) == near_module.NEAR_TERMS
    assert len(set(full._within("zzzzzzzzzz", 2))) <= 7 * 100


@pytest.mark.parametrize(
    ("language", "word", "form"),
    [
        ("ru", "холодильниками", "холодильник"),
        ("pl", "lodkami", "lodke"),
        ("cs", "destniku", "destnik"),
        ("tr", "kitaplarim", "kitap"),
        ("de", "regenschirme", "regenschirms"),
        ("nl", "huizen", "huis"),
        ("en", "batteries", "battery"),
        ("fr", "mangeait", "manger"),
        ("es", "canciones", "cancion"),
        ("it", "libri", "libro"),
        ("pt", "livros", "livro"),
        ("hi", "किताबों", "किताब"),
        ("ar", "كتابي", "كتاب"),
        ("ar", "كتاب", "الكتاب"),
        ("ar", "بالكتاب", "كتاب"),
        ("ar", "المدرسه", "مدرسه"),
        ("id", "bukunya", "buku"),
        ("id", "bayar", "pembayaran"),
        ("id", "membayar", "dibayar"),
        ("id", "pukul", "memukul"),
    ],
)
def test_forms_of_a_word_share_its_stem(language: str, word: str, form: str) -> None:
    terms = [form, *(f"{form}{ending}" for ending in ("xyz", "qq")), "other", word]
    assert list(vocabulary(terms).forms(word, language)) == [form]


def test_stemming_in_threads_gives_what_it_gives_in_one() -> None:
    words = [f"{start}ing{end}" for start in ("boil", "cook", "walk") for end in ("", "s", "ly", "ness")] * 40
    alone = [stem_of("en", word) for word in words]
    stem_of.cache_clear()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda word: stem_of.__wrapped__("en", word), words)) == alone
