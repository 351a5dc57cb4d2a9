import unicodedata
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import arrangement, search
from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.interface import Group, Match, Preference, Query, ResultOptions, SortField
from service.documents.store import store
from service.errors import InvalidInput
from tests.contract.filter_oracle import matches
from tests.service.documents.stores import DIM, EAST, NORTH, open_collection, put, unit, unit_vectors

VALUES = [
    *(None, True, False, 1, 1.0, 2, 0.5, -3, 2**53 + 1, 2.0**53, "a", "B", "é", "e\u0301", "日本", "", "1", "true"),
    *(["b", "a"], [], [3, "x"], [None, "z"], [[1]], {"x": 1}),
]
FIELDS = st.dictionaries(st.sampled_from(["k", "l", "o"]), st.sampled_from(VALUES), max_size=3)
VECTORS = st.sampled_from([*np.eye(DIM, dtype=np.float32), np.full(DIM, 0.5, np.float32), -EAST])
TEXTS = st.lists(st.sampled_from(["red", "blue", "kettle", "e4"]), max_size=4).map(" ".join)
SORTS = st.lists(st.builds(SortField, st.sampled_from(["k", "l", "o.x"]), st.booleans()), max_size=3)
PREFERRED = st.builds(
    Preference,
    st.sampled_from(["k", "l"]),
    st.sampled_from(["a", "é", 1, True]),
    st.sampled_from([0.1, 0.5, 0.9]),  # 1 would tie all
    st.sampled_from([(), ("b",), ("a", "é")]),
)
KINDS = [bool, int, str]
Key = tuple[int, Any]


def key_of(metadata: Mapping[str, Any], field: str, *, descending: bool = False) -> Key | None:
    """The kind and the value that a document is ordered and grouped by, as plain Python has them."""
    first, _, second = field.partition(".")
    value = metadata.get(first)
    if second:
        value = value.get(second) if isinstance(value, dict) else None
    scalars = [
        one for one in (value if isinstance(value, list) else [value]) if isinstance(one, bool | int | float | str)
    ]
    keys = [
        (
            KINDS.index(int if isinstance(one, float) else type(one)),
            unicodedata.normalize("NFC", one) if isinstance(one, str) else one,
        )
        for one in scalars
    ]
    return (max if descending else min)(keys, default=None)


def sorted_by(ids: list[str], sort: tuple[SortField, ...], metadata: Mapping[str, Any]) -> list[str]:
    for by in reversed(sort):
        keys = {id_: key_of(metadata[id_], by.field, descending=by.descending) for id_ in ids}
        having = sorted((id_ for id_ in ids if keys[id_]), key=lambda id_: keys[id_], reverse=by.descending)
        ids = having + [id_ for id_ in ids if not keys[id_]]
    return ids


def expected(
    base: Mapping[str, float | None],
    metadata: Mapping[str, Any],
    query: Query,
    top_k: int,
    options: ResultOptions,
) -> tuple[list[tuple[str, float | None, Group | None]], int]:
    """What arranging the documents with these scores gives, and how many results there are over all pages."""
    score_of = {
        id_: score
        for id_, score in base.items()
        if score is None or options.min_score is None or score >= options.min_score
    }
    found = list(score_of)
    if query.prefer is not None:
        wanted = query.prefer.filter_
        score_of = {
            id_: score + query.prefer.weight if score is not None and matches(wanted, metadata[id_]) else score
            for id_, score in score_of.items()
        }
    ids = sorted(score_of, key=lambda id_: (-(score_of[id_] or 0), id_))
    by_filter = search.is_filter_alone(query)
    if by_filter:
        ids = sorted_by(ids, options.sort, metadata)
    group_of: dict[str, Any] = {id_: id_ for id_ in base}
    if options.group_by is not None:
        group_of = {id_: key_of(metadata[id_], options.group_by) or id_ for id_ in base}
        ids = [id_ for place, id_ in enumerate(ids) if group_of[id_] not in [group_of[other] for other in ids[:place]]]
    total, ids = len(ids), ids[:top_k]
    if not by_filter:
        ids = sorted_by(ids, options.sort, metadata)
    counted = found if query.vector_D is None else list(base)
    results = []
    for id_ in ids[options.offset :][: options.limit]:
        group = None
        if options.group_by is not None:
            key = key_of(metadata[id_], options.group_by)
            value = None if key is None else key[1]
            group = Group(value, sum(group_of[other] == group_of[id_] for other in counted))
        results.append((id_, score_of[id_], group))
    return results, total


