import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.document import Document
from service.documents.filters import Condition, to_condition
from service.documents.keywords import index as keywords_module
from service.documents.keywords.index import KeywordIndex
from service.documents.keywords.terms import document_terms
from service.documents.store.schema import DEFAULT
from service.documents.store.store import DocumentStore
from service.errors import Damaged
from tests.service.documents.oracle import keyword_evidence, keyword_scores
from tests.service.documents.stores import EAST, STORE, faults, open_store

# A sentence, and a word of it in another form of writing it.
LANGUAGES = {
    "ar": ("الطبيب يعمل في المستشفى الكبير.", "المُسْتَشْفَى"),
    "cs": ("Kde najdu žlutý deštník?", "DESTNIK"),
    "de": ("Die Straße war gesperrt.", "STRASSE"),
    "en": ("The blender shows error code E4.", "e4"),
    "es": ("¿Cuándo abre la panadería?", "panaderia"),
    "fr": ("Un élève traverse la forêt.", "foret"),
    "hi": ("मुझे नई क़लम चाहिए।", "कलम"),
    "id": ("Saya mencari payung kuning.", "payung"),
    "it": ("Perché la città dorme?", "citta"),
    "ja": ("新しい電気ケトルを買いました。", "ｹﾄﾙ"),
    "ko": ("새로운 주전자를 샀습니다.", "주전자"),
    "nl": ("De fiets staat in de schuur.", "Fiets"),
    "pl": ("Łódka płynie po jeziorze.", "lodka"),
    "pt": ("A criança come maçã.", "maca"),
    "ru": ("Мы нарядили ёлку вчера.", "елку"),
    "tr": ("İstanbul'da yağmur yağıyor.", "istanbul"),
    "vi": ("Tôi muốn mua ấm đun nước.", "nuoc"),
    "zh": ("我想买一个绿茶杯。", "茶"),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


def put(store: DocumentStore, texts: dict[str, str], metadata: dict[str, object] | None = None) -> None:
    documents = [Document(id_, text, metadata or {}) for id_, text in texts.items()]
    with store.transaction() as transaction:
        transaction.upsert(documents, np.tile(EAST, (len(documents), 1)))
        transaction.commit()


def delete(store: DocumentStore, ids: Sequence[str]) -> None:
    with store.transaction() as transaction:
        transaction.delete(transaction.rows_of(ids))
        transaction.commit()


def read(store: DocumentStore, query: str) -> list[tuple[object, ...]]:
    with store.reader() as connection:
        return connection.execute(query).fetchall()


def found(
    store: DocumentStore, query: str, condition: Condition | None = None, *, typing: bool = False
) -> dict[str, float]:
    with store.snapshot() as snapshot:
        hits = snapshot.with_keywords(query, condition, typing=typing)
        ids = snapshot.ids_of(hits.rows.tolist())
    return {ids[row]: score for row, score in zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)}


def test_each_language_finds_a_word_of_its_own(store: DocumentStore) -> None:
    put(store, {language: text for language, (text, _) in LANGUAGES.items()})
    assert {word: set(found(store, word)) for _, word in LANGUAGES.values()} == {
        word: {language} for language, (_, word) in LANGUAGES.items()
    }


WORDS = st.sampled_from(["red", "Red", "blue", "E4", "e-4", "the", "茶", "绿茶", "茶杯", "माँ", "été", "!"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=10), query=TEXTS, wanted=st.none() | st.integers(0, 2))
def test_scores_are_bm25_by_brute_force_and_filters_only_select(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, wanted: int | None
) -> None:
    with closing(open_store(tmp_path_factory.mktemp("store"))) as store:
        for number, text in enumerate(texts):
            put(store, {str(number): text}, {"n": number % 3})
        scores = found(store, query, None if wanted is None else to_condition({"n": wanted}))
    expected = {
        str(number): score
        for number, score in enumerate(keyword_scores(query, texts))
        if score > 0 and wanted in (None, number % 3)
    }
    assert scores == pytest.approx(expected)


def test_documents_of_any_length_are_scored(store: DocumentStore) -> None:
    texts = ["kettle pan", "kettle " * 3 + "pan " * 200, "pan " * 20_000 + "kettle", *["lamp"] * 4]
    put(store, {str(number): text for number, text in enumerate(texts)})
    expected = {str(number): score for number, score in enumerate(keyword_scores("kettle", texts)) if score}
    assert found(store, "kettle") == pytest.approx(expected)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM keywords_1_docsize WHERE id = 1",
        "DELETE FROM keywords_1_docsize",
        "UPDATE keywords_1_docsize SET sz = x'80'",
        "UPDATE keywords_1_data SET block = x'01' WHERE id = 1",
        "UPDATE keywords_1_data SET block = x'0300' WHERE id = 1",
        "UPDATE keywords_1_data SET block = x'8080' WHERE id = 1",
        "DELETE FROM keywords_1_data WHERE id = 1",
    ],
)
def test_damaged_lengths_are_said(tmp_path: Path, damage: str) -> None:
    with closing(open_store(tmp_path)) as store:
        put(store, {"1": "red kettle", "2": "blue kettle", "3": "kettle"})
    with closing(sqlite3.connect(tmp_path / STORE)) as connection, connection:
        connection.execute(damage)
    with closing(open_store(tmp_path)) as store, pytest.raises(Damaged, match="`crosslet index repair`"):
        found(store, "kettle")


