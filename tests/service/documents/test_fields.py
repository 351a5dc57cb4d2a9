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
from hypothesis import given
from hypothesis import strategies as st

from service.document_index import load_collection
from service.documents.document import Document
from service.documents.filters import MOST_MARKS, comparable
from service.documents.interface import DocumentIndex
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from service.settings import Settings

DIM = 4
EAST = np.eye(1, DIM, dtype=np.float32)
DECOMPOSED = "e\u0301"


def opened(folder: Path) -> DocumentIndex:
    model: Any = SimpleNamespace(fingerprint="a" * 64, dim=DIM)
    return load_collection(Settings(data=folder), model)


def faults(folder: Path) -> list[str]:
    with open_store_file(folder / "documents.sqlite3") as file:
        return verify(file)


def make_of_other_rules(folder: Path) -> None:
    """Leave the store as one whose rules compared without NFC."""
    with closing(sqlite3.connect(folder / "documents.sqlite3")) as connection:
        connection.execute("DELETE FROM store WHERE key = 'fields'")
        replace = "UPDATE fields SET key = replace(key, 'é', ?1), value = replace(value, 'é', ?1) WHERE row = 1"
        connection.execute(replace, [DECOMPOSED])
        connection.commit()


def test_start_renews_fields_of_other_rules(tmp_path: Path) -> None:
    index = opened(tmp_path)
    metadata = {"a": {f"k{DECOMPOSED}": [DECOMPOSED, 1]}, "b": {"n": 1}, "c": {"é": "é"}}
    index.put([Document(id_, "text", one) for id_, one in metadata.items()], EAST.repeat(3, axis=0))
    index.close()
    make_of_other_rules(tmp_path)
    assert faults(tmp_path) == []
    index = opened(tmp_path)
    assert (index.count({"ké": "é"}), index.count({"é": DECOMPOSED}), index.count({"n": 1})) == (1, 1, 1)
    assert index.get("a").metadata == metadata["a"]  # type: ignore[union-attr]
    index.close()
    assert faults(tmp_path) == []


def test_a_store_of_todays_rules_is_checked(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.put([Document("a", "text", {DECOMPOSED: 1})], EAST)
    index.close()
    make_of_other_rules(tmp_path)
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "documents.sqlite3")) as connection:
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
