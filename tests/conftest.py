from pathlib import Path

import pytest

from tests.artifacts import build_artifact


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny real artifact; read-only for tests."""
    folder = tmp_path_factory.mktemp("tiny")
    build_artifact(folder)
    return folder
