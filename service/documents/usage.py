"""Holds a key to its quota: what the collections that it may write hold together.

P passages, D dims
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from service.documents.collections import NO_VERSIONS, Collections, Versions
from service.documents.document import Document, Vectors, bytes_of
from service.documents.interface import DocumentIndex, MetadataChange
from service.errors import NotFound, StorageFull
from service.keys import Grant, Quota

REMEMBERED_S = 60.0  # bytes in Milvus, which others may change; counting them reads every document


@dataclass(frozen=True)
class _Counted:
    """Bytes of a collection: of its last change, or, where others may write it, of a moment of `time.monotonic`."""

    size_bytes: int
    change: int | None
    at: float


class Usage:
    """What collections hold. One thread calls `put` and `update_metadata`; any may call `check`."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._counted: dict[str, _Counted] = {}

    def check(self, grant: Grant, name: str, documents: Sequence[Document]) -> int:
        """Refuse documents that would take the grant's collections over its quota. Return how many bytes are new.

        Raises: StorageFull.
        """
        stored = self._collections.documents_of(name, [document.id for document in documents])
        new_bytes = sum(map(bytes_of, documents)) - sum(map(bytes_of, stored.values()))
        self._room_of(grant)(len(documents) - len(stored), new_bytes)
        return new_bytes

    def put(
        self,
        grant: Grant,
        name: str,
        documents: Sequence[Document],
        vectors_PD: Vectors,
        versions: Versions = NO_VERSIONS,
    ) -> int:
        """As `Collections.put`, within the grant's quota. Raises: StorageFull, and what that does."""
        new_bytes = self.check(grant, name, documents)
        revision = self._collections.put(name, documents, vectors_PD, versions)
        self._follow(grant, name, new_bytes)
        return revision

    def update_metadata(self, grant: Grant, name: str, id_: str, change: MetadataChange) -> int | None:
        """As `DocumentIndex.update_metadata`, within the grant's quota. Raises: StorageFull, and what that does."""
        check_room, new_bytes = self._room_of(grant), 0  # counted before the change begins

        def checked(before: dict[str, Any]) -> Mapping[str, Any]:
            nonlocal new_bytes
            size_bytes = len(orjson.dumps(before))  # `change` may change them in place
            after = change(before)
            new_bytes = len(orjson.dumps(after)) - size_bytes
            check_room(0, new_bytes)
            return after

        revision = self._collections.of(name).update_metadata(id_, checked)
        if revision is not None:
            self._follow(grant, name, new_bytes)
        return revision

    def _room_of(self, grant: Grant) -> Callable[[int, int], None]:
        """Return what refuses so many new documents and bytes if they exceed the quota. Raises: StorageFull."""
        quota, held = grant.quota or Quota(), {"documents": 0, "bytes": 0}
        for name, index in self._collections.named().items():
            if grant.may_write(name):
                with suppress(NotFound):  # it was dropped meanwhile
                    held["documents"] += len(index) if quota.max_documents is not None else 0
                    held["bytes"] += self._bytes_of(name, index) if quota.max_bytes is not None else 0

        def check(new_documents: int, new_bytes: int) -> None:
            wanted = (("documents", new_documents, quota.max_documents), ("bytes", new_bytes, quota.max_bytes))
            for what, new, most in wanted:
                if most is not None and new > 0 and held[what] + new > most:
                    raise StorageFull(
                        f"the collections that this key writes would hold {held[what] + new} {what}; its limit is "
                        f"{most} ({what}= in CROSSLET_API_KEYS): delete documents, or ask for a larger limit"
                    )

        return check

    def _bytes_of(self, name: str, index: DocumentIndex) -> int:
        """Return the bytes of a collection; counted anew if it has changed since, or may have."""
        known, last_change, now = self._counted.get(name), index.last_change, time.monotonic()
        is_old = known is None or (
            now - known.at > REMEMBERED_S if last_change is None else known.change != last_change
        )
        if known is None or is_old:
            known = self._counted[name] = _Counted(index.content_bytes(), last_change, now)
        return known.size_bytes

    def _follow(self, grant: Grant, name: str, new_bytes: int) -> None:
        """Follow a change by this thread, which has counted the collection just before, if bytes have a limit."""
        if grant.quota is None or grant.quota.max_bytes is None:
            return
        if (known := self._counted.get(name)) is not None:
            change = self._collections.of(name).last_change
            self._counted[name] = _Counted(known.size_bytes + new_bytes, change, known.at)