CHANGED = st.text(max_size=12) | st.lists(st.sampled_from(["kettle", "kettles", "WK-1702"]), max_size=3).map(" ".join)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "delete", "fail"]), st.sampled_from("abcd"), CHANGED), max_size=12)


@settings(max_examples=40, deadline=None)
@given(changes=CHANGES)
def test_keywords_follow_every_change_but_failed_ones(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, str]]
) -> None:
    folder, texts = tmp_path_factory.mktemp("store"), dict[str, str]()
    with closing(open_store(folder)) as store:
        for what, id_, text in changes:
            if what == "put":
                put(store, {id_: text})
                texts[id_] = text
            elif what == "delete":
                delete(store, [id_])
                texts.pop(id_, None)
            else:
                with suppress(ZeroDivisionError), store.transaction() as transaction:
                    transaction.upsert([Document(id_, text, {})], EAST[None])
                    raise ZeroDivisionError
        for text in texts.values():
            expected = dict(zip(texts, keyword_scores(text, list(texts.values())), strict=True))
            assert found(store, text) == pytest.approx({id_: score for id_, score in expected.items() if score > 0})
        vocabulary = read(store, "SELECT term FROM vocabulary_1")
        assert sorted(str(term) for (term,) in vocabulary) == sorted(
            {term for text in texts.values() for term in document_terms(text) if len(term) > 2}
        )
    assert faults(folder) == []


WRITER = """
import sys
from pathlib import Path
import numpy as np
from service.documents.document import Document
from service.documents.store.store import DocumentStore
store = DocumentStore(Path(sys.argv[1]), fingerprint="aa", dim=4)
for number in range(10**9):
    with store.transaction() as transaction:
        documents = [Document(str(one % 50), f"text {number} of {one}", {}) for one in range(number, number + 5)]
        transaction.upsert(documents, np.ones((5, 4), np.float32) / 2)
        transaction.delete(transaction.rows_of([str((number + 25) % 50)]))
        transaction.commit()
    print(number, flush=True)
"""


def test_after_a_kill_keywords_and_texts_are_of_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / STORE
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        answered = writer.stdout.readline()
        time.sleep(0.2)
        writer.kill()
        answered += writer.stdout.read()
        writer.wait()
        writer.stdout.close()
        last = int(answered.split()[-1])
        store = open_store(tmp_path)
        assert found(store, str(last))  # answered, so there
        store.close()
        assert faults(tmp_path) == []
        for file in tmp_path.iterdir():
            file.unlink()


def test_replaced_damaged_text_leaves_no_keyword(tmp_path: Path, store: DocumentStore) -> None:
    put(store, {"a": "a red kettle", "b": "a blue kettle"})
    store.writer.execute("UPDATE documents SET text = 'a rad kettle' WHERE id = 'a'")  # as a flipped bit does
    put(store, {"a": "a green kettle"})
    assert not found(store, "red")
    assert set(found(store, "green kettle")) == {"a", "b"}
    assert faults(tmp_path) == []


def test_verify_takes_documents_of_any_length_for_sound(tmp_path: Path, store: DocumentStore) -> None:
    put(store, {"empty": "", "long": "word " * 300, "longer": "other " * 40_000})
    assert faults(tmp_path) == []


def test_keywords_of_other_rules_are_made_anew(tmp_path: Path) -> None:
    texts = {"a": "a red kettle", "b": "a blue kettle"}
    with closing(open_store(tmp_path)) as store:
        number = store.catalog.create("shop", most=2)
        for row, (collection, (id_, text)) in enumerate(zip((DEFAULT, number), texts.items(), strict=True), 1):
            put(store.of(collection), {id_: text})
            KeywordIndex(store.writer, collection).remove(row, text)
        store.writer.execute("UPDATE store SET value = '1-14.0.0' WHERE key = 'keywords'")
    before = (tmp_path / STORE).read_bytes()
    with closing(open_store(tmp_path, read_only=True)) as reader:
        for _ in range(2):
            assert set(found(reader, "kettle")) == {"a"}
            assert set(found(reader.of(number), "kettle")) == {"b"}
    assert (tmp_path / STORE).read_bytes() == before  # made in memory: it may not write
    with closing(open_store(tmp_path)) as store:
        assert (set(found(store, "red")), set(found(store.of(number), "blue"))) == ({"a"}, {"b"})
    assert faults(tmp_path) == []