def summary(found: list[Match]) -> list[tuple[str, float | None, Group | None]]:
    return [(match.document.id, match.score, match.group) for match in found]


@settings(max_examples=150, deadline=None)
@given(
    documents=st.lists(st.tuples(TEXTS, VECTORS, FIELDS), min_size=1, max_size=14),
    words=TEXTS,
    vector_D=VECTORS,
    top_k=st.integers(1, 16),
    offset=st.integers(0, 4),
    wanted=st.none() | st.integers(0, 1),
    prefer=st.none() | PREFERRED,
    group_by=st.none() | st.sampled_from(["k", "l", "o.x"]),
    sort=SORTS.map(tuple),
    min_score=st.none() | st.sampled_from([-1.0, 0.0, 0.3, 0.6]),
)
def test_arranged_results_are_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[tuple[str, np.ndarray, dict[str, Any]]],
    words: str,
    vector_D: np.ndarray,
    top_k: int,
    offset: int,
    wanted: int | None,
    prefer: Preference | None,
    group_by: str | None,
    sort: tuple[SortField, ...],
    min_score: float | None,
) -> None:
    metadata = {f"d{number:02d}": {**one, "n": number % 2} for number, (_, _, one) in enumerate(documents)}
    entries = [Document(id_, text, metadata[id_]) for id_, (text, *_) in zip(metadata, documents, strict=True)]
    options = ResultOptions(offset=offset, limit=3, group_by=group_by, sort=sort, min_score=min_score)
    filter_ = None if wanted is None else {"n": wanted}
    plain = [Query(vector_D, words), Query(vector_D), Query(words=words), Query()]
    with closing(open_collection(tmp_path_factory.mktemp("store"))) as collection:
        collection.put(entries, np.stack([row_D for _, row_D, _ in documents]))
        bases = collection.search_all(plain, top_k=99, filter_=filter_)
        for query, base in zip(plain, bases, strict=True):
            asked = Query(query.vector_D, query.words, prefer=None if search.is_filter_alone(query) else prefer)
            (found,) = collection.search_all([asked], top_k=top_k, filter_=filter_, options=options)
            scores = {match.document.id: match.score for match in base}
            results, total = expected(scores, metadata, asked, top_k, options)
            assert summary(found) == results
            assert (found.total, found.is_counted) == (total if query.vector_D is None else None, True)


def fill(collection: Collection, count: int = 400) -> dict[str, dict[str, Any]]:
    """Put documents that tie much: few scores, few values."""
    rng = np.random.default_rng(7)
    vectors_ND = unit_vectors(9, seed=3)[rng.integers(9, size=count)]
    metadata = {
        f"{number:03}": {
            "topic": f"t{number % 37}",
            "lang": ["de", "en", "hi"][number % 3],
            "price": int(rng.integers(6)),
        }
        for number in range(count)
    }
    collection.put([Document(id_, f"word{int(id_) % 5} kettle", one) for id_, one in metadata.items()], vectors_ND)
    return metadata


@pytest.mark.parametrize("query", [Query(EAST), Query(EAST, "kettle word3"), Query(words="kettle"), Query()])
@pytest.mark.parametrize("few", [2000, 50])
def test_pages_are_parts_of_one_order(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, query: Query, few: int
) -> None:
    monkeypatch.setattr(store, "MOST_LISTED", few)  # fields of more documents are read all at once
    fill(collection)
    prefer = None if search.is_filter_alone(query) else Preference("lang", "hi", 0.05)
    query = Query(query.vector_D, query.words, prefer=prefer)
    for group_by, sort in (("topic", ()), (None, (SortField("price"),)), ("topic", (SortField("price", True),))):
        depth = 30
        whole = ResultOptions(group_by=group_by, sort=sort)
        (at_once,) = collection.search_all([query], top_k=depth, options=whole)
        pages = []
        for offset in range(0, depth, 7):
            end = depth if sort and not search.is_filter_alone(query) else min(depth, offset + 7)
            page = ResultOptions(offset=offset, limit=7, group_by=group_by, sort=sort)
            pages += collection.search_all([query], top_k=end, options=page)[0]
        assert summary(pages) == summary(at_once)
        assert len({match.document.id for match in at_once}) == depth


