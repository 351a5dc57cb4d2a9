import sqlite3
import sys
import time
import unicodedata
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.document_index import load_collection
from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.filters import MAX_DEPTH, MAX_TERMS, MOST_MARKS, comparable
from service.documents.interface import DocumentIndex
from service.errors import InvalidInput
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from service.settings import Settings
from tests.contract.filter_oracle import FILTERS, METADATA, matches
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import DIM, EAST, STORE, count, ids, open_collection, put

DECOMPOSED = "e\u0301"


# Small integers: every inner product is exact, so that ties are ties for the oracle too.
INTEGER_VECTORS = st.lists(st.integers(-2, 2), min_size=DIM, max_size=DIM).map(lambda row: np.asarray(row, np.float32))


@settings(max_examples=120)
@given(
    documents=st.lists(st.tuples(INTEGER_VECTORS, METADATA), min_size=1, max_size=12),
    query=INTEGER_VECTORS,
    filter_=st.none() | FILTERS,
    top_k=st.integers(1, 14),
)
def test_filtered_search_equals_brute_force_over_matches(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[tuple[np.ndarray, dict[str, Any]]],
    query: np.ndarray,
    filter_: dict[str, Any] | None,
    top_k: int,
) -> None:
    entries = [Document(f"d{number}", "text", metadata) for number, (_, metadata) in enumerate(documents)]
    with closing(open_collection(tmp_path_factory.mktemp("store"))) as collection:
        collection.put(entries, np.stack([vector for vector, _ in documents]))
        found = search_one(collection, query, top_k=top_k, filter_=filter_)
    clipped = [
        (-float(np.clip(vector @ query, -1, 1)), -float(vector @ query), entry.id)
        for entry, (vector, _) in zip(entries, documents, strict=True)
        if filter_ is None or matches(filter_, entry.metadata)
    ]
    # The nearest are chosen before scores are clipped to [-1, 1]; unit vectors never meet the difference.
    chosen = sorted(clipped, key=lambda row: (row[1], row[2]))[:top_k]
    assert {match.document.id for match in found} <= {id_ for _, _, id_ in clipped}
    assert len(found) == len(chosen)
    assert [match.score for match in found] == [-score for score, _, _ in sorted(chosen)]


def nested(depth: int) -> dict[str, Any]:
    filter_: dict[str, Any] = {"x": 1}
    for _ in range(depth):
        filter_ = {"not": filter_}
    return filter_


@pytest.mark.parametrize(
    "filter_",
    [
        *({"and": []}, {"or": {"x": 1}}, {"not": {}}, {"not": 3}, {"x": {}}, {"x": [1]}, {"x.y": {"z": 1}}),
        *({"x": {"like": "a"}}, {"x": {"in": []}}, {"x": {"in": [[1]]}}, {"x": {"gt": True}}, {"x": {"gt": None}}),
        *({"x": {"ne": [1]}}, {"x": {"ne": {}}}, {"x": {"exists": 1}}, {"x": {"exists": None}}),
        # Numbers beyond 64 bits:
        *({"x": 2**63}, {"not": {"x": 2**70}}, {"x": {"in": [1, 2**64 - 2]}}, {"x": {"lt": -(2**63) - 1}}),
        {"x": {"gt": float("inf")}},
        # Too deep, or too many terms:
        *(nested(MAX_DEPTH + 1), {"x": {"in": list(range(MAX_TERMS))}}, {"and": [{"or": [{"x": 1}] * 30}] * 30}),
        {"or": [[]] * 10**6},
    ],
)
def test_a_malformed_filter_is_invalid_input(collection: Collection, filter_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        search_one(collection, EAST, top_k=1, filter_=filter_)


def test_the_largest_filters_allowed_run(collection: Collection) -> None:
    put(collection, {"a": EAST}, {"x": 5})
    for filter_ in ({"x": {"in": list(range(MAX_TERMS - 2))}}, {"or": [{"x": 5}] * 499}, nested(13)):
        assert ids(collection, EAST, 1, filter_=filter_) == ["a"]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "$.x", "row", "x' OR 1=1 --", "ключ", "a.b", ""])
def test_any_field_name_is_only_a_name(collection: Collection, name: str) -> None:
    put(collection, {"a": EAST}, {name: name})
    put(collection, {"b": EAST}, {"other": name})
    assert ids(collection, EAST, 5, filter_={name: name}) == ["a"]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2.0**64, 1e308, 0.1, -0.0])
def test_extreme_numbers_are_found_again(collection: Collection, number: float) -> None:
    put(collection, {"a": EAST}, {"x": number})
    assert ids(collection, EAST, 5, filter_={"x": number}) == ["a"]


def opened(folder: Path) -> DocumentIndex:
    model: Any = SimpleNamespace(fingerprint="a" * 64, dim=DIM)
    return load_collection(Settings(data=folder), model)


def faults(folder: Path) -> list[str]:
    with open_store_file(folder / STORE) as file:
        return verify(file)


def make_of_other_rules(folder: Path) -> None:
    """Leave the store as one whose rules compared without NFC."""
    with closing(sqlite3.connect(folder / STORE)) as connection:
        connection.execute("DELETE FROM store WHERE key = 'fields'")
        replace = "UPDATE fields SET key = replace(key, 'é', ?1), value = replace(value, 'é', ?1) WHERE row = 1"
        connection.execute(replace, [DECOMPOSED])
        connection.commit()


def test_start_renews_fields_of_other_rules(tmp_path: Path) -> None:
    index = opened(tmp_path)
    metadata = {"a": {f"k{DECOMPOSED}": [DECOMPOSED, 1]}, "b": {"n": 1}, "c": {"é": "é"}}
    index.put([Document(id_, "text", one) for id_, one in metadata.items()], np.tile(EAST, (3, 1)))
    index.close()
    make_of_other_rules(tmp_path)
    assert faults(tmp_path) == []
    index = opened(tmp_path)
    assert (count(index, {"ké": "é"}), count(index, {"é": DECOMPOSED}), count(index, {"n": 1})) == (1, 1, 1)
    assert index.get("a").metadata == metadata["a"]  # type: ignore[union-attr]
    index.close()
    assert faults(tmp_path) == []


def test_a_store_of_todays_rules_is_checked(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.put([Document("a", "text", {DECOMPOSED: 1})], EAST[None])
    index.close()
    make_of_other_rules(tmp_path)
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / STORE)) as connection:
        connection.execute("UPDATE fields SET key = ?", [DECOMPOSED])
        connection.commit()
    assert len(faults(tmp_path)) == 1


@given(text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("e\u0301\u0316ǖ\u1112\u1161\u11ab")))
def test_strings_are_compared_in_nfc(text: str) -> None:
    assert comparable(text) == comparable(comparable(text))
    if len(text) <= MOST_MARKS:
        assert comparable(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0334\u0323\u0345", "\U0001d165\u20d0"])
def test_a_long_run_of_marks_is_compared_as_it_is(marks: str) -> None:
    run = "".join(mark * 50_000 for mark in marks)
    started_at = time.process_time()
    assert comparable(f"e{run}{DECOMPOSED}") == f"e{run}é"
    assert time.process_time() - started_at < 1


def test_no_mark_is_a_word_character() -> None:
    marks = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(char)]
    assert [mark for mark in marks if mark.isalnum()] == []