MANY = " ".join(f"word{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(100))
UNKNOWN = "".join(chr(0x4E00 + 7 * number) for number in range(100))  # in no document


@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        ({"words": MANY, "code": "WK1702"}, f"{MANY} WK-1702", {"words", "code"}),
        ({"words": MANY, "number": "10,000 volts"}, f"{MANY} 10 000", {"words", "number"}),
        ({"a": MANY, "b": MANY, "rare": "a kettle"}, f"{MANY} kettle", {"a", "b", "rare"}),
        ({"tea": "绿茶", "coffee": "咖啡"}, f"{UNKNOWN}绿茶", {"tea"}),
    ],
)
def test_codes_and_rare_terms_after_many_are_looked_up(
    store: DocumentStore, texts: dict[str, str], query: str, expected: set[str]
) -> None:
    put(store, texts)
    assert set(found(store, query)) == expected


def test_terms_in_too_many_documents_are_left_out(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, {str(number): f"common {number}" + " women" * (number > 1) for number in range(9)})
    monkeypatch.setattr(keywords_module, "MAX_TERMS", 2)
    assert len(found(store, "3 5 7")) == 2
    monkeypatch.setattr(keywords_module, "MAX_POSTINGS", 5)
    assert set(found(store, "common 7")) == {"7"}
    assert set(found(store, "common women")) == {"2", "3", "4", "5", "6"}
    assert len(found(store, "common")) == len(found(store, "common absent")) == 5


def test_a_connection_keeps_few_tables_of_occurrences(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords_module, "MAX_MADE", 2)
    made = "SELECT name FROM temp.sqlite_schema ORDER BY name"
    views = [store, *(store.of(store.catalog.create(name, most=9)) for name in ("a", "b", "c"))]
    for view in [*views, *views]:
        put(view, {"1": "kettle"})
        assert list(found(view, "kettle")) == ["1"]
        assert (f"occurrences_{view.number}",) in read(store, made)
    assert len(read(store, made)) == 2


def test_common_words_are_left_out_sooner_while_typing(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, {str(number): f"common {number}" for number in range(9)})
    monkeypatch.setattr(keywords_module, "MAX_TYPED_POSTINGS", 5)
    assert set(found(store, "common 7", typing=True)) == {"7"}
    assert len(found(store, "common 7")) == len(found(store, "comm", typing=True)) == 9


# A word of LANGUAGES' sentences with a slip, or the beginning of one.
SLIPS = {
    "ar": "المتسشفى",
    "cs": "destink",
    "de": "Strase",
    "es": "panaderai",
    "hi": "चाहए",
    "ru": "нарядилли",
    "tr": "istnabul",
}
BEGINNINGS = {
    "ar": "المس",
    "cs": "dest",
    "de": "gesp",
    "en": "blen",
    "hi": "चाह",
    "ja": "ケト",
    "ko": "주전",
    "ru": "наря",
}


def test_words_with_a_slip_find_what_was_meant_in_each_script(store: DocumentStore) -> None:
    put(store, {language: text for language, (text, _) in LANGUAGES.items()})
    assert {language: list(found(store, word)) for language, word in SLIPS.items()} == {
        language: [language] for language in SLIPS
    }


def test_the_last_word_goes_on_while_it_is_typed(store: DocumentStore) -> None:
    put(store, {language: text for language, (text, _) in LANGUAGES.items()})
    assert {language: list(found(store, word, typing=True)) for language, word in BEGINNINGS.items()} == {
        language: [language] for language in BEGINNINGS
    }
    assert set(found(store, "gesp", typing=False)) == {"de"}  # no document has it, so it may be a part
    assert found(store, "ge", typing=True).keys() == {"de"}
    assert found(store, "ge ", typing=True) == found(store, "ge", typing=False) == {}


