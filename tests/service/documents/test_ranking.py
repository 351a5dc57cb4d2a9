from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.blending import KEYWORD_WEIGHT
from service.documents import search
from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.interface import Match, Query, ResultOptions
from service.documents.live_index import IndexMaintenance
from service.documents.store.store import DocumentStore
from tests.service.documents.oracle import keyword_scores

DIM = 4
CORNERS = [np.eye(DIM, dtype=np.float32)[place] for place in range(DIM)]
VECTORS = st.sampled_from([*CORNERS, np.full(DIM, 0.5, np.float32), -CORNERS[0]])  # cosines are exact: ties are ties
TEXTS = st.lists(st.sampled_from(["red", "blue", "kettle", "the", "e4"]), max_size=5).map(" ".join)
FOUND = list[tuple[str, float, int | None, int | None]]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    collection = open_collection(tmp_path)
    yield collection
    collection.close()


def open_collection(folder: Path) -> Collection:
    store = DocumentStore(folder / "documents.sqlite3", fingerprint="aa", dim=DIM)
    return Collection(store, IndexMaintenance(store, dim=DIM))


def put(collection: Collection, documents: dict[str, tuple[str, np.ndarray]]) -> None:
    entries = [Document(id_, text, {"n": number % 2}) for number, (id_, (text, _)) in enumerate(documents.items())]
    collection.put(entries, np.stack([vector_D for _, vector_D in documents.values()]))


def summary(matches: list[Match]) -> FOUND:
    return [(one.document.id, one.score, one.dense_rank, one.keywords_rank) for one in matches]


def order(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def rank_in(ids: list[str], id_: str, depth: int) -> int | None:
    return ids.index(id_) + 1 if id_ in ids[:depth] else None


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
    collection = open_collection(tmp_path_factory.mktemp("store"))
    try:
        put(collection, named)
        queries = [Query(vector_D, words), Query(vector_D), Query(words=words)]
        filter_ = None if wanted is None else {"n": wanted}
        found = [summary(one) for one in collection.search_all(queries, top_k=top_k, filter_=filter_)]
    finally:
        collection.close()
    chosen = [id_ for number, id_ in enumerate(named) if wanted in (None, number % 2)]
    keywords = dict(zip(named, keyword_scores(words, [text for text, _ in documents]), strict=True))
    cosines = {id_: float(named[id_][1] @ vector_D) for id_ in chosen}
    sums = {id_: cosines[id_] + KEYWORD_WEIGHT * keywords[id_] * (1 - cosines[id_]) for id_ in chosen}
    dense, by_words = order(cosines), order({id_: keywords[id_] for id_ in chosen if keywords[id_] > 0})
    hybrid: FOUND = [
        (id_, sums[id_], dense.index(id_) + 1, rank_in(by_words, id_, len(by_words))) for id_ in order(rounded(sums))
    ]
    check(found[0], hybrid[:top_k])
    check(found[1], [(id_, cosines[id_], rank, None) for rank, id_ in enumerate(dense[:top_k], 1)])
    check(
        found[2],
        [(id_, keywords[id_], None, rank) for rank, id_ in enumerate(order(rounded(keywords)), 1) if id_ in by_words][
            :top_k
        ],
    )


def rounded(scores: dict[str, float]) -> dict[str, float]:
    """Without the last bits, in which SQLite's sums may differ from Python's."""
    return {id_: round(score, 9) for id_, score in scores.items()}


def check(found: FOUND, expected: FOUND) -> None:
    assert [score for _, score, _, _ in found] == pytest.approx([score for _, score, _, _ in expected])
    assert [one[0] for one in found] == [one[0] for one in expected]


def test_the_document_that_names_the_code_is_first_and_says_why(collection: Collection) -> None:
    put(
        collection,
        {
            "blender": ("The blender stops after a minute", np.asarray([0.6, 0.8, 0, 0], np.float32)),
            "oven": ("Oven shows error code E4", np.asarray([0.5, 0, 0.8660254, 0], np.float32)),
            "fridge": ("The fridge hums", np.asarray([0, 0, 1, 0], np.float32)),
            "lamp": ("A lamp for the desk", np.asarray([0, 0, 0, 1], np.float32)),
        },
    )
    dense, hybrid = (
        summary(collection.search_all([query], top_k=2)[0])
        for query in (Query(CORNERS[0]), Query(CORNERS[0], "error code e4"))
    )
    assert [one[0] for one in dense] == ["blender", "oven"]
    (first, score, *ranks), (second, *_) = hybrid
    assert (first, second, ranks) == ("oven", "blender", [2, 1])
    assert 0.6 < score < 0.5 + KEYWORD_WEIGHT * 0.5


def test_no_word_in_common_leaves_cosines_as_they_are(collection: Collection) -> None:
    put(collection, {"a": ("eins", CORNERS[0]), "b": ("zwei", np.full(DIM, 0.5, np.float32))})
    shown = ResultOptions(min_score=0.4)
    assert summary(collection.search_all([Query(CORNERS[0], "one two")], top_k=5, options=shown)[0]) == [
        ("a", 1.0, 1, None),
        ("b", 0.5, 2, None),
    ]


def test_a_word_brings_in_a_document_that_vectors_would_not_find(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "DEPTH", 2)
    near = {f"near{number}": ("nothing", np.asarray([0.8, 0.6, 0, 0], np.float32)) for number in range(9)}
    put(collection, near | {"far": ("kettle", np.asarray([0.7, 0.7141428, 0, 0], np.float32))})
    (match,) = collection.search_all([Query(CORNERS[0], "kettle")], top_k=1)[0]
    assert (match.document.id, match.dense_rank, match.keywords_rank) == ("far", None, 1)


def test_each_page_is_the_next_part_of_the_same_order(collection: Collection) -> None:
    generator = np.random.default_rng(0)
    rows_ND = generator.standard_normal((300, DIM)).astype(np.float32)
    rows_ND /= np.linalg.norm(rows_ND, axis=1, keepdims=True)
    put(collection, {str(number): (f"word{number % 7} kettle", row_D) for number, row_D in enumerate(rows_ND)})
    query = Query(CORNERS[0], "word3")
    whole: list[Any] = [one.document.id for one in collection.search_all([query], top_k=60)[0]]
    pages = [
        collection.search_all([query], top_k=end, options=ResultOptions(offset=end - 20))[0] for end in (20, 40, 60)
    ]
    assert [one.document.id for page in pages for one in page] == whole
