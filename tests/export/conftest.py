from pathlib import Path

import pytest

from export.__main__ import main
from tests.export.checkpoints import MINILM, STS_PAIRS, save_student, write_record


@pytest.fixture(scope="session")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with its record: one layer applied twice, a head of 24 dims; read-only for tests."""
    folder = tmp_path_factory.mktemp("student")
    save_student(folder, layers=1, recurrences=2, dim=24)
    write_record(folder)
    return folder


@pytest.fixture(scope="session")
def student_artifact(student: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student as fp32; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "student"
    assert main(["--checkpoint", str(student), "--out", str(out), "--precision", "fp32"]) == 0
    return out


@pytest.fixture(scope="session")
def sts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sts") / "pairs.tsv"
    path.write_text("".join(f"{score}\t{left}\t{right}\n" for score, left, right in STS_PAIRS), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def minilm_artifact(sts_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2, a checkpoint of others without a record, as int8; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "minilm"
    options = ["--name", "all-MiniLM-L6-v2", "--languages", "en", "--sts", str(sts_file), "--max-sts-drop", "20"]
    assert main(["--checkpoint", str(MINILM), "--out", str(out), "--precision", "int8", *options]) == 0
    return out
