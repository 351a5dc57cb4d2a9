"""Refuses documents whose vectors do not fit. Knows the limits and the sizes; changes nothing."""

from collections.abc import Callable, Sequence

from service.documents.protocol import VectorIndex
from service.documents.store.store import Document, DocumentStore
from service.errors import StorageFull


class Room:
    """The room for vectors.

    Args: max_index_bytes: memory limit for the vectors of all collections, 0 = no limit.
          others_bytes: memory of the vectors of the other collections.
          check_memory: raises StorageFull if the process has no room for that many more bytes.
    """

    def __init__(
        self,
        store: DocumentStore,
        *,
        max_index_bytes: int,
        others_bytes: Callable[[], int],
        check_memory: Callable[[int], None],
    ) -> None:
        self._store = store
        self._max_index_bytes = max_index_bytes
        self._others_bytes = others_bytes
        self.check_memory = check_memory

    def check(self, index: VectorIndex, documents: Sequence[Document], replaced: Sequence[int]) -> None:
        """Check the room for documents. replaced: the rows of those that are there.

        Raises: StorageFull: `max_index_bytes` or the process's memory is full.
        """
        there = len(self._store.passages.numbers_of(replaced)) if replaced else 0
        new = sum(len(document.spans) for document in documents) - there
        if new <= 0:
            return
        needed = self._others_bytes() + index.size_bytes + new * index.row_bytes
        if self._max_index_bytes and needed > self._max_index_bytes:
            raise StorageFull(
                f"the index would take {needed} bytes; the limit is {self._max_index_bytes} (CROSSLET_MAX_INDEX_BYTES)"
            )
        self.check_memory(index.growth_bytes(new))
