import threading
from typing import Any

import pytest

from benchmarks.reads_beside_writes import _writing


class FullDisk:
    """A collection that takes one put."""

    def __init__(self) -> None:
        self.puts = 0
        self.is_full = threading.Event()

    def put(self, documents: Any, vectors_ND: Any) -> None:
        self.puts += 1
        if self.puts > 1:
            self.is_full.set()
            raise OSError("no room")


def test_a_writer_that_ends_early_is_an_error() -> None:
    collection: Any = FullDisk()
    with pytest.raises(OSError, match="no room"), _writing(collection, 1, existing=10):
        assert collection.is_full.wait(10)
    with _writing(collection, 0, existing=10) as count_writes:  # nothing is written: nothing can fail
        pass
    assert count_writes() == 0
