"""How a key is held to its quota, whoever else writes its collections."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.documents.collections import Collection, Collections
from service.documents.document import Document, bytes_of
from service.documents.usage import Usage
from service.errors import NotFound, StorageFull
from service.keys import Grant, Quota
from tests.service.documents.stores import unit_vectors
from tests.service.documents.test_collections import opened

BOTH = frozenset({"a", "b"})


@pytest.fixture
def collections(tmp_path: Path) -> Iterator[Collections]:
    with closing(opened(tmp_path)) as collections:
        yield collections


def grant_of(*, documents: int | None = None, size_bytes: int | None = None) -> Grant:
    return Grant(frozenset(), BOTH, Quota(documents, size_bytes))


def put(usage: Usage, grant: Grant, name: str, *documents: Document) -> None:
    usage.put(grant, name, documents, unit_vectors(len(documents)))


def test_what_others_write_counts_at_once(collections: Collections) -> None:
    usage, small = Usage(collections), Document("1", "x" * 10, {})
    grant = grant_of(size_bytes=bytes_of(small) + 50)
    put(usage, grant, "a", small)
    collections.put("a", [Document("2", "x" * 40, {})], unit_vectors(1))
    with pytest.raises(StorageFull, match="bytes= in CROSSLET_API_KEYS"):
        put(usage, grant, "b", Document("3", "x" * 10, {}))
    collections.of("a").update_metadata("2", lambda _: {"much": "y" * 90})
    with pytest.raises(StorageFull):
        usage.update_metadata(grant, "a", "1", lambda _: {"k": 1})
    collections.drop("a")
    put(usage, grant, "b", Document("3", "x" * 10, {}))


def test_a_full_collection_may_shrink(collections: Collections) -> None:
    usage, grant = Usage(collections), grant_of(documents=1, size_bytes=10)
    collections.put("a", [Document("1", "x" * 40, {"k": 1}), Document("2", "x", {})], unit_vectors(2))
    put(usage, grant, "a", Document("1", "x" * 39, {"k": 1}))
    assert usage.update_metadata(grant, "a", "1", lambda _: {}) is not None
    with pytest.raises(StorageFull):
        put(usage, grant, "a", Document("1", "x" * 42, {}))


def test_a_key_counts_once_while_it_alone_writes(collections: Collections, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Collection] = []
    count: Callable[[Collection], int] = Collection.content_bytes
    monkeypatch.setattr(Collection, "content_bytes", lambda index: counted.append(index) or count(index))
    usage, grant = Usage(collections), grant_of(size_bytes=10**6)
    for number in range(5):
        put(usage, grant, "a", Document(str(number), "x" * number, {"n": number}))
        usage.update_metadata(grant, "a", str(number), lambda before: {**before, "more": "é"})
    assert len(counted) == 1
    held = usage._bytes_of("a", collections.of("a"))
    assert held == count(collections.of("a"))  # type: ignore[arg-type]
    assert len(counted) == 1


def test_what_is_not_there_is_told_apart(collections: Collections) -> None:
    usage, grant = Usage(collections), grant_of(documents=1)
    with pytest.raises(NotFound):
        usage.update_metadata(grant, "b", "1", lambda _: {})
    put(usage, grant, "b", Document("1", "x", {}))
    assert usage.update_metadata(grant, "b", "2", lambda _: {}) is None
