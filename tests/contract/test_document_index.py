"""What every index of documents promises, asked of each: the embedded one, and Milvus.

Milvus is milvus-lite, in this process. `make test-milvus` asks a server; with CROSSLET_TEST_MILVUS=milvus://host:19530
a running one, which keeps the collections: their names begin with crosslet_aa and crosslet_bb.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from service.documents.document import Document, bytes_of
from service.documents.interface import DocumentIndex, Query, ResultOptions
from service.documents.recalibration import Recalibration
from service.errors import InvalidInput, StoreError
from service.model.confidence import features
from service.offline.report_questions import OPTIONS, TOP_K, evidence_without
from tests.contract.filter_oracle import FILTERS, matches, varied_metadata
from tests.contract.milvus_standalone import Open
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import EAST, NORTH, UP, count, ids, put, read_page, unit, unit_vectors

NAMES = [
    *("é", "e\u0301", "日本/語", "a b", "it's", 'q"uote', "back\\slash", "🙂", "%_"),
    *('" or 1 == 1 or id == "', "\u2028", "x" * 512),
]


def listed(
    index: DocumentIndex, *, limit: int, max_chars: int = 10**6, filter_: Mapping[str, Any] | None = None
) -> tuple[list[str], list[int]]:
    """All ids, page by page, and the sizes of the pages."""
    names: list[str] = []
    sizes: list[int] = []
    row: int | None = 0
    while row is not None:
        page = read_page(index, after_row=row, limit=limit, max_chars=max_chars, filter_=filter_)
        assert page.total == (count(index, filter_) if filter_ or index.backend != "milvus" else None)
        names += [document.id for document in page.documents]
        sizes.append(len(page.documents))
        row = page.next_row
    return names, sizes


def test_an_empty_index_answers_everything_with_nothing(index: DocumentIndex) -> None:
    assert len(index) == 0
    assert search_one(index, EAST, top_k=5) == []
    assert index.search_all([Query(EAST), Query(UP)], top_k=5, filter_={"x": 1}) == [[], []]
    assert index.get("a") is None
    assert index.delete(["a"]) == 0
    assert index.delete_matching({"x": None}) == 0
    assert listed(index, limit=5) == ([], [0])


def test_texts_without_words_are_found_by_their_vectors(index: DocumentIndex) -> None:
    if not index.has_keywords:
        pytest.skip("this Milvus has no keywords")
    index.put([Document("a", "🎸 !!!", {})], EAST[None])
    hybrid, by_words = index.search_all([Query(EAST, "kettle"), Query(words="kettle", typing=True)], top_k=5)
    assert [match.document.id for match in hybrid] == ["a"]
    assert by_words == []


@pytest.mark.parametrize("query", [Query(words="水"), Query(words="비", typing=True)])
def test_a_character_finds_all_terms_that_begin_so(
    index: DocumentIndex, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not index.has_keywords:
        pytest.skip("this Milvus has no keywords")
    texts = [f"{query.words}{chr(0xAC00 + 28 * number)}" for number in range(100)]
    index.put([Document(text, text, {}) for text in texts], np.stack([EAST] * len(texts)))

    def counted() -> tuple[int | None, bool]:
        (found,) = index.search_all([query], top_k=5)
        return found.total, found.is_counted

    assert counted() == (100, True)
    monkeypatch.setattr("service.documents.milvus.keywords.MAX_COMPLETIONS", 50)
    assert counted() == ((50, False) if index.backend == "milvus" else (100, True))


def test_bytes_are_those_of_ids_texts_and_metadata(index: DocumentIndex) -> None:
    assert index.content_bytes() == 0
    documents = [Document(name, "é日" * number, {"ü": [name, 1.5, None]}) for number, name in enumerate(NAMES, 1)]
    index.put(documents, unit_vectors(len(documents)))
    assert index.content_bytes() == sum(map(bytes_of, documents))
    index.update_metadata(NAMES[0], lambda _: {})
    index.delete(NAMES[1:])
    assert index.content_bytes() == len("é".encode()) + len("é日".encode()) + len("{}")


def test_putting_twice_changes_only_the_revision(index: DocumentIndex) -> None:
    index.check_room([Document("a", "x", {}), Document("b", "y", {})])
    first = put(index, {"a": EAST, "b": NORTH}, {"lang": "de"})
    second = put(index, {"a": EAST, "b": NORTH}, {"lang": "de"})
    assert second > first
    assert len(index) == 2
    found = index.documents_of(["b", "nobody", "a", "b"])
    assert {id_: (document.text, document.revision) for id_, document in found.items()} == {
        "a": ("text of a", second),
        "b": ("text of b", second),
    }
    assert ids(index, EAST, 5) == ["a", "b"]


def test_a_change_replaces_text_metadata_and_vector_at_once(index: DocumentIndex) -> None:
    put(index, {"a": EAST, "b": NORTH}, {"lang": "de", "year": 2020})
    index.put([Document("a", "neu", {"lang": ["tr", None]})], UP[None])
    found = index.get("a")
    assert (found.text, found.metadata) == ("neu", {"lang": ["tr", None]})
    assert ids(index, UP, 1) == ["a"]
    assert ids(index, EAST, 5, filter_={"lang": "de"}) == ["b"]
    assert ids(index, EAST, 5, filter_={"lang": "tr"}) == ["a"]
    assert ids(index, EAST, 5, filter_={"year": {"gte": 2020}}) == ["b"]


def test_what_is_deleted_is_gone_at_once_and_counted_once(index: DocumentIndex) -> None:
    put(index, dict.fromkeys("abcd", EAST))
    assert index.delete(["b", "b", "never", "d\x00", "d"]) == 2
    assert ids(index, EAST, 5) == ["a", "c"]
    assert index.get("b") is None
    assert len(index) == 2
    assert index.delete(["b"]) == 0


def test_exact_search_equals_numpy(index: DocumentIndex) -> None:
    vectors_ND = unit_vectors(150)
    index.put([Document(f"{number}", "text", {}) for number in range(150)], vectors_ND)
    queries_BD = vectors_ND[:3] * np.float32(0.5)
    for top_k in (1, 10, 400):
        answers = index.search_all([Query(query_D) for query_D in queries_BD], top_k=top_k)
        for query_D, found in zip(queries_BD, answers, strict=True):
            scores_N = vectors_ND @ query_D
            assert [match.document.id for match in found] == [str(n) for n in np.argsort(-scores_N)[:top_k]]
            np.testing.assert_allclose([match.score for match in found], -np.sort(-scores_N)[:top_k], atol=1e-6)


def test_ties_are_ordered_by_id_whatever_the_order_of_arrival(index: DocumentIndex) -> None:
    names = [f"{number:03}" for number in np.random.default_rng(3).permutation(60)]
    put(index, dict.fromkeys(names, EAST))
    put(index, {"last": unit(1, 0.01, 0, 0), "first": unit(1, 0, 0, 0)})
    assert ids(index, EAST, 5) == ["000", "001", "002", "003", "004"]
    assert ids(index, EAST, 62)[-2:] == ["first", "last"]


def test_pages_follow_arrival_and_hold_each_document_once(index: DocumentIndex) -> None:
    names = [f"{number:02}" for number in np.random.default_rng(4).permutation(23)]
    for name in names[:3]:
        put(index, {name: EAST})
    put(index, dict.fromkeys(names[3:], EAST))
    put(index, {names[1]: NORTH})
    index.delete([names[5]])
    expected = names[:5] + names[6:]
    assert listed(index, limit=1) == (expected, [1] * 22)
    assert listed(index, limit=10) == (expected, [10, 10, 2])
    assert listed(index, limit=22) == (expected, [22])
    assert listed(index, limit=10, max_chars=30) == (expected, [2] * 11)
    assert listed(index, limit=10, max_chars=1)[1][:2] == [1, 1]


def test_pages_of_a_filter_hold_each_match_once(index: DocumentIndex) -> None:
    for number in range(23):
        put(index, {f"{number:02}": EAST}, {"n": number, "a": {"b": number % 2}})
    odd = [f"{number:02}" for number in range(1, 23, 2)]
    assert listed(index, limit=4, filter_={"a.b": 1}) == (odd, [4, 4, 3])
    assert listed(index, limit=11, filter_={"a.b": 1}) == (odd, [11])
    assert listed(index, limit=10, max_chars=50, filter_={"a.b": 1})[0] == odd
    assert listed(index, limit=5, filter_={"a.b": 2}) == ([], [0])
    assert (count(index), count(index, {}), count(index, {"n": {"lt": 3}})) == (23, 23, 3)
    for filter_ in ({"lang": {"like": "d"}}, {"or": []}):
        with pytest.raises(InvalidInput):
            count(index, filter_)
        with pytest.raises(InvalidInput):
            listed(index, limit=1, filter_=filter_)


def test_a_filter_deletes_what_it_selects(index: DocumentIndex) -> None:
    put(index, {"a": EAST}, {"source": {"site": "x", "pages": [{"n": 1}, {"n": 2}]}})
    put(index, {"b": EAST}, {"source.site": "y", "source": {"site": "x"}})
    put(index, {"c": EAST}, {"source": None})
    for refused in ({}, {"lang": {"like": "d"}}, {"or": []}, {"p": {"gte": 3, "lt": "5"}}):
        with pytest.raises(InvalidInput):
            index.delete_matching(refused)
    assert index.delete_matching({"source.pages.n": 3}) == 0
    assert index.delete_matching({"source.site": {"exists": True}, "source.pages.n": {"ne": 2}}) == 1
    assert ids(index, EAST, 5) == ["a", "c"]
    assert index.delete_matching({"source.site": {"ne": "x"}}) == 1
    assert index.delete_matching({"source.pages.n": 2}) == 1
    assert count(index) == 0


RANGE = {"p": {"gte": 3, "lt": 5}}
LISTS: dict[str, dict[str, Any]] = {
    "around": {"p": [1, 10]},
    "between": {"p": [[4], 1, 4, 10]},
    "one": {"p": [3, 1, 2.5]},
    "scalar": {"p": 4},
    "below": {"p": [1, 2]},
    "text": {"p": ["1", "4", "9"]},
    "nested": {"n": [{"p": [1, 5]}, {"p": 9}]},
    "apart": {"n": [{"p": [1]}, {"p": 9}]},
}


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (RANGE, {"between", "one", "scalar"}),
        ({"not": RANGE}, {"around", "below", "text", "nested", "apart"}),
        ({"and": [{"p": {"gte": 3}}, {"p": {"lt": 5}}]}, {"around", "between", "one", "scalar"}),
        ({"p": {"gte": 3, "lt": 5, "ne": 10}}, {"one", "scalar"}),
        ({"p": {"gte": 3, "lt": 5, "exists": False}}, set()),
        ({"p": {"gte": 3, "lt": 5, "in": [1, 4, 10]}}, {"between", "scalar"}),
        ({"p": {"gte": 3, "in": ["4", 1, None]}}, set()),
        ({"not": {"p": {"gte": 3, "in": ["4", 1]}}}, {*LISTS}),
        ({"p": {"gt": 1, "gte": 4, "lt": 99, "lte": 4}}, {"between", "scalar"}),
        ({"p": {"gte": "3", "lt": "5"}}, {"text"}),
        ({"n.p": {"gt": 2, "lt": 8}}, {"nested"}),
        ({"or": [{"n.p": {"gt": 2, "lt": 8}}, {"p": {"gt": 8, "lt": 99}}]}, {"around", "between", "nested"}),
    ],
)
def test_both_bounds_hold_for_one_element(index: DocumentIndex, filter_: dict[str, Any], expected: set[str]) -> None:
    documents = [Document(id_, "text", metadata) for id_, metadata in LISTS.items()]
    index.put(documents, np.stack([EAST] * len(LISTS)))
    assert ids(index, EAST, 20, filter_=filter_) == sorted(expected)
    assert count(index, filter_) == len(expected)
    assert index.delete_matching(filter_) == len(expected)
    assert {*listed(index, limit=20)[0]} == {*LISTS} - expected


@pytest.mark.parametrize(("typed", "asked"), [("e\u0301", "é"), ("é", "e\u0301"), ("\u1112\u1161\u11ab", "한")])
def test_two_spellings_of_a_character_are_one(index: DocumentIndex, typed: str, asked: str) -> None:
    metadata = {f"k{typed}": [typed, "other"], "n": {typed: typed}}
    put(index, {"a": EAST}, metadata)
    for filter_ in (
        {f"k{asked}": asked},
        {f"n.{asked}": asked},
        {f"k{asked}": {"gte": asked, "lte": asked}},
        {"not": {f"n.{asked}": {"ne": asked}}},
    ):
        assert ids(index, EAST, 5, filter_=filter_) == ["a"], filter_
    assert count(index, {f"n.{asked}": {"lt": asked}}) == 0
    assert index.get("a").metadata == metadata


def test_any_id_and_any_text_comes_back_as_it_was_put(index: DocumentIndex) -> None:
    metadata = {"a": [1, {"b": [None, True, 0.1, 2**64 - 1]}], 'q"': "\x00\u2028🙂", "": {}}
    index.put([Document(name, f"{name}\n\x00'\"\\", metadata) for name in NAMES], np.stack([EAST] * len(NAMES)))
    assert len(index) == len(NAMES)
    assert ids(index, EAST, 20) == sorted(NAMES)
    for name in NAMES:
        found = index.get(name)
        assert (found.id, found.text, found.metadata) == (name, f"{name}\n\x00'\"\\", metadata)
    assert index.delete(NAMES[:5]) == 5
    assert ids(index, EAST, 20) == sorted(NAMES[5:])


def test_everything_is_there_after_reopening(open_index: Open) -> None:
    index = open_index()
    put(index, {"a": EAST, "b": NORTH}, {"lang": ["de", "tr"]})
    index.delete(["b"])
    before = search_one(index, unit(1, 2, 0, 0), top_k=5, filter_={"lang": "tr"})
    again = open_index()
    assert search_one(again, unit(1, 2, 0, 0), top_k=5, filter_={"lang": "tr"}) == before
    assert len(before) == len(again) == 1
    assert put(again, {"b": UP}) > before[0].document.revision
    assert listed(again, limit=5) == (["a", "b"], [2])


def test_models_never_share_documents(open_index: Open) -> None:
    put(open_index("aa"), {"a": EAST})
    try:
        other = open_index("bb")
    except StoreError:
        pass  # refused is as good
    else:
        assert (len(other), ids(other, EAST, 5)) == (0, [])
        put(other, {"b": EAST})
    assert ids(open_index("aa"), EAST, 5) == ["a"]


def test_filter_finds_exactly_what_it_means(index: DocumentIndex) -> None:
    metadata = varied_metadata(60, seed=11)
    index.put([Document(f"{n:02}", "text", one) for n, one in enumerate(metadata)], np.stack([EAST] * 60))

    @settings(max_examples=30, suppress_health_check=list(HealthCheck), database=None)
    @given(filter_=FILTERS)
    def check(filter_: dict[str, Any]) -> None:
        expected = [f"{n:02}" for n, one in enumerate(metadata) if matches(filter_, one)]
        assert ids(index, EAST, 100, filter_=filter_) == expected
        assert count(index, filter_) == len(expected)
        assert listed(index, limit=100, filter_=filter_)[0] == expected

    check()
    assert ids(index, EAST, 100, filter_={}) == [f"{n:02}" for n in range(60)]


def test_like_leaves_its_document_out_whatever_ties(index: DocumentIndex) -> None:
    put(index, {"a": EAST, "b": EAST, "c": EAST, "d": NORTH})
    for top_k in (1, 2, 3, 10):
        (found,) = index.search_all([Query(EAST, without="b")], top_k=top_k)
        assert [match.document.id for match in found] == ["a", "c", "d"][:top_k]
    (other,) = index.search_all([Query(EAST, without="nobody")], top_k=3)
    assert [match.document.id for match in other] == ["a", "b", "c"]


def test_vectors_come_with_what_is_found_where_they_are_wanted(index: DocumentIndex) -> None:
    put(index, {"a": EAST, "b": unit(1, 2, 3, 4)})
    (found,) = index.search_all([Query(NORTH)], top_k=2, options=ResultOptions(text=False, vector=True))
    given = {match.document.id: match.vector_D for match in found}
    np.testing.assert_array_equal(index.vector("b"), given["b"])
    assert index.vector("nobody") is None
    np.testing.assert_array_equal(given["a"], EAST)
    np.testing.assert_array_equal(given["b"], unit(1, 2, 3, 4))
    assert [match.vector_D for match in search_one(index, NORTH, top_k=2)] == [None, None]


def test_metadata_change_alone_and_durably(open_index: Open) -> None:
    index = open_index()
    first = put(index, {"a": EAST, "b": NORTH}, {"lang": "de", "n": 1})
    revision = index.update_metadata("a", lambda before: {**before, "n": 2, "x": {"y": [True]}})
    assert revision > first
    assert index.update_metadata("nobody", lambda before: before) is None
    with pytest.raises(ZeroDivisionError):
        index.update_metadata("b", lambda before: {"n": 1 / 0})
    for reopen in (lambda: index, open_index):
        reopened = reopen()
        document = reopened.get("a")
        assert (document.text, document.metadata) == ("text of a", {"lang": "de", "n": 2, "x": {"y": [True]}})
        assert document.revision == revision
        assert count(reopened, {"n": 1}) == count(reopened, {"x.y": True}) == 1
        (found,) = search_one(reopened, EAST, top_k=1)
        assert (found.document.id, found.score) == ("a", pytest.approx(1))


def test_a_recalibration_is_kept_and_taken_back(open_index: Open) -> None:
    index = open_index()
    assert index.recalibration is None
    put(index, {"a": EAST})
    own = Recalibration(0.9, 0.8, -0.25, "aa")
    index.recalibrate(own)
    assert index.recalibration == own
    index.close()
    index = open_index()
    assert index.recalibration == own
    index.recalibrate(None)
    assert index.recalibration is None
    assert ids(index, EAST, 2) == ["a"]


def test_evidence_without_answers_is_a_search_without_them(index: DocumentIndex) -> None:
    vectors_PD = unit_vectors(12, seed=5)
    documents = [Document(f"d{number}", f"guitar number {number}", {}) for number in range(12)]
    index.put(documents, vectors_PD)
    query = Query(unit_vectors(1, seed=6)[0], "guitar 3" if index.has_keywords else None, text="guitar 3")
    (matches,) = index.search_all([query], top_k=TOP_K, options=OPTIONS)
    answers = frozenset({matches[0].document.id, matches[2].document.id})
    rest = evidence_without(matches, answers)
    index.delete([*answers])
    (wanted,) = index.search_all([query], top_k=TOP_K, options=OPTIONS)
    assert rest is not None
    assert wanted.evidence is not None
    assert rest.text == wanted[0].document.text
    dense = [replace(evidence, share_N=None) for evidence in (rest, wanted.evidence)]  # rarities change
    assert features(dense[0], different=0.8)[[0, 1, 3, 4]] == pytest.approx(
        features(dense[1], different=0.8)[[0, 1, 3, 4]]
    )
    assert evidence_without(matches, frozenset(document.id for document in documents)) is None


def test_evidence_has_the_first_text_whatever_is_shown(index: DocumentIndex) -> None:
    index.put([Document("a", "east", {}), Document("b", "north", {})], np.stack([EAST, NORTH]))
    for words in (None, "east") if index.has_keywords else (None,):
        (matches,) = index.search_all(
            [Query(EAST, words, text="east")], top_k=2, options=ResultOptions(text=False, metadata=False, compared=2)
        )
        assert matches.evidence is not None
        assert matches.evidence.text == "east"
