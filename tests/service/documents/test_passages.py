"""Documents in several passages, against brute force; through changes, reopening, and inverted lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.ingest import join_passages, parts_of, vectors_of
from service.documents.interface import Query, ResultOptions
from service.documents.keywords.terms import query_terms
from service.documents.search import best_passage, exact_cosines
from service.errors import InvalidInput, StorageFull
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import (
    DIM,
    INVERTED,
    STORE,
    Open,
    count,
    open_collection,
    open_store,
    read_page,
    recorded,
    unit_vectors,
    wait_for,
)

Vectors = np.ndarray


def document(id_: str, count: int, metadata: Mapping[str, Any] | None = None) -> Document:
    """One of so many passages, each of ten characters."""
    text = "".join(f"{id_[:4]:4}{number:5} " for number in range(count)).rstrip()
    spans = tuple((start, min(start + 10, len(text))) for start in range(0, len(text), 10))
    return Document(id_, text, dict(metadata or {}), spans if count > 1 else ())


def put(collection: Collection, vectors: Mapping[str, Sequence[Vectors]], **metadata: Any) -> None:
    documents = [document(id_, len(rows), metadata) for id_, rows in vectors.items()]
    collection.put(documents, np.array([row for rows in vectors.values() for row in rows], np.float32))


def found(collection: Collection, vector_D: Vectors, top_k: int, **options: Any) -> list[tuple[str, float]]:
    matches = search_one(collection, np.asarray(vector_D, np.float32), top_k=top_k, **options)
    return [(match.document.id, match.score) for match in matches]


def best_of(vectors: Mapping[str, Sequence[Vectors]], query_D: Vectors, top_k: int) -> list[tuple[str, float]]:
    """The oracle: each document has the score of its best passage; ties by id."""
    scores = {id_: max(float(np.clip(row @ query_D, -1, 1)) for row in rows) for id_, rows in vectors.items()}
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:top_k]


# Small integers, and a quarter of them: every inner product is exact and at most 1, and many passages tie.
ROWS = st.lists(st.integers(-1, 1), min_size=DIM, max_size=DIM).map(lambda row: np.asarray(row, np.float32))
CHANGES = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.lists(ROWS, max_size=5), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(changes=CHANGES, query_D=ROWS, top_k=st.integers(1, 9))
def test_search_equals_brute_force_over_best_passages(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, list[Vectors]]], query_D: Vectors, top_k: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    query_D = query_D / DIM
    collection = open_collection(folder)
    there: dict[str, list[Vectors]] = {}
    for change in changes:  # no rows: the document is removed
        gone = [id_ for id_, rows in change.items() if not rows]
        collection.delete(gone)
        there = {id_: rows for id_, rows in there.items() if id_ not in gone}
        kept = {id_: rows for id_, rows in change.items() if rows}
        put(collection, kept, few=True)
        there |= kept
    assert len(collection) == count(collection) == count(collection, {"few": True}) == len(there)
    expected = best_of(there, query_D, top_k)
    assert found(collection, query_D, top_k) == expected
    assert found(collection, query_D, top_k, filter_={"few": True}) == expected
    collection.close()
    again = open_collection(folder)
    assert found(again, query_D, top_k) == expected
    again.close()
    with open_store_file(folder / STORE) as file:
        faults = verify(file)
        assert [fault for fault in faults if "norm" not in fault] == []  # these vectors are of any length
        assert file.passages() == sum(map(len, there.values()))


def test_many_near_passages_do_not_hide_other_documents(collection: Collection) -> None:
    near, far = [0.6, 0.8, 0, 0], [0, 0.6, 0.8, 0]
    put(collection, {"long": [near] * 300, "b": [far], "c": [far, [0, 0, 1, 0]]})
    assert [id_ for id_, _ in found(collection, np.array([0, 1, 0, 0]), 3)] == ["long", "b", "c"]
    assert [id_ for id_, _ in found(collection, np.array([0, 1, 0, 0]), 9)] == ["long", "b", "c"]


def test_finding_passages_ends_with_the_deadline(collection: Collection) -> None:
    put(collection, {"a": [[1, 0, 0, 0], [0, 1, 0, 0]]})
    queries = [Query(np.array([1, 0, 0, 0], np.float32))]
    for shown in (ResultOptions(timeout_s=60), ResultOptions(timeout_s=0, passage=False)):
        assert [match.document.id for match in collection.search_all(queries, top_k=1, options=shown)[0]] == ["a"]
    with pytest.raises(InvalidInput, match="finding the passages takes longer than 0 s"):
        collection.search_all(queries, top_k=1, options=ResultOptions(timeout_s=0))


def test_vectors_of_passages_are_read_in_chunks(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    put(collection, {f"d{number}": [[1, 0, 0, 0], [0, 1, 0, 0]] for number in range(9)})
    monkeypatch.setattr("service.documents.search.CHUNK_SPLIT_ROWS", 2)
    read = recorded(monkeypatch, "vectors_of_documents")
    with collection._store.snapshot() as snapshot:
        rows, scores = exact_cosines(snapshot, range(1, 10), np.array([0, 1, 0, 0], np.float32))
    assert (len(rows), scores.tolist(), [len(chunk) for chunk in read]) == (9, [1.0] * 9, [2, 2, 2, 2, 1])


def test_a_filter_and_a_deletion_by_filter_mean_documents(collection: Collection) -> None:
    put(collection, {"a": [[1, 0, 0, 0], [0, 1, 0, 0]], "b": [[0, 0, 1, 0], [0, 0, 0, 1]]}, lang="de")
    put(collection, {"c": [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]}, lang="en")
    assert found(collection, np.array([0, 1, 0, 0]), 9, filter_={"lang": "en"}) == [("c", 1.0)]
    assert count(collection, {"lang": "de"}) == 2
    assert collection.delete_matching({"lang": "de"}) == 2
    assert found(collection, np.array([1, 0, 0, 0]), 9) == [("c", 0.0)]
    assert len(collection) == 1
    assert [one.id for one in read_page(collection).documents] == ["c"]


def test_a_document_made_shorter_leaves_no_passage_behind(collection: Collection) -> None:
    put(collection, {"a": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]})
    before = collection.size_bytes
    put(collection, {"a": [[0, 0, 0, 1]]})
    assert collection.size_bytes == before / 3
    assert found(collection, np.array([1, 0, 0, 0]), 1) == [("a", 0.0)]
    put(collection, {"a": [[1, 0, 0, 0], [0, 1, 0, 0]]})
    assert collection.size_bytes == before * 2 / 3
    stored = collection.get("a")
    assert stored is not None
    assert stored.passages == ((0, 10), (10, 19))


def test_the_match_has_the_passage_that_is_nearest(collection: Collection) -> None:
    put(collection, {"a": [[1, 0, 0, 0], [0, 1, 0, 0]], "b": [[0, 0, 1, 0]]})
    first, second = search_one(collection, np.array([0, 1, 0, 0], np.float32), top_k=2)
    assert first.passage is not None
    assert (first.passage.start, first.passage.stop) == (10, 19)
    assert first.document.text[10:19] == first.passage.text
    assert second.passage is None  # in one piece
    unasked = collection.search_all(
        [Query(np.array([0, 1, 0, 0], np.float32))], top_k=1, options=ResultOptions(passage=False)
    )
    assert unasked[0][0].passage is None


@pytest.mark.parametrize(("words", "place"), [("beta", 1), ("gamma", 2), ("alpha delta", 0), ("none", 0)])
def test_keywords_find_document_and_passage(collection: Collection, words: str, place: int) -> None:
    text = "alpha delta beta gamma delta"
    spans = ((0, 11), (12, 16), (17, 28))
    collection.put([Document("a", text, {}, spans)], np.eye(3, DIM, dtype=np.float32))
    (matches,) = collection.search_all([Query(words=words)], top_k=3)
    if words == "none":
        assert matches == []
        return
    (match,) = matches
    assert match.passage is not None
    assert (match.passage.start, match.passage.stop) == spans[place]


def test_words_outweigh_a_small_difference_of_cosines() -> None:
    text = "the motor stops. error E4 means heat."
    vectors_PD = np.array([[0.6, 0.8], [0.5, np.sqrt(0.75)]], np.float32)
    query_D = np.array([1, 0], np.float32)
    spans = ((0, 16), (17, 37))
    assert best_passage(text, spans, vectors_PD, query_D, {}).start == 0
    assert best_passage(text, spans, vectors_PD, query_D, query_terms("what is E4?")).start == 17


def test_inverted_lists_rank_by_best_passage(reopen: Open) -> None:
    rows_PD = unit_vectors(1500)
    there = {f"{number:03}": list(rows_PD[5 * number : 5 * number + 5]) for number in range(300)}
    collection = reopen(exact_rows=400)
    put(collection, there)
    wait_for(lambda: collection.backend == INVERTED)
    changed = {id_: [rows[0]] for id_, rows in list(there.items())[::3]}
    put(collection, changed)
    collection.delete(["001", "004"])
    there = {id_: rows for id_, rows in (there | changed).items() if id_ not in {"001", "004"}}
    queries = unit_vectors(20, seed=1)

    def shares(collection: Collection) -> float:
        """How many of the ten best are found, each with its exact score."""
        right = 0
        for query_D in queries:
            ranked, hits = best_of(there, query_D, 300), dict(found(collection, query_D, 10))
            assert len(hits) == 10
            assert hits == pytest.approx({id_: score for id_, score in ranked if id_ in hits}, abs=1e-6)
            right += len(hits.keys() & {id_ for id_, _ in ranked[:10]})
        return right / 200

    assert shares(collection) > 0.95
    again = reopen(exact_rows=400)
    assert again.backend == INVERTED
    assert shares(again) > 0.95
    assert len(again) == len(there)


def test_what_does_not_fit_is_refused_by_its_passages(reopen: Open) -> None:
    collection = reopen(max_index_bytes=3 * (4 * DIM + 8))
    put(collection, {"a": [[1, 0, 0, 0]] * 2})
    with pytest.raises(StorageFull):
        collection.check_room([document("b", 2)])
    with pytest.raises(StorageFull):
        put(collection, {"b": [[1, 0, 0, 0]] * 2})
    put(collection, {"a": [[1, 0, 0, 0]] * 3})  # in place of two
    assert len(collection) == 1


def test_vectors_that_do_not_fit_the_passages_change_nothing(collection: Collection) -> None:
    with pytest.raises(ValueError, match="1 documents have 3 passages, but there are 2 vectors"):
        collection.put([document("a", 3)], np.eye(2, DIM, dtype=np.float32))
    assert collection.get("a") is None


def test_a_store_of_whole_documents_looks_no_passage_up(collection: Collection) -> None:
    put(collection, {"a": [[1, 0, 0, 0]], "b": [[0, 1, 0, 0]]})
    assert collection.is_chunked(None)
    with collection._store.snapshot() as snapshot:
        assert not snapshot.has_own_numbers
    put(collection, {"a": [[1, 0, 0, 0]] * 2})
    with collection._store.snapshot() as snapshot:
        assert snapshot.has_own_numbers


def test_a_document_fails_with_any_of_its_passages() -> None:
    documents = [document("a", 2), document("b", 1), document("c", 3)]
    assert len(parts_of(documents)) == 6
    rows_PD = np.arange(10, dtype=np.float32).reshape(5, 2)  # all but the second of c
    kept, vectors_PD, failed = join_passages(documents, rows_PD, failed={4: "why"}, truncated=[1])
    assert [(one.id, one.is_truncated) for one in kept] == [("a", True), ("b", False)]
    assert vectors_PD.tolist() == rows_PD[:3].tolist()
    assert failed == {2: "why"}
    assert vectors_of(kept, vectors_PD, [1]).tolist() == rows_PD[2:3].tolist()


def test_truncated_documents_are_found_by_an_index(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.transaction() as transaction:
        cuts = {"a": None, "b": True, "c": False}
        documents = [replace(document(id_, 1), is_truncated=cut) for id_, cut in cuts.items()]
        transaction.upsert(documents, np.eye(3, DIM, dtype=np.float32))
        transaction.commit()
    query = "SELECT row FROM documents WHERE collection = ? AND is_truncated = 1 ORDER BY row"
    with store.snapshot() as snapshot:
        assert snapshot.truncated().tolist() == [2]
        plan = snapshot._connection.execute(f"EXPLAIN QUERY PLAN {query}", (1,)).fetchall()
    assert "USING COVERING INDEX documents_truncated" in str(plan)
    store.close()