def test_a_preferred_document_comes_up_from_any_depth(collection: Collection) -> None:
    vectors_ND = np.stack([unit(1, 0.5 + 0.001 * number, 0, 0) for number in range(500)])
    langs = ["de" if number == 400 else "en" for number in range(500)]
    collection.put([Document(f"{n:03}", "x", {"lang": lang}) for n, lang in enumerate(langs)], vectors_ND)
    prefer = Preference("lang", "de", 0.9)
    (found,) = collection.search_all([Query(EAST, prefer=prefer)], top_k=3)
    assert [match.document.id for match in found] == ["400", "000", "001"]
    assert [match.dense_rank for match in found] == [None, 1, 2]
    (found,) = collection.search_all([Query(EAST, prefer=prefer)], top_k=3, options=ResultOptions(min_score=0.8))
    assert [match.document.id for match in found] == ["000", "001", "002"]  # the score before counts


def test_groups_are_looked_for_to_a_depth(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_ND = np.stack([unit(1, 0.001 * number, 0, 0) for number in range(300)])
    collection.put([Document(f"{n:03}", "x", {"g": n // 100}) for n in range(300)], vectors_ND)
    (found,) = collection.search_all([Query(EAST)], top_k=3, options=ResultOptions(group_by="g"))
    assert summary(found) == [(id_, found[at].score, Group(at, 100)) for at, id_ in enumerate(["000", "100", "200"])]
    monkeypatch.setattr(arrangement, "GROUP_DEPTH", 150)
    (found,) = collection.search_all([Query(EAST)], top_k=3, options=ResultOptions(group_by="g"))
    assert [match.document.id for match in found] == ["000", "100"]


def test_passages_of_a_document_are_one_result(collection: Collection) -> None:
    text = "One sentence. Another sentence."
    documents = [Document(f"d{n}", text, {"g": n % 2, "price": -n}, passages=((0, 13), (14, 31))) for n in range(4)]
    collection.put(documents, np.stack([row_D for n in range(4) for row_D in (NORTH, unit(1, 0.1 * n + 0.1, 0, 0))]))
    options = ResultOptions(group_by="g", sort=(SortField("price"),))
    query = Query(EAST, "sentence", prefer=Preference("price", -2, 1.0))
    (found,) = collection.search_all([query], top_k=2, options=options)
    assert [(match.document.id, match.group) for match in found] == [("d2", Group(0, 2)), ("d1", Group(1, 2))]
    assert [match.passage and match.passage.text for match in found] == ["Another sentence."] * 2
    (listed,) = collection.search_all([Query()], top_k=2, options=ResultOptions(sort=(SortField("price"),)))
    assert [(match.document.id, match.passage, match.score) for match in listed] == [
        ("d3", None, None),
        ("d2", None, None),
    ]


def test_a_total_over_the_postings_read_is_the_least(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {f"{number:02}": EAST for number in range(30)})
    (found,) = collection.search_all([Query(words="text")], top_k=2)
    assert (found.total, found.is_counted) == (30, True)
    monkeypatch.setattr("service.documents.keywords.index.MAX_POSTINGS", 20)
    (found,) = collection.search_all([Query(words="text")], top_k=2)
    assert (found.total, found.is_counted) == (20, False)
    collection.put([Document("rare", "kettle", {})], EAST[None])
    (found,) = collection.search_all([Query(words="text kettle")], top_k=2)
    assert (found.total, found.is_counted) == (1, False)  # `text` is left out
    monkeypatch.setattr("service.documents.keywords.index.MAX_OCCURRENCES", 10)
    (found,) = collection.search_all([Query(words="text")], top_k=2)
    assert (found.total, found.is_counted) == (10, False)


def test_slow_orders_and_groups_are_given_up(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(collection)
    monkeypatch.setattr(store, "STEPS_A_LOOK", 10)
    late = ResultOptions(timeout_s=0, sort=(SortField("price"),), group_by="topic")
    for query in (Query(EAST), Query(words="kettle"), Query()):
        with pytest.raises(InvalidInput, match=r"longer than 0 s \(CROSSLET_REQUEST_TIMEOUT_S\)"):
            collection.search_all([query], top_k=5, options=late)


def test_other_collections_do_not_count(tmp_path: Path) -> None:
    with closing(open_collection(tmp_path)) as collection:
        other = collection._store.catalog.create("other", most=9)
        fill(collection, 30)
        store_of_other = collection._store.of(other)
        with store_of_other.snapshot() as snapshot:
            assert len(snapshot.by_id(None)) == 0
            assert snapshot.count_by_first_value("lang", {("string", "de")}, None) == {}
            keys = snapshot.order_keys("lang", np.arange(1, 5000))
            assert (keys == store.LAST).all()