@pytest.mark.parametrize("typed", ["WK-17", "wk17", "kettle wk-1", "WK/170"])
def test_codes_go_on_while_they_are_typed(store: DocumentStore, typed: str) -> None:
    put(store, {"right": "kettle WK-1702", "other": "kettle BX-9930"})
    scores = found(store, typed, typing=True)
    assert max(scores, key=lambda id_: scores[id_]) == "right"


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.sampled_from(["kett", "kettle", "kettles", "ketchup", "pan"]), min_size=1, max_size=12))
def test_the_word_itself_goes_before_what_it_may_stand_for(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    with closing(open_store(tmp_path_factory.mktemp("store"))) as store:
        put(store, {f"{number}": f"{word} " * (1 + number % 3) + "pan " * number for number, word in enumerate(words)})
        exact, typed = found(store, "kett"), found(store, "kett", typing=True)
    if "kett" in words:
        assert {id_: typed[id_] for id_ in exact} == exact
        assert all(score < min(exact.values()) for id_, score in typed.items() if id_ not in exact)
    assert typed.keys() == {
        f"{number}" for number, word in enumerate(words) if word.startswith("ket") and word != "ketchup"
    }
    assert all(0 < score < 1 for score in typed.values())


def test_other_words_obey_the_filter(store: DocumentStore) -> None:
    put(store, {"a": "a red kettle"}, {"n": 1})
    put(store, {"b": "a blue kettle"}, {"n": 2})
    assert set(found(store, "kettel")) == {"a", "b"}
    assert set(found(store, "kettel", to_condition({"n": 2}))) == {"b"}


def test_a_collection_knows_only_its_own_words(store: DocumentStore) -> None:
    shop = store.of(store.catalog.create("shop", most=2))
    put(store, {"a": "kettle"})
    put(shop, {"b": "kettles"})
    assert (set(found(store, "kettlse")), set(found(shop, "kettlse"))) == ({"a"}, {"b"})
    store.catalog.drop(shop.number)
    assert read(store, "SELECT name FROM sqlite_schema WHERE name GLOB '*_2*'") == []


def test_other_words_have_a_limit_of_their_own(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, {f"{number}": f"kettle {number}" for number in range(9)} | {"rare": "kettles"})
    monkeypatch.setattr(keywords_module, "MAX_NEAR_POSTINGS", 5)
    assert set(found(store, "kettlse")) == {"rare"}
    monkeypatch.setattr(keywords_module, "MAX_NEAR_WORDS", 0)
    assert found(store, "kettlse") == {}


def test_a_large_change_writes_its_words_in_parts(
    tmp_path: Path, store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keywords_module, "MAX_UNWRITTEN", 3)
    with store.transaction() as transaction:
        texts = {"a": "one two three four", "b": "four five six seven", "c": "two six eight nine ten"}
        transaction.upsert([Document(id_, text, {}) for id_, text in texts.items()], np.tile(EAST, (3, 1)))
        transaction.delete(transaction.rows_of(["b"]))
        transaction.upsert([Document("a", "eleven two", {})], EAST[None])
        transaction.commit()
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM vocabulary_1 WHERE term = 'kettle'",
        "INSERT INTO vocabulary_1 (term) VALUES ('pan')",
        "INSERT INTO trigrams_1 (rowid, term) VALUES (1, 'pan')",
    ],
)
def test_verify_finds_words_that_no_document_has_and_missing_ones(
    tmp_path: Path, store: DocumentStore, damage: str
) -> None:
    put(store, {"a": "a red kettle"})
    store.writer.execute(damage)
    assert any("keywords are not those" in fault for fault in faults(tmp_path))
    with store.transaction() as transaction:
        transaction.remake_keywords()
        transaction.commit()
    assert faults(tmp_path) == []


def test_a_word_finds_its_forms_in_the_language_that_documents_say(store: DocumentStore) -> None:
    put(store, {"pl": "Kupiłem nową książkę."}, {"lang": "pl_PL"})
    put(store, {"other": "książka", "unsaid": "mysteries"})
    put(store, {"en": "The batteries are empty."}, {"lang": "en-GB"})
    put(store, {"ru": "Я купил новые книги."})  # the script says it
    assert set(found(store, "książkami")) == {"pl", "other"}
    scores = found(store, "książka")
    assert (set(scores), max(scores, key=lambda id_: scores[id_])) == ({"pl", "other"}, "other")
    assert set(found(store, "battery")) == {"en"}
    assert set(found(store, "книгой")) == {"ru"}
    assert set(found(store, "книгой", to_condition({"lang": "en"}))) == set()
    put(store, {"ar": "اشتريت الكتاب", "id": "Metode pembayaran"}, {"lang": "id"})
    assert set(found(store, "كتاب")) == {"ar"}
    assert set(found(store, "membayar")) == {"id"}


def test_a_collection_in_many_languages_asks_a_few(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, language in enumerate(["de", "en", "ko", "unknown"]):
        put(store, {f"{number}": "running"}, {"lang": language})
    monkeypatch.setattr(keywords_module, "MAX_STEMS", 1)
    assert found(store, "runs") == {}  # in German
    monkeypatch.setattr(keywords_module, "MAX_STEMS", 2)
    assert set(found(store, "runs")) == {"0", "1", "2", "3"}


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=10), query=TEXTS)
def test_evidence_is_brute_force(tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str) -> None:
    with closing(open_store(tmp_path_factory.mktemp("store"))) as store:
        put(store, {str(number): text for number, text in enumerate(texts)})
        with store.snapshot() as snapshot:
            hits = snapshot.with_keywords(query)
    expected = [score for score in keyword_evidence(query, texts) if score > 0]
    assert hits.evidence.tolist() == pytest.approx(expected)
