from pathlib import Path

import pytest

from export.__main__ import main
from tests.export.reranking.checkpoints import save_reranker


@pytest.fixture(scope="session", params=["bert", "xlm-roberta"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each family, trained for a few steps; read-only for tests."""
    folder = tmp_path_factory.mktemp("reranker") / request.param
    save_reranker(folder, family=request.param)
    return folder


@pytest.fixture(scope="session")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As int8; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / checkpoint.name
    assert main(["--checkpoint", str(checkpoint), "--out", str(out), "--min-rank-correlation", "0.9"]) == 0
    return out
