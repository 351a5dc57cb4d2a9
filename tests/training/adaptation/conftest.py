from pathlib import Path

import pytest

from export.__main__ import main as export
from tests.export.checkpoints import PARITY_TEXTS, save_student, write_record
from tests.training.alignment.files import PAIRS, write_pairs


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random student with its record; read-only for tests."""
    folder = tmp_path_factory.mktemp("student")
    save_student(folder, layers=2, width=32)
    write_record(folder, calibration_texts=[text for texts in PARITY_TEXTS.values() for text in texts])
    return folder


@pytest.fixture(scope="session")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in int8, words in 4 bits; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "student"
    assert export(["--checkpoint", str(checkpoint), "--out", str(out), "--word-bits", "4"]) == 0
    return out


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "en-de.tsv", PAIRS[:200])
