"""Stores and collections for the tests of documents, and what they put in, look for and wait for."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document, Page
from service.documents.interface import DocumentIndex, PageRequest
from service.documents.store.store import DocumentStore, Snapshot
from service.errors import Damaged
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from tests.service.documents.oracle import search_one

DIM, STORE = 4, "documents.sqlite3"
INVERTED = "faiss-ivf-sq8"
Open = Callable[..., Collection]


def open_store(folder: Path, *, fingerprint: str = "aa", dim: int = DIM, **options: Any) -> DocumentStore:
    return DocumentStore(folder / STORE, fingerprint=fingerprint, dim=dim, **options)


def open_collection(
    folder: Path,
    *,
    fingerprint: str = "aa",
    dim: int = DIM,
    exact_rows: int = 20_000,
    read_only: bool = False,
    **limits: Any,
) -> Collection:
    """A damaged store is closed again."""
    store = open_store(folder, fingerprint=fingerprint, dim=dim, read_only=read_only)
    try:
        options = IndexOptions(folder, fingerprint, dim, exact_documents=exact_rows, **limits)
        return Collection(store, options, read_only=read_only)
    except Damaged:
        store.close()
        raise


def count_stored(folder: Path, **options: Any) -> int:
    """The number of documents that a service would start with."""
    with closing(open_collection(folder, **options)) as collection:
        return len(collection)


def faults(folder: Path) -> list[str]:
    """What `crosslet index verify` says of the store."""
    with open_store_file(folder / STORE) as file:
        return verify(file)


def unit(*values: float) -> np.ndarray:
    vector = np.asarray(values, np.float32)
    return vector / np.linalg.norm(vector)


def unit_vectors(count: int, dim: int = DIM, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    unit_ND: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit_ND


EAST, NORTH, UP = np.eye(3, DIM, dtype=np.float32)


def put(index: DocumentIndex, vectors: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None) -> int:
    documents = [Document(id_, f"text of {id_}", dict(metadata or {})) for id_ in vectors]
    return index.put(documents, np.stack(list(vectors.values())))


def put_numbered(index: DocumentIndex, vectors_ND: np.ndarray, *, first: int = 0) -> None:
    """Put documents d<first>, ...; `half` says whether the number is even."""
    numbers = range(first, first + len(vectors_ND))
    index.put([Document(f"d{number}", "text", {"half": number % 2 == 0}) for number in numbers], vectors_ND)


def count(index: DocumentIndex, filter_: Mapping[str, Any] | None = None, *, timeout_s: float | None = None) -> int:
    return index.counts([], most_values=0, filter_=filter_, timeout_s=timeout_s)[0]


def read_page(
    index: DocumentIndex, *, after_row: int = 0, limit: int = 9, max_chars: int = 10**6, **options: Any
) -> Page:
    return index.page(PageRequest(after_row=after_row, limit=limit, max_chars=max_chars, **options))


def ids(index: DocumentIndex, vector_D: np.ndarray, top_k: int, **options: Any) -> list[str]:
    return [match.document.id for match in search_one(index, vector_D, top_k=top_k, **options)]


def recorded(monkeypatch: pytest.MonkeyPatch, method: str) -> list[Any]:
    """The first argument of each further call of a method of `Snapshot`."""
    arguments: list[Any] = []
    original = getattr(Snapshot, method)

    def record(snapshot: Snapshot, argument: Any, **options: Any) -> Any:
        arguments.append(argument)
        return original(snapshot, argument, **options)

    monkeypatch.setattr(Snapshot, method, record)
    return arguments


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)
