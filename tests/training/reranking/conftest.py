from pathlib import Path

import pytest

from tests.training.reranking.small import student_base, write_data


@pytest.fixture(scope="package")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("rerank") / "data")


@pytest.fixture(scope="package")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return student_base(tmp_path_factory.mktemp("base") / "student")
