from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.documents.collections import Collection
from tests.service.documents.stores import Open, open_collection


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Opens the collection in the test's folder; the one opened before is closed first."""
    opened: list[Collection] = []

    def close() -> None:
        while opened:
            opened.pop().close()

    def reopen_(**options: Any) -> Collection:
        close()
        opened.append(open_collection(tmp_path, **options))
        return opened[0]

    yield reopen_
    close()


@pytest.fixture
def collection(reopen: Open) -> Collection:
    return reopen()
