from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import search
from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.interface import Match, Query, ResultOptions
from service.documents.search import HALF_EVIDENCE
from service.documents.store.store import DocumentStore, Snapshot
from service.errors import InvalidInput
from tests.service.documents.oracle import keyword_evidence, keyword_scores
from tests.service.documents.stores import (
    DIM,
    EAST,
    NORTH,
    count,
    ids,
    open_collection,
    put,
    read_page,
    recorded,
    unit,
    unit_vectors,
)

# Cosines are exact: ties are ties.
VECTORS = st.sampled_from([*np.eye(DIM, dtype=np.float32), np.full(DIM, 0.5, np.float32), -EAST])
TEXTS = st.lists(st.sampled_from(["red", "blue", "kettle", "the", "e4"]), max_size=5).map(" ".join)
FOUND = list[tuple[str, float, int | None, int | None]]


def put_texts(collection: Collection, documents: dict[str, tuple[str, np.ndarray]]) -> None:
    entries = [Document(id_, text, {"n": number % 2}) for number, (id_, (text, _)) in enumerate(documents.items())]
    collection.put(entries, np.stack([vector_D for _, vector_D in documents.values()]))


def summary(matches: list[Match]) -> FOUND:
    return [(one.document.id, one.score, one.dense_rank, one.keywords_rank) for one in matches]


def order(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


@settings(max_examples=80, deadline=None)
@given(
    documents=st.lists(st.tuples(TEXTS, VECTORS), min_size=1, max_size=12),
    words=TEXTS,
    vector_D=VECTORS,
    top_k=st.integers(1, 14),
    wanted=st.none() | st.integers(0, 1),
)
def test_hybrid_and_its_parts_are_brute_force(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[tuple[str, np.ndarray]],
    words: str,
    vector_D: np.ndarray,
    top_k: int,
    wanted: int | None,
) -> None:
    named = {f"d{number:02d}": document for number, document in enumerate(documents)}
    with closing(open_collection(tmp_path_factory.mktemp("store"))) as collection:
        put_texts(collection, named)
        queries = [Query(vector_D, words), Query(vector_D), Query(words=words)]
        filter_ = None if wanted is None else {"n": wanted}
        found = [summary(one) for one in collection.search_all(queries, top_k=top_k, filter_=filter_)]
    chosen = [id_ for number, id_ in enumerate(named) if wanted in (None, number % 2)]
    by_text = dict(zip(named, keyword_scores(words, [text for text, _ in documents]), strict=True))
    keywords = {id_: by_text[id_] for id_ in chosen if by_text[id_] > 0}
    cosines = {id_: float(named[id_][1] @ vector_D) for id_ in chosen}
    evidence = dict(zip(named, keyword_evidence(words, [text for text, _ in documents]), strict=True))
    share = {id_: evidence[id_] / (evidence[id_] + HALF_EVIDENCE) for id_ in chosen}
    hybrid = {id_: cosines[id_] + share[id_] * (1 - cosines[id_]) for id_ in chosen}
    for matches, scores in zip(found, (hybrid, cosines, keywords), strict=True):
        assert [score for _, score, *_ in matches] == pytest.approx(sorted(scores.values(), reverse=True)[:top_k])
        assert {id_: score for id_, score, *_ in matches} == pytest.approx({id_: scores[id_] for id_, *_ in matches})
        assert [id_ for id_, *_ in matches] == order({id_: score for id_, score, *_ in matches})  # ties by id
    assert [id_ for id_, *_ in found[1]] == order(cosines)[:top_k]  # exact: SQLite's sums differ in the last bits


def test_the_document_that_names_the_code_is_first_and_says_why(collection: Collection) -> None:
    put_texts(
        collection,
        {
            "blender": ("The blender stops after a minute", np.asarray([0.6, 0.8, 0, 0], np.float32)),
            "oven": ("Oven shows error code E4", np.asarray([0.5, 0, 0.8660254, 0], np.float32)),
            "fridge": ("The fridge hums", np.asarray([0, 0, 1, 0], np.float32)),
            "lamp": ("A lamp for the desk", np.asarray([0, 0, 0, 1], np.float32)),
        },
    )
    dense, hybrid = (
        summary(collection.search_all([query], top_k=2)[0]) for query in (Query(EAST), Query(EAST, "error code e4"))
    )
    assert [one[0] for one in dense] == ["blender", "oven"]
    (first, score, *ranks), (second, *_) = hybrid
    assert (first, second, ranks) == ("oven", "blender", [2, 1])
    assert 0.6 < score < 0.5 + 0.5 / (1 + HALF_EVIDENCE)


def test_a_word_brings_in_a_document_that_vectors_would_not_find(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "DEPTH", 2)
    near = {f"near{number}": ("nothing", np.asarray([0.8, 0.6, 0, 0], np.float32)) for number in range(9)}
    put_texts(collection, near | {"far": ("kettle", np.asarray([0.7, 0.7141428, 0, 0], np.float32))})
    (match,) = collection.search_all([Query(EAST, "kettle")], top_k=1)[0]
    assert (match.document.id, match.dense_rank, match.keywords_rank) == ("far", None, 1)


def test_each_page_is_the_next_part_of_the_same_order(collection: Collection) -> None:
    rows = enumerate(unit_vectors(300))
    put_texts(collection, {str(number): (f"word{number % 7} kettle", row_D) for number, row_D in rows})
    query = Query(EAST, "word3")
    whole = [one.document.id for one in collection.search_all([query], top_k=60)[0]]
    pages = [
        collection.search_all([query], top_k=end, options=ResultOptions(offset=end - 20))[0] for end in (20, 40, 60)
    ]
    assert [one.document.id for page in pages for one in page] == whole


def test_several_searches_look_the_filter_up_once(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {f"{number:03}": EAST for number in range(50)}, {"x": 1})
    lookups, fetched = (recorded(monkeypatch, method) for method in ("matching", "fetch"))
    found = collection.search_all([Query(EAST), Query(unit(1, 1, 0, 0))], top_k=2, filter_={"x": 1})
    assert [[match.document.id for match in one] for one in found] == [["000", "001"]] * 2
    assert (len(lookups), sum(map(len, fetched))) == (1, 2)


def test_what_is_not_wanted_of_a_document_is_not_read(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = recorded(monkeypatch, "fetch")
    put(collection, {"a": unit(3, 0, 0, 0), "b": unit(2, 1, 0, 0), "c": NORTH}, {"x": 1})
    without_metadata = ResultOptions(offset=1, min_score=0.5, metadata=False)
    ((match,),) = collection.search_all([Query(EAST)], top_k=3, options=without_metadata)
    assert (match.document.id, match.document.text, match.document.metadata) == ("b", "text of b", {})
    assert [len(rows) for rows in fetched] == [1]
    ((match,),) = collection.search_all([Query(EAST)], top_k=1, options=ResultOptions(text=False, max_chars=20))
    assert (match.document.id, match.document.text, match.document.metadata) == ("a", "", {"x": 1})


def test_too_many_characters_are_refused_before_all_are_read(collection: Collection) -> None:
    put(collection, {str(number): unit(1, number, 0, 0) for number in range(9)})
    few = ResultOptions(max_chars=100)  # nine have 9 + 2 each
    found = collection.search_all([Query(EAST), Query(NORTH)], top_k=4, options=few)
    assert [len(matches) for matches in found] == [4, 4]
    assert len(collection.search_all([Query(EAST)], top_k=9, options=ResultOptions(max_chars=99))[0]) == 9
    with pytest.raises(InvalidInput, match="have more than 98 characters together"):
        collection.search_all([Query(EAST)], top_k=9, options=ResultOptions(max_chars=98))
    assert len(ids(collection, EAST, 9)) == 9


def test_filter_slower_than_writers_is_tried_a_few_times(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(collection, {"a": EAST}, {"x": 1})
    lookups: list[object] = []
    matching = Snapshot.matching

    def beside_a_change(store: DocumentStore, condition: Any, **_: Any) -> Any:
        lookups.append(condition)
        if len(lookups) <= search.TRIES:  # then a writer has to wait
            with ThreadPoolExecutor() as other:
                other.submit(put, collection, {"a": unit(1, len(lookups), 0, 0)}, {"x": 1}).result()
        return matching(store, condition)

    monkeypatch.setattr(Snapshot, "matching", beside_a_change)
    found = collection.search_all([Query(EAST)] * 20, top_k=1, filter_={"x": 1})
    assert [[match.document.id for match in one] for one in found] == [["a"]] * 20
    assert len(lookups) == search.TRIES + 1


def test_slow_filter_is_given_up_and_the_next_search_is_not(collection: Collection) -> None:
    for number in range(20):
        put(collection, {f"{number}-{other}": EAST for other in range(50)}, {"x": number})
    slow = {"or": [{"x": {"gte": -number}} for number in range(300)]}
    uses: list[Callable[[], object]] = [
        lambda: collection.search_all([Query(EAST)], top_k=1, filter_=slow, options=ResultOptions(timeout_s=0.001)),
        lambda: collection.delete_matching(slow, timeout_s=0.001),
        lambda: count(collection, slow, timeout_s=0.001),
        lambda: read_page(collection, filter_=slow, timeout_s=0.001),
    ]
    for use in uses:
        with pytest.raises(InvalidInput, match=r"takes longer than 0.001 s \(CROSSLET_REQUEST_TIMEOUT_S\)"):
            use()
    assert count(collection, slow, timeout_s=60.0) == 1000
    assert len(ids(collection, EAST, 9, filter_=slow)) == 9
    assert collection.delete_matching(slow, timeout_s=60.0) == 1000
